"""Predictions for rows of any source: columns in, and out a prediction with its probabilities."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from t5x_like.evaluation.head_predictor import HeadPredictor, head_predictions
from t5x_like.evaluation.questions import Question
from t5x_like.evaluation.scores_file import Row
from t5x_like.evaluation.span_answers import SpanSearch
from t5x_like.evaluation.text_evaluator import TextEvaluator
from t5x_like.nested_values import one_or_several
from t5x_like.text.batches.head_questions import HeadQuestions, questions_of
from t5x_like.text.cells import text_of
from t5x_like.text.heads.head_answers import softmax
from t5x_like.text.heads.labeled_rows import LabeledRow
from t5x_like.text.heads.row_cells import column_of
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.templates import RowValues
from t5x_like.text.vocabularies.tokenizer import Tokenizer

TEXT = "text"  # column of models that read one text as it is


class RowPrediction(NamedTuple):
    """Prediction for one row.

    Attributes:
      prediction: Class, number, text, or a list of a row's or its words' classes; as in ``predictions.jsonl``.
      probability: That of the prediction, a list for a list; None for generated text and numbers.
      scores: Probability of each class by name, or for an open list of answers objects with ``label`` and ``score``;
        a list of classes for words. None where there is no probability.
      is_cut: Whether the input was longer than the model reads.
      separator: String between the classes of a list that is written on one line.
    """

    prediction: Any
    probability: float | list[float] | None = None
    scores: Mapping[str, float] | list[Any] | None = None
    is_cut: bool = False
    separator: str = " "

    @property
    def text(self) -> str:
        """Prediction on one line; classes of words have spaces between them, several of a row the separator."""
        return self.separator.join(map(str, one_or_several(self.prediction)))


class RowPredictor(Protocol):
    """A model, and the form in which it reads rows."""

    @property
    def batch_size(self) -> int:
        """Rows that are computed together."""
        ...

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Columns that the input is made of, in order; empty if rows can't have them under other names."""
        ...

    @property
    def class_names(self) -> tuple[str, ...]:
        """Classes that ``scores`` of every row name; empty if they differ between rows."""
        ...

    @property
    def has_probabilities(self) -> bool:
        """True if predictions have probabilities."""
        ...

    @property
    def can_generate(self) -> bool:
        """True if predictions are texts that the model generates."""
        ...

    def read(self, values: RowValues, *, folder: str = "") -> Any:
        """Return a row as the model reads it; a label is not needed and ignored.

        Args:
          values: Cells by column.
          folder: Folder of the table, to which paths of files are relative.

        Raises:
          ValueError: A column is missing or has no usable value.
        """
        ...

    def read_line(self, line: str) -> object:
        """Return a user's line as ``read`` returns a row.

        Raises:
          ValueError: The line has another form.
        """
        ...

    def input_text(self, row: Any) -> str:
        """Return the text of what ``read`` returned."""
        ...

    def predict(self, rows: Sequence[Any]) -> list[RowPrediction]:
        """Return a prediction for each of the rows, which ``read`` returned."""
        ...


@dataclass(frozen=True, kw_only=True)
class HeadRowPredictor:
    """A model with a fine-tuned head.

    Attributes:
      definition: Task of the rows.
      predictor: The compiled head.
      params: Weights.
      inputs_length: Tokens of an input.
      spans: Search for answer spans.
      tokenizer: Tokenizer in place of the task's.
    """

    definition: PairsTask
    predictor: HeadPredictor
    params: Any
    inputs_length: int
    spans: SpanSearch = field(default_factory=SpanSearch)
    tokenizer: Tokenizer | None = None

    def __post_init__(self) -> None:
        self.definition.head_format()  # raises for a task without head format

    @property
    def batch_size(self) -> int:
        return self.predictor.batch_size

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.definition.input_columns

    @property
    def class_names(self) -> tuple[str, ...]:
        head_format = self.definition.head_format()
        if head_format.tags_tokens or not head_format.answer_names:
            return ()
        labels = self.definition.answers if hasattr(self.definition, "benchmark") else ()
        return tuple(labels) if len(labels) == len(head_format.answer_names) else head_format.answer_names

    @property
    def has_probabilities(self) -> bool:
        return not self.definition.head_format().predicts_number

    @property
    def can_generate(self) -> bool:
        return False

    def read(self, values: RowValues, *, folder: str = "") -> LabeledRow:
        del folder
        return self._labeled(self.definition.row_columns(values))

    def read_line(self, line: str) -> LabeledRow:
        return self._labeled(self.definition.line_columns(line))

    def input_text(self, row: LabeledRow) -> str:
        return row.input_text

    def predict(self, rows: Sequence[LabeledRow]) -> list[RowPrediction]:
        questions = questions_of(
            self.definition, list(rows), inputs_length=self.inputs_length, tokenizer=self.tokenizer
        )
        scores = self.predictor.scores(self.params, questions)
        answers, details = head_predictions(questions, scores, self.spans)
        written = [questions.written(answer) for answer in answers]
        is_cut = [row_index in questions.examples.cut for row_index in range(len(rows))]
        if any("n_best" in each for each in details):
            return [
                _span_prediction(text, each["n_best"], cut)
                for text, each, cut in zip(written, details, is_cut, strict=True)
            ]
        return [
            RowPrediction(prediction, *shares, is_cut=cut, separator=questions.head_format.label_separator)
            for prediction, shares, cut in zip(written, _shares(questions, scores), is_cut, strict=True)
        ]

    def _labeled(self, values: Mapping[str, object]) -> LabeledRow:
        return self.definition.head_format().read(values)._replace(values=values)


