"""Costs of texts for a decoder, however long they are: overlapping windows, every token scored once."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from t5x_like.evaluation.questions import Questions
from t5x_like.evaluation.scores import counts, score
from t5x_like.evaluation.scores_file import Entry, Row
from t5x_like.inference.scorer import Scorer, window_batch
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.text.metrics.perplexity import TextCost, cost_of, windows

_DEFAULT_LENGTH = 1024


@dataclass(frozen=True, kw_only=True)
class PerplexityPlan:
    """Texts of a task to measure, in windows of ``length`` tokens: rows and an entry like those of other tasks."""

    model: Checkpoint
    questions: Questions
    length: int
    batch_size: int

    @property
    def inputs(self) -> dict[int, str]:
        """Texts by number."""
        return {row.number: row.targets for row in self.questions.rows}

    @property
    def source_rows(self) -> list[Mapping[str, Any]]:
        """The rows' own fields."""
        return [row.example for row in self.questions.rows]

    def answer(self, params: Any, answered: Collection[int] = ()) -> Iterator[list[Row]]:
        """Yields the cost of all texts at once, unless all are ``answered``."""
        if all(number in answered for number in self.inputs):
            return
        model = replace(self.model, params=params)
        costs = measure_texts(
            model, list(self.inputs.values()), length=self.length, batch_size=self.batch_size
        )
        yield [
            {"task": self.questions.task, "number": number, "text": text, **cost._asdict()}
            for (number, text), cost in zip(self.inputs.items(), costs, strict=True)
        ]

    def score(self, rows: Sequence[Row], *, resamples: int = 0) -> Entry:
        """The task's entry in ``scores.json``."""
        costs = [TextCost(*(row[name] for name in TextCost._fields)) for row in rows]
        entry = score(self.questions.metrics, list(self.inputs.values()), costs, resamples=resamples)
        return (
            entry | counts(self.questions.split, rows, num_labelled=len(rows)) | {"invalid": 0, "labels": []}
        )


class _TextWindow(NamedTuple):
    """A window of one text: what is read, what follows each of it, and from where that is scored."""

    text: int
    inputs: np.ndarray
    targets: np.ndarray
    scored_from: int


def measure_texts(
    model: Checkpoint,
    texts: Sequence[str],
    *,
    length: int | None = None,
    stride: int | None = None,
    batch_size: int = 8,
) -> list[TextCost]:
    """The cost of each text: windows of ``length`` tokens, each ``stride`` (half of that) after the one before.

    Texts begin with the id that begins or ends the model's texts, so that their first token is scored too; where a
    vocabulary has neither, it isn't.

    Raises:
      ValueError: not a decoder, a window that the model can't read, or a stride that leaves tokens out.
    """
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
    pieces = _windows(model, texts, length=length, stride=stride)
    while group := list(islice(pieces, batch_size)):
        batch = window_batch([window[1:] for window in group], batch_size=batch_size, length=length)
        costs = scorer(model.params, batch).log_likelihoods
        for window, cost in zip(group, costs.tolist(), strict=False):
            nats[window.text] -= cost
            tokens[window.text] += len(window.targets) - window.scored_from
    return [
        cost_of(text, float(cost), int(count)) for text, cost, count in zip(texts, nats, tokens, strict=True)
    ]


def _windows(model: Checkpoint, texts: Iterable[str], *, length: int, stride: int) -> Iterator[_TextWindow]:
    begin = [model.begin_id] if model.begin_id is not None else list(model.end_ids[:1])
    for number, text in enumerate(texts):
        ids = np.array([*begin, *model.tokenizer.encode(text)], np.int32)
        # Each input has the token after it as its target, so there is one less than tokens.
        for window in windows(len(ids) - 1, length=length, stride=stride):
            yield _TextWindow(
                number,
                ids[window.start : window.end],
                ids[window.start + 1 : window.end + 1],
                window.scored_from - window.start,
            )
