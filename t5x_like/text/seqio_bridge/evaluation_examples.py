"""A task's questions and answers to evaluate on, and the scores of a model's answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from t5x_like.batch import Batch
from t5x_like.text import registry
from t5x_like.text.batches.buckets import bucket_lengths
from t5x_like.text.batches.features import make_batch
from t5x_like.text.metrics.baselines import majority
from t5x_like.text.objectives.objective import Example, Lengths
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.seqio_bridge.vocabulary import end_of
from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.tasks.pretraining import PretrainingTask

if TYPE_CHECKING:
    import seqio

_TRAINING_TARGETS = 100_000  # read for the baseline, at most


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Tokenised examples of one task's split, in the order of its files, unpacked."""

    task: str
    vocabulary: "seqio.Vocabulary"
    inputs_text: list[str]
    targets_text: list[str]
    input_ids: list[np.ndarray]  # int32, cut to inputs_length, end of sequence included
    target_ids: list[np.ndarray]
    features: list[dict[str, Any]]  # all that the task's pipeline gives, for its postprocessing
    lengths: Lengths
    labels: tuple[str, ...] = ()  # every answer there can be, where the task says so

    def __len__(self) -> int:
        return len(self.input_ids)

    def batches(self, batch_size: int, *, answer: str | None = None) -> Iterator[tuple[np.ndarray, Batch]]:
        """Batches of one example a row with the numbers of the examples, the last filled up with empty rows.

        Examples of like length come together, and a batch's inputs are as long as the shortest of
        ``bucket_lengths`` that holds them. ``answer`` stands for the target of every row, to see how likely a model
        finds it.
        """
        answers = self.target_ids
        if answer is not None:
            ids = list(self.vocabulary.encode(answer))[: self.lengths.targets - 1]
            answers = [np.array([*ids, end_of(self.vocabulary)], np.int32)] * len(self)
        sizes = np.array([len(ids) for ids in self.input_ids])
        by_size = np.argsort(sizes, kind="stable")
        for start in range(0, len(self), batch_size):
            numbers = by_size[start : start + batch_size]
            rows = [[Example(inputs=self.input_ids[number], targets=answers[number])] for number in numbers]
            longest = int(sizes[numbers].max())
            length = min(length for length in bucket_lengths(self.lengths.inputs) if length >= longest)
            yield (
                numbers,
                make_batch(
                    [*rows, *[[]] * (batch_size - len(rows))],
                    lengths=self.lengths._replace(inputs=length),
                    layout="encoder_decoder",
                    packed=False,
                ),
            )

    def postprocess(self, texts: Sequence[str]) -> list[Any]:
        """Decoded answers as the task's metrics want them."""
        task = registration.get_task(self.task)
        return [
            task.postprocess_fn(text, example=example, is_target=False)
            for text, example in zip(texts, self.features, strict=True)
        ]

    @property
    def targets(self) -> list[Any]:
        """True answers as the task's metrics want them."""
        task = registration.get_task(self.task)
        return [
            task.postprocess_fn(text, example=example, is_target=True)
            for text, example in zip(self.targets_text, self.features, strict=True)
        ]

    def score(self, predictions: Sequence[Any]) -> dict[str, float]:
        """The task's metrics over postprocessed predictions, one for each example."""
        return _merge(metric(self.targets, predictions) for metric in self._metrics)

    @property
    def asks_for_likelihoods(self) -> bool:
        """Whether some metric of the task wants ``scores``: how likely each true answer is found."""
        return bool(registration.get_task(self.task).score_metric_fns)

    def score_likelihoods(self, log_likelihoods: Sequence[float]) -> dict[str, float]:
        """The task's metrics over how likely a model finds each true answer (those that ask for
        ``scores``)."""
        metrics = registration.get_task(self.task).score_metric_fns
        return _merge(metric(self.targets, log_likelihoods) for metric in metrics)

    def baseline(self) -> dict[str, float]:
        """What always giving the most frequent training answer scores; empty without a training split."""
        task = registration.get_task(self.task)
        if "train" not in task.splits or not self._metrics or not len(self):
            return {}

        def postprocessed(targets: Sequence[Any], predictions: Sequence[str]) -> dict[str, float]:
            return _merge(metric(targets, self.postprocess(predictions)) for metric in self._metrics)

        return majority(_training_targets(task), self.targets, [postprocessed]).scores

    @property
    def _metrics(self) -> Sequence[Any]:
        return registration.get_task(self.task).predict_metric_fns


