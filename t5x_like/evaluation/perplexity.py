"""Perplexity of texts of any length for a decoder: overlapping windows that score every token once."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from t5x_like.evaluation.questions import Questions
from t5x_like.evaluation.scores import row_counts, score
from t5x_like.evaluation.scores_file import Entry, Row
from t5x_like.evaluation.task_evaluators import TaskEvaluator
from t5x_like.inference.scorer import Scorer, window_batch
from t5x_like.io.progress import Progress
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.text.metrics.perplexity import TextCost, cost_of, windows
from t5x_like.text.templates import RowValues

_DEFAULT_LENGTH = 1024


@dataclass(frozen=True, kw_only=True)
class PerplexityEvaluator(TaskEvaluator):
    """Texts of a task whose perplexity is measured.

    Attributes:
      model: The decoder.
      questions: The texts, as targets.
      length: Tokens in a window.
      batch_size: Windows in a batch.
    """

    model: Checkpoint
    questions: Questions
    length: int
    batch_size: int

    @property
    def inputs(self) -> dict[int, str]:
        """Texts by row number."""
        return {row.number: row.targets for row in self.questions.rows}

    @property
    def source_rows(self) -> list[RowValues]:
        """Fields of the rows as their files have them."""
        return [row.example for row in self.questions.rows]

    def answer(self, params: Parameters, answered: Collection[int] = ()) -> Iterator[list[Row]]:
        """Yield the rows of ``predictions.jsonl``, in order, as their texts are measured.

        All texts are measured unless all are ``answered``, so that batches don't depend on interruptions.
        """
        if all(number in answered for number in self.inputs):
            return
        numbers, texts = list(self.inputs), list(self.inputs.values())
        model = replace(self.model, params=params)
        measured = _measure_in_order(model, texts, length=self.length, batch_size=self.batch_size)
        index = 0
        for costs, _ in measured:
            yield [
                {
                    "task": self.questions.task,
                    "number": numbers[index + further],
                    "text": texts[index + further],
                    **cost._asdict(),
                }
                for further, cost in enumerate(costs)
            ]
            index += len(costs)

    def score(self, rows: Sequence[Row], *, resamples: int = 0) -> Entry:
        """Return the task's entry in ``scores.json``; see ``TaskEvaluator.score``."""
        costs = [TextCost(*(row[name] for name in TextCost._fields)) for row in rows]
        entry = score(self.questions.metrics, list(self.inputs.values()), costs, resamples=resamples)
        return (
            entry
            | row_counts(self.questions.split, rows, num_labeled=len(rows))
            | {"invalid": 0, "labels": []}
        )


class _TextWindow(NamedTuple):
    """A window of one text.

    Attributes:
      text: Number of the text.
      inputs: Input ids.
      targets: Target ids.
      scored_from: First position that is scored.
      num_bytes: Approximate bytes of the scored part.
    """

    text: int
    inputs: np.ndarray
    targets: np.ndarray
    scored_from: int
    num_bytes: int


def measure_texts(
    model: Checkpoint,
    texts: Sequence[str],
    *,
    length: int | None = None,
    stride: int | None = None,
    batch_size: int = 8,
    shown: bool = False,
) -> list[TextCost]:
    """Compute the log-likelihood cost of each text in overlapping windows.

    Texts begin with the id that begins or ends the model's texts, so that their first token is scored too. It is not
    scored if the vocabulary has neither id.

    Args:
      model: A decoder.
      texts: Texts of any length.
      length: Tokens in a window; by default the model's positions, at most 1,024.
      stride: Tokens between the starts of two windows; by default half of ``length``.
      batch_size: Windows in a batch.
      shown: Show progress.

    Raises:
      ValueError: The model is not a decoder, can't read windows of that length, or the stride skips tokens.
    """
    measured = _measure_in_order(model, texts, length=length, stride=stride, batch_size=batch_size)
    all_costs: list[TextCost] = []
    with Progress("measuring", sum(map(_num_bytes, texts)), "bytes", shown=shown) as progress:
        for costs, num_bytes in measured:
            all_costs += costs
            progress.add(num_bytes)
    return all_costs


def _measure_in_order(
    model: Checkpoint,
    texts: Sequence[str],
    *,
    length: int | None,
    stride: int | None = None,
    batch_size: int,
) -> Iterator[tuple[list[TextCost], int]]:
    """Yield for each batch of windows the costs of the texts that it completes, and the bytes that it scores."""
    if model.kind != "decoder":
        raise ValueError(
            f"perplexity is a decoder's: this is an {model.kind.replace('_', '-')}, which reads and writes apart"
        )
    most = model.max_positions or length or _DEFAULT_LENGTH
    length = min(most, _DEFAULT_LENGTH) if length is None else length
    if length > most:
        raise ValueError(f"windows of {length} tokens are longer than the {most} positions of the model")
    stride = max(length // 2, 1) if stride is None else stride
    scorer = Scorer(model.graphdef, model.mesh, vocab_size=model.config.vocab_size)
    nats, tokens = np.zeros(len(texts)), np.zeros(len(texts), int)

    def costs_of(start: int, end: int) -> list[TextCost]:
        indices = range(start, end)
        return [cost_of(texts[index], float(nats[index]), int(tokens[index])) for index in indices]

    done = 0
    pieces = _windows(model, texts, length=length, stride=stride)
    while group := list(islice(pieces, batch_size)):
        batch = window_batch([window[1:4] for window in group], batch_size=batch_size, length=length)
        costs = scorer(model.params, batch).log_likelihoods
        for window, cost in zip(group, costs.tolist(), strict=False):
            nats[window.text] -= cost
            tokens[window.text] += len(window.targets) - window.scored_from
        # Windows come in the order of their texts, so all texts before the last window's are complete.
        yield costs_of(done, group[-1].text), sum(window.num_bytes for window in group)
        done = max(done, group[-1].text)
    yield costs_of(done, len(texts)), 0


def _windows(model: Checkpoint, texts: Iterable[str], *, length: int, stride: int) -> Iterator[_TextWindow]:
    begin = model.prompt_encoder.with_special_ids([])
    for index, text in enumerate(texts):
        ids = np.array([*begin, *model.tokenizer.encode(text)], np.int32)
        count = len(ids) - 1  # each input has the next token as its target
        bytes_per_token = _num_bytes(text) / max(count, 1)
        for window in windows(count, length=length, stride=stride):
            yield _TextWindow(
                index,
                ids[window.start : window.end],
                ids[window.start + 1 : window.end + 1],
                window.scored_from - window.start,
                round(window.end * bytes_per_token) - round(window.scored_from * bytes_per_token),
            )


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8"))
