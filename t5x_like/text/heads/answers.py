"""What a head tells, as answers: in the words of a task, as its metrics compare them, and beside the true ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from t5x_like.text import metrics
from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.heads.formats import (
    CandidateRanking,
    HeadFormat,
    MultipleChoice,
    QuestionAnswering,
    Regression,
    SequenceClassification,
    TokenClassification,
)
from t5x_like.text.heads.rows import HeadRow
from t5x_like.text.heads.tasks import Read
from t5x_like.text.metrics.question_answering import normalize_squad

Answer = int | float | str | list[int]  # a class or choice, a number, a text, a class for each word


@dataclass(frozen=True, kw_only=True)
class HeadAnswers:
    """How a task's answers are written and compared: as if a head had written them."""

    form: HeadFormat
    benchmark: Benchmark | None  # of which a task from files has none
    num_choices: int

    @property
    def metrics(self) -> Sequence[Any]:
        """What scores answers."""
        if isinstance(self.form, QuestionAnswering):
            return (squad_or_none,)
        if self.benchmark is not None and self.benchmark.metrics:
            return self.benchmark.metrics
        if isinstance(self.form, TokenClassification):
            return (metrics.chunk_f1,)
        if isinstance(self.form, CandidateRanking):
            return (metrics.squad,)
        return (metrics.pearson_corrcoef,) if isinstance(self.form, Regression) else (metrics.accuracy,)

    def _worded(self, read: Read) -> Mapping[str, Any] | None:
        """The row as the text-to-text form has it, where its answers are the same."""
        if self.benchmark is None or self.benchmark.postprocess is None:
            return None
        if isinstance(
            self.form, CandidateRanking
        ):  # one example for each right answer, which differ in nothing else
            return self.benchmark.word(read.raw.values)[0]
        worded = self.benchmark.word(read.raw.values) if self._text_labels else []
        return worded[0] if len(worded) == 1 else None

    @property
    def _labels(self) -> tuple[str, ...]:
        """The words of classes, as they are written in answers."""
        return self._text_labels or (
            self.form.classes if isinstance(self.form, SequenceClassification) else ()
        )

    @property
    def _text_labels(self) -> tuple[str, ...]:
        """Those of the text-to-text form, where classes are its answers."""
        if not isinstance(self.form, SequenceClassification | MultipleChoice) or self.benchmark is None:
            return ()
        count = len(self.form.classes) if isinstance(self.form, SequenceClassification) else self.num_choices
        labels = self.benchmark.labels
        return labels if len(labels) == count else ()

    def compared(self, read: Read, answer: Answer) -> Any:
        """As metrics want it."""
        worded = None if isinstance(answer, list) else self._worded(read)
        if worded is None:
            return self.written(answer) if isinstance(answer, list) else answer
        assert self.benchmark is not None
        assert self.benchmark.postprocess is not None
        return self.benchmark.postprocess(self.written(answer), example=worded, is_target=False)

    def target(self, read: Read) -> Any:
        """The true answer, as metrics want it."""
        row = read.row
        if isinstance(self.form, TokenClassification):
            return [self.form.classes[max(tag, 0)] for tag in row.tags]
        if isinstance(self.form, Regression):
            return row.value
        if isinstance(self.form, QuestionAnswering):
            return [row.texts[0][1][start:end] for start, end in row.answers or ()]
        worded = self._worded(read)
        if worded is None and isinstance(self.form, CandidateRanking):
            return right_candidates(row)
        if worded is None:
            return row.label
        assert self.benchmark is not None
        assert self.benchmark.postprocess is not None
        return self.benchmark.postprocess(worded["targets"], example=worded, is_target=True)

    def target_text(self, read: Read) -> Any:
        """The true answer in the words of the task."""
        if isinstance(self.form, SequenceClassification | MultipleChoice):
            return self.written(read.row.label)
        return right_candidates(read.row) if isinstance(self.form, CandidateRanking) else self.target(read)

    def written(self, answer: Answer) -> Any:
        """An answer in the words of the task."""
        if isinstance(answer, list):
            assert isinstance(self.form, TokenClassification)
            return [self.form.classes[number] for number in answer]
        if isinstance(answer, int) and self._labels:
            return self._labels[answer]
        return answer


def right_candidates(row: HeadRow) -> list[str]:
    """The candidates that are right, as they are written."""
    return [text for text, right in zip(row.candidates, row.rights, strict=True) if right > 0]


def squad_or_none(targets: Sequence[Sequence[str]], predictions: Sequence[str]) -> dict[str, float]:
    """SQuAD 2.0's exact match and F1: where there is no answer, an empty one is right (Rajpurkar et al. 2018)."""
    pairs = list(zip(targets, predictions, strict=True))
    answerable = [(answers, given) for answers, given in pairs if answers]
    num_right = sum(not answers and not normalize_squad(given) for answers, given in pairs)
    scores = metrics.squad(*zip(*answerable, strict=True)) if answerable else {"em": 0.0, "f1": 0.0}
    return {
        name: (score * len(answerable) + 100.0 * num_right) / len(pairs) for name, score in scores.items()
    }