def _shares(questions: HeadQuestions, scores: Sequence[np.ndarray]) -> list[tuple[Any, Any]]:
    """Return probability and scores of each row."""
    head_format = questions.head_format
    probabilities = head_format.probabilities(
        questions.read,
        scores,
        lambda example_index: questions.examples.character_offsets(example_index)[0],
        questions.labels,
    )
    if probabilities is None:
        return [(None, None)] * len(questions)
    if head_format.answer_names:
        return [(each.predicted, each.by_class) for each in probabilities]
    return [(each.predicted, _listed(each.by_class)) for each in probabilities]


def _listed(shares: Any) -> list[dict[str, Any]]:
    """Return classes that differ between rows as transformers' pipelines do, the likeliest first."""
    ordered = sorted(shares.items(), key=lambda share: -share[1])
    return [{"label": label, "score": score} for label, score in ordered]


def _span_prediction(text: str, candidates: Sequence[Mapping[str, Any]], is_cut: bool) -> RowPrediction:
    shares = {each["text"]: each["probability"] for each in candidates}
    return RowPrediction(text, shares.get(text, 0.0), _listed(shares), is_cut=is_cut)


@dataclass(frozen=True, kw_only=True)
class TextRowPredictor:
    """A model that writes its answer, or ranks the task's labels by their likelihood.

    Attributes:
      evaluator: Evaluator of the task's texts, without rows.
      params: Weights.
      definition: The task; None if rows have one text that is read as it is.
      word: Function from a line to the model's input.
    """

    evaluator: TextEvaluator
    params: Any
    definition: PairsTask | None = None
    word: Callable[[str], str] = str

    @property
    def batch_size(self) -> int:
        return self.evaluator.batch_size

    @property
    def input_columns(self) -> tuple[str, ...]:
        return (TEXT,) if self.definition is None else self.definition.input_columns

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.evaluator.questions.labels

    @property
    def has_probabilities(self) -> bool:
        return self.evaluator.method == "rank"

    @property
    def can_generate(self) -> bool:
        return self.evaluator.method == "generate"

    def read(self, values: RowValues, *, folder: str = "") -> str:
        if self.definition is not None:
            inputs = self.definition.input_in(self.definition.word_row(values), folder)
            self.definition.recording(inputs)  # raises for a file that can't be read
            return inputs
        column_of(values, TEXT)
        return self.word(text_of(values, TEXT))

    def read_line(self, line: str) -> str:
        return self.word(line)

    def input_text(self, row: str) -> str:
        return row

    def predict(self, rows: Sequence[str]) -> list[RowPrediction]:
        texts = tuple(
            Question(
                index,
                text,
                "",
                {},
                recording=None if self.definition is None else self.definition.recording(text),
            )
            for index, text in enumerate(rows)
        )
        evaluator = replace(self.evaluator, questions=replace(self.evaluator.questions, rows=texts))
        answers = {row["number"]: row for batch in evaluator.answer(self.params) for row in batch}
        return [self._prediction(answers[index]) for index in range(len(rows))]

    def _prediction(self, answer: Row) -> RowPrediction:
        is_cut = bool(answer["cut"])
        if "choices" not in answer:
            return RowPrediction(answer["prediction"], is_cut=is_cut)
        likelihoods = np.array(list(answer["choices"].values()))
        shares = dict(zip(answer["choices"], softmax(likelihoods), strict=True))
        return RowPrediction(answer["prediction"], shares.get(answer["prediction"]), shares, is_cut=is_cut)
