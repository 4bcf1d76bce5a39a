"""Evaluation rows of tasks that users registered with seqio: texts, token ids, postprocessing and metrics."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import seqio

from t5x_like.text.cells import as_text
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.seqio_bridge.data_sources import token_examples
from t5x_like.text.seqio_bridge.seqio_vocabulary import end_of
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds

_BASELINE_LENGTH = 512  # tokens of a training target without text


class SeqioCodec:
    """A seqio vocabulary with the methods of our tokenizers that evaluation needs."""

    def __init__(self, vocabulary: seqio.Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.special = SpecialTokenIds(eos=end_of(vocabulary))

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of texts, without an end of sequence."""
        return [list(self._vocabulary.encode(text)) for text in texts]

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids."""
        return str(self._vocabulary.decode(ids))


@dataclass(frozen=True, kw_only=True)
class SeqioRows:
    """Rows of one split in order, from the task's own pipeline.

    Attributes:
      codec: The vocabulary of the targets.
      inputs: Input texts.
      targets: Target texts.
      input_ids: int32, cut to ``inputs_length``, the end of sequence included.
      target_ids: int32, cut to ``targets_length``, the end of sequence included.
      examples: All features of the pipeline, for postprocessing.
      postprocess: The task's postprocessing.
      metrics: Metric functions over predictions.
      likelihood_metrics: Metric functions over ``scores``, the log-likelihoods of the targets.
      training_targets: Yields target texts of the training split, if there is one.
    """

    codec: SeqioCodec
    inputs: list[str]
    targets: list[str]
    input_ids: list[np.ndarray]
    target_ids: list[np.ndarray]
    examples: list[dict[str, Any]]
    postprocess: Callable[..., Any]
    metrics: Sequence[MetricFunction]
    likelihood_metrics: Sequence[MetricFunction]
    training_targets: Callable[[], Iterator[str]]


def load_seqio_rows(
    name: str, split: str, *, limit: int | None, inputs_length: int, targets_length: int
) -> SeqioRows:
    """Read rows of a task's split.

    Args:
      name: Name of the task.
      split: Name of the split.
      limit: Number of rows, from the first; all if ``None``.
      inputs_length: Tokens of an input.
      targets_length: Tokens of a target.

    Raises:
      ValueError: Unknown task or split, bad rows, or no rows.
    """
    task = registration.get_task(name)
    if split not in task.splits:
        raise ValueError(f"task {name!r} has no split {split!r}; there are {', '.join(task.splits)}")
    lengths = {"inputs": inputs_length, "targets": targets_length}
    rows = list(islice(_pipeline(task, split, lengths), limit))
    if not rows:
        raise ValueError(f"task {name!r}, split {split!r}: no examples")
    return SeqioRows(
        codec=SeqioCodec(task.output_features["targets"].vocabulary),
        inputs=[_text(task, row, "inputs") for row in rows],
        targets=[_text(task, row, "targets") for row in rows],
        input_ids=[np.asarray(row.get("inputs", ()), np.int32)[:inputs_length] for row in rows],
        target_ids=[np.asarray(row.get("targets", ()), np.int32)[:targets_length] for row in rows],
        examples=rows,
        postprocess=task.postprocess_fn,
        metrics=task.predict_metric_fns,  # pyright: ignore[reportArgumentType] - may give numbers of other types
        likelihood_metrics=task.score_metric_fns,  # pyright: ignore[reportArgumentType]
        training_targets=lambda: _training_targets(task),
    )


def seqio_codec(task: str) -> SeqioCodec:
    """Return the vocabulary of a task's targets.

    Raises:
      ValueError: There is no such task, or it is a mixture.
    """
    return SeqioCodec(registration.get_task(task).output_features["targets"].vocabulary)


def _pipeline(task: seqio.Task, split: str, lengths: Mapping[str, int]) -> Iterator[dict[str, object]]:
    limits = {key: length for key, length in lengths.items() if key in task.output_features}
    return token_examples(task, task.get_dataset(limits, split, shuffle=False, seed=0))


def _text(task: seqio.Task, row: Mapping[str, Any], key: str) -> str:
    written = row.get(f"{key}_pretokenized")
    if written is not None:
        return as_text(written, "replace")
    return str(task.output_features[key].vocabulary.decode(row[key].tolist())) if key in row else ""


def _training_targets(task: seqio.Task) -> Iterator[str]:
    if "train" in task.splits:
        rows = _pipeline(task, "train", dict.fromkeys(("inputs", "targets"), _BASELINE_LENGTH))
        yield from (_text(task, row, "targets") for row in rows)