def load_examples(
    task: str, split: str, *, limit: int | None = None, inputs_length: int, targets_length: int
) -> Examples:
    """The first ``limit`` examples of a task's split, or all.

    Raises:
      ValueError: unknown task or split, bad rows, or a pretraining task, which has no questions.
    """
    found = registration.get_task(task)
    definition = registry.definition(task)
    if isinstance(definition, PretrainingTask):
        raise ValueError(f"{task!r} is a pretraining task: measure its loss, it has no answers to score")
    if isinstance(definition, ChatTask):
        raise ValueError(
            f"{task!r} is a task of conversations: measure its loss, it has no metrics to score answers by"
        )
    if split not in found.splits:
        raise ValueError(f"task {task!r} has no split {split!r}; there are {', '.join(found.splits)}")
    lengths = Lengths(inputs_length, targets_length)
    rows = list(islice(_pipeline(found, split, lengths), limit))
    if not rows:
        raise ValueError(f"task {task!r}, split {split!r}: no examples")
    vocabularies = {key: feature.vocabulary for key, feature in found.output_features.items()}
    return Examples(
        task=task,
        vocabulary=vocabularies["targets"],
        inputs_text=[_text(row, "inputs", vocabularies) for row in rows],
        targets_text=[_text(row, "targets", vocabularies) for row in rows],
        input_ids=[_ids(row, "inputs", lengths.inputs) for row in rows],
        target_ids=[_ids(row, "targets", lengths.targets) for row in rows],
        features=rows,
        lengths=lengths,
        labels=definition.answers if isinstance(definition, PairsTask) else (),
    )


def subtasks(name: str) -> list[str]:
    """The tasks of a mixture, or the task itself."""
    return [task.name for task in registration.tasks_of(name)]


def examples_from_text(
    inputs: Sequence[str], *, task: str, inputs_length: int, targets_length: int
) -> Examples:
    """Questions without answers, worded already, in the vocabulary of ``task``: for prediction."""
    vocabulary = registration.get_task(task).output_features["inputs"].vocabulary
    end = end_of(vocabulary)
    ids = [np.array([*vocabulary.encode(text)[: inputs_length - 1], end], np.int32) for text in inputs]
    return Examples(
        task=task,
        vocabulary=vocabulary,
        inputs_text=list(inputs),
        targets_text=[""] * len(ids),
        input_ids=ids,
        target_ids=[np.array([end], np.int32)] * len(ids),
        features=[{}] * len(ids),
        lengths=Lengths(inputs_length, targets_length),
    )


def _pipeline(task: "seqio.Task", split: str, lengths: Lengths) -> Iterator[dict[str, Any]]:
    from t5x_like.text.seqio_bridge.data_sources import numpy_examples

    limits = {key: length for key, length in lengths._asdict().items() if key in task.output_features}
    return numpy_examples(task.get_dataset(limits, split, shuffle=False, seed=0))


def _text(row: Mapping[str, Any], key: str, vocabularies: Mapping[str, "seqio.Vocabulary"]) -> str:
    written = row.get(f"{key}_pretokenized")
    if isinstance(written, bytes):
        return written.decode("utf-8", "replace")
    if key not in row:
        return ""
    return str(vocabularies[key].decode(row[key].tolist()))


def _ids(row: Mapping[str, Any], key: str, length: int) -> np.ndarray:
    return np.asarray(row.get(key, ()), np.int32)[:length]


def _training_targets(task: "seqio.Task") -> Iterator[str]:
    definition = registry.definition(task.name)
    if isinstance(definition, PairsTask):
        return (row.targets for row in islice(definition.read("train"), _TRAINING_TARGETS))
    vocabularies = {"targets": task.output_features["targets"].vocabulary}
    rows = _pipeline(task, "train", Lengths(512, 512))
    return (_text(row, "targets", vocabularies) for row in islice(rows, _TRAINING_TARGETS))


def _merge(scores: Iterator[Mapping[str, Any]]) -> dict[str, float]:
    return {key: float(value) for each in scores for key, value in each.items()}
