"""Extractive question answering: the span of a context that answers a question."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from t5x_like.text import metrics
from t5x_like.text.heads.head_answers import Head
from t5x_like.text.heads.head_format import HeadFormat
from t5x_like.text.heads.input_format import InputFormat
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.heads.row_cells import as_text, columns_in, filled
from t5x_like.text.heads.token_spans import TokenSpans, encode_with_spans, tokens_of
from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.metrics.question_answering import normalize_squad
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.text.templates import RowValues
from t5x_like.text.vocabularies.tokenizer import Tokenizer

_MAX_QUESTION_TOKENS = 64  # longer questions are cut, as in the code of Devlin et al. 2019


def squad_or_none(targets: Sequence[Sequence[str]], predictions: Sequence[str]) -> dict[str, float]:
    """Return SQuAD 2.0's exact match and F1 (Rajpurkar et al. 2018); unanswerable questions need an empty answer.

    Args:
      targets: All right answers of each question; none for an unanswerable one.
      predictions: Answer texts.
    """
    pairs = list(zip(targets, predictions, strict=True))
    answerable = [(answers, prediction) for answers, prediction in pairs if answers]
    num_right = sum(not answers and not normalize_squad(prediction) for answers, prediction in pairs)
    scores = metrics.squad(*zip(*answerable, strict=True)) if answerable else {"em": 0.0, "f1": 0.0}
    return {
        name: (score * len(answerable) + 100.0 * num_right) / len(pairs) for name, score in scores.items()
    }


@dataclass(frozen=True, kw_only=True)
class QuestionAnswering(HeadFormat):
    """Span of a context that answers a question.

    Attributes:
      question: Template of the first text.
      context: Template of the second text.
      answers: Column ``{"text": […], "answer_start": […]}``, in characters; empty lists mean that there is no answer.
      unanswerable: Whether there are questions without an answer.
      metric: Scores of answers: "squad" for words between spaces, "cmrc" for Chinese.
    """

    question: str = "{question}"
    context: str = "{context}"
    answers: str = "answers"
    unanswerable: bool = False
    metric: Literal["squad", "cmrc"] = "squad"

    label_loss: ClassVar[LabelLoss | None] = "question_answering"
    label_parameters: ClassVar[tuple[str, ...]] = ("answers",)

    @property
    def head(self) -> Head:
        return Head("question_answering", 2)

    @property
    def input_columns(self) -> tuple[str, ...]:
        return columns_in(self.question, self.context)

    def read(self, values: RowValues) -> LabeledRow:
        question, context = filled(self.question, values), filled(self.context, values)
        return LabeledRow(texts=((question, context),), answers=self._spans(values, context))

    def _spans(self, values: RowValues, context: str) -> tuple[tuple[int, int], ...] | None:
        labels = values.get(self.answers)
        if labels is None:
            return None
        if not isinstance(labels, Mapping) or not {"text", "answer_start"} <= labels.keys():
            raise ValueError(
                f'{self.answers} is {labels!r:.60}; {{"text": […], "answer_start": […]}} is needed, as in SQuAD'
            )
        texts = [as_text(text) for text in labels["text"]]
        if not texts:
            return () if self.unanswerable else None
        spans = []
        for text, start in zip(texts, map(int, labels["answer_start"]), strict=True):
            # A negative start would count from the end.
            if start < 0 or context[start : start + len(text)] != text:
                raise ValueError(f"the answer {text!r} is not at character {start} of the context")
            spans.append((start, start + len(text)))
        return tuple(spans)

    def is_labeled(self, row: LabeledRow) -> bool:
        return row.answers is not None

    def encode(
        self,
        rows: Sequence[LabeledRow],
        first: int,
        tokenizer: Tokenizer,
        input_format: InputFormat,
        *,
        stride: int,
    ) -> Iterator[LabeledExample]:
        """Yield overlapping windows of each row's context, ``stride`` tokens apart."""
        questions = tokenizer.encode_all([row.texts[0][0] for row in rows])
        contexts = encode_with_spans(tokenizer, [row.texts[0][1] for row in rows])
        for origin, (row, question, context) in enumerate(
            zip(rows, questions, contexts, strict=True), start=first
        ):
            yield from _windows(row, origin, question, context, input_format, stride)

    def metrics(self, functions: Sequence[MetricFunction]) -> Sequence[MetricFunction]:
        """Return SQuAD's metrics, which include unanswerable questions, or CMRC's."""
        del functions
        return (metrics.cmrc if self.metric == "cmrc" else squad_or_none,)

    @property
    def metrics_by_name(self) -> Mapping[str, MetricFunction]:
        """Metrics of answers; ``squad`` includes unanswerable questions."""
        with_answers = {} if self.unanswerable else {"trivia_qa": metrics.trivia_qa}
        return {"squad": squad_or_none, "cmrc": metrics.cmrc, **with_answers}

    def most_frequent(self, rows: Sequence[LabeledRow]) -> None:
        """Return no baseline: answers are texts."""

    def target(self, row: LabeledRow) -> list[str]:
        """Return the texts of the answers."""
        return [row.texts[0][1][start:end] for start, end in row.answers or ()]


def _windows(
    row: LabeledRow,
    origin: int,
    question: list[int],
    context: TokenSpans,
    input_format: InputFormat,
    stride: int,
) -> Iterator[LabeledExample]:
    cut_question = question[: min(_MAX_QUESTION_TOKENS, input_format.max_tokens(2) // 2)]
    size = input_format.max_tokens(2) - len(cut_question)
    answer = tokens_of(context, row.answers[0]) if row.answers else None
    for start in range(0, max(len(context.ids) - size, 0) + stride, stride):
        inside = slice(start, start + size)
        window = context.ids[inside].tolist()
        joined = input_format.join(
            [window, cut_question] if input_format.context_first else [cut_question, window]
        )
        joined = joined._replace(num_cut=len(question) - len(cut_question))
        span = (-1, -1)
        if row.answers is not None:
            nothing = input_format.cls_position(len(joined.tokens))  # [CLS] represents "no answer"
            span = (nothing, nothing)
            if answer and start <= answer[0] and answer[1] < start + size:
                shift = (0 if input_format.context_first else joined.second) - start
                span = (answer[0] + shift, answer[1] + shift)
        starts, ends = context.starts[inside], context.ends[inside]
        yield LabeledExample((joined,), origin, span=span, starts=starts, ends=ends, offset=start)
        if start + size >= len(context.ids):
            return
