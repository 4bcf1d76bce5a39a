"""Interface of head formats: reading and encoding of labeled rows, and conversion of outputs to predictions."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from t5x_like.batch import DataField
from t5x_like.text.heads.head_answers import (
    UNSCALED,
    Answer,
    Head,
    OutputScale,
    Probabilities,
    Written,
    softmax,
)
from t5x_like.text.heads.input_format import EncoderInput, InputFormat, InputFraming, input_format_of
from t5x_like.text.heads.labeled_rows import LabeledExample, LabeledRow
from t5x_like.text.metrics import accuracy
from t5x_like.text.metrics.baselines import MOST_FREQUENT
from t5x_like.text.metrics.by_name import MetricFunction, class_metrics, users_metric
from t5x_like.text.objectives.objective import LABEL_FIELDS, Example, ExampleSpec, LabelLoss
from t5x_like.text.templates import RowValues
from t5x_like.text.vocabularies.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class HeadFormat(ABC):
    """Reads rows for one type of head, encodes them, and converts the head's outputs to predictions.

    ``texts``, ``context`` and other fields of subclasses are templates over the row's columns, such as
    ``"{premise}"``. One text is read alone, two as a pair.

    Attributes:
      has_choices: Whether an example has one input row per choice.
      predicts_number: Whether the label is a number.
      tags_tokens: Whether labels belong to tokens.
      has_label_sets: Whether a row has any number of classes.
      keeps_unlabeled: Whether a model trains on rows without a label, too, by a loss of its own.
      label_loss: Loss of a row's label; None for labels of tokens, which are targets.
      label_parameters: Fields of the format that name the columns of the label.
      default_metrics: Metrics of tasks that name none.
      why_left_out: Message about rows that don't train a model.
      cut_unit: Parts of a text that ``EncoderInput.num_cut`` counts, for messages.
      baseline_name: Name of the predictions that scores are compared with.
    """

    has_choices: ClassVar[bool] = False
    predicts_number: ClassVar[bool] = False
    tags_tokens: ClassVar[bool] = False
    has_label_sets: ClassVar[bool] = False
    keeps_unlabeled: bool = False
    label_loss: ClassVar[LabelLoss | None] = "classification"
    label_parameters: ClassVar[tuple[str, ...]] = ("label",)
    default_metrics: ClassVar[tuple[MetricFunction, ...]] = (accuracy,)
    why_left_out: ClassVar[str] = "have no label"
    cut_unit: ClassVar[str] = "tokens"
    baseline_name: ClassVar[str] = MOST_FREQUENT

    @property
    @abstractmethod
    def head(self) -> Head:
        """Head for this format (Devlin et al. 2019, §4, https://arxiv.org/abs/1810.04805)."""

    @property
    def num_outputs(self) -> int:
        """Number of outputs of the model's head."""
        return 1 if self.has_choices else self.head.num_labels

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes in the order of the head's outputs; empty if it predicts something else."""
        return ()

    @property
    def answer_names(self) -> tuple[str, ...]:
        """Names of the classes that are predicted; others than ``class_names`` if a prediction combines outputs."""
        return self.class_names

    @property
    def output_scale(self) -> OutputScale:
        """Scale of a number that is predicted."""
        return UNSCALED

    @property
    def streams(self) -> tuple[DataField, ...]:
        """Declared streams of tokens that the format's examples have."""
        return ()

    @property
    def usual_num_choices(self) -> int:
        """Number of input rows of an example before any is read; 0 for one row."""
        return 0

    @property
    def is_pair(self) -> bool:
        """True if each row is one pair of texts, which can be read in both orders."""
        return False

    @property
    def input_columns(self) -> tuple[str, ...]:
        """Columns of the texts that the head reads, in order; empty if only the format's own names are known."""
        return ()

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Columns of the label, which rows to predict may lack."""
        return tuple(getattr(self, name) for name in self.label_parameters)

    @abstractmethod
    def read(self, values: RowValues) -> LabeledRow:
        """Extract texts and label from a row's columns.

        Raises:
          ValueError: A missing column, an invalid label, or an answer that is not in the context.
        """

    def is_labeled(self, row: LabeledRow) -> bool:
        """Return whether the row has a label."""
        return row.label >= 0

    def trains(self, row: LabeledRow) -> bool:
        """Return whether a model learns from the row."""
        return self.keeps_unlabeled or self.is_labeled(row)

    def encode(
        self,
        rows: Sequence[LabeledRow],
        first: int,
        tokenizer: Tokenizer,
        input_format: InputFormat,
        *,
        stride: int,
    ) -> Iterator[LabeledExample]:
        """Yield the tokenized examples of rows.

        Args:
          rows: Rows.
          first: Index of the first row.
          tokenizer: Tokenizer of the texts.
          input_format: Special ids and maximum length.
          stride: Distance between two windows of a long context in tokens.
        """
        del stride
        # A context that many choices or candidates share is tokenized once.
        unique = list(dict.fromkeys(text for row in rows for texts in row.texts for text in texts))
        encoded = dict(zip(unique, tokenizer.encode_all(unique), strict=True))
        for origin, row in enumerate(rows, start=first):
            yield from self.examples_of(
                row,
                origin,
                [
                    joined
                    for texts in row.texts
                    for joined in input_format.rows([encoded[text] for text in texts])
                ],
            )

    def input_format(self, tokenizer: Tokenizer, limit: int, framing: InputFraming | None) -> InputFormat:
        """Return special ids and maximum length of input rows.

        Args:
          tokenizer: Tokenizer of the model.
          limit: Highest number of ids of a row.
          framing: Special tokens around texts; None for those of the vocabulary.
        """
        return input_format_of(tokenizer, limit, framing)

    def input_row(self, tokens: np.ndarray, second: int, input_format: InputFormat) -> Example:
        """Return one tokenized input row as an example without labels.

        Args:
          tokens: Ids, int32 [L].
          second: Start of the second text.
          input_format: Special ids of the row.
        """
        types = input_format.token_types(len(tokens), second)
        return Example(inputs=tokens, token_types=types, weights=np.zeros(len(tokens), np.float32))

    def examples_of(
        self, row: LabeledRow, origin: int, inputs: list[EncoderInput]
    ) -> Iterable[LabeledExample]:
        """Return the examples of a row with the labels that the model learns.

        Args:
          row: A row, labeled or not.
          origin: Index of the row.
          inputs: Tokenized texts of the row, one for each choice.
        """
        return [LabeledExample(tuple(inputs), origin, label=row.label, value=row.value)]

    @property
    def label_separator(self) -> str:
        """String between the labels of a prediction with several, where it is written on one line."""
        return " "

    def spec(self, num_choices: int = 0) -> ExampleSpec:
        """Return the properties of the examples for a loader, given their rows per example."""
        label = () if self.label_loss is None else (LABEL_FIELDS[self.label_loss],)
        return ExampleSpec(
            layout="encoder",
            fields=("token_types", "weights", *label),
            fills_rows=True,
            num_choices=num_choices,
            head=self.head,
            label_loss=self.label_loss,
        ).with_streams(self.streams)

    def answers_of(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
    ) -> list[Answer]:
        """Return the prediction for each row.

        Args:
          rows: Rows of the task.
          scores: Outputs of the head for each example.
          word_starts: Returns the first token of each word of an example, given its index.
        """
        del rows, word_starts
        return [int(np.argmax(row)) for row in scores]

    def probabilities(
        self,
        rows: Sequence[LabeledRow],
        scores: Sequence[np.ndarray],
        word_starts: Callable[[int], np.ndarray],
        labels: Sequence[str],
    ) -> list[Probabilities] | None:
        """Return the probabilities of each row's prediction; None if the head gives none.

        Args:
          rows: Rows as the head reads them.
          scores: Outputs of the head for each row.
          word_starts: Returns the positions of the first tokens of a row's words, by the row's number.
          labels: Texts of the classes, as for ``written``.
        """
        del rows, word_starts
        shares = [softmax(row) for row in scores]
        return [
            Probabilities(max(row), {str(self.written(n, labels)): share for n, share in enumerate(row)})
            for row in shares
        ]

    def metrics(self, functions: Sequence[MetricFunction]) -> Sequence[MetricFunction]:
        """Return the task's own metrics, or the default ones."""
        return functions or self.default_metrics

    @property
    def metrics_by_name(self) -> Mapping[str, MetricFunction]:
        """Metrics that fit the predictions, by their names in configurations."""
        return class_metrics(len(self.answer_names))

    def named_metrics(self, names: Sequence[str | MetricFunction]) -> Sequence[MetricFunction]:
        """Return metrics by name, and those of users as they are; the default ones if there are no names.

        Raises:
          ValueError: A metric doesn't fit the predictions of this format.
        """
        fitting = self.metrics_by_name
        chosen = []
        for name in names:
            metric = fitting.get(name) if isinstance(name, str) else users_metric(name)
            if metric is None:
                raise ValueError(
                    f"metric {name!r} doesn't fit {type(self).__name__}, the format of its head; name any of "
                    f"{', '.join(fitting)}, or leave metrics out"
                )
            chosen.append(metric)
        return chosen or self.metrics(())

    def most_frequent(self, rows: Sequence[LabeledRow]) -> Answer | None:
        """Return the most frequent label as a baseline; None if the format has no such baseline."""
        return Counter(row.label for row in rows).most_common(1)[0][0]

    def baseline_answers(
        self, rows: Sequence[LabeledRow], training_rows: Iterable[LabeledRow]
    ) -> list[Answer] | None:
        """Return the prediction of a baseline for each row; None if the format has none.

        Args:
          rows: Rows to predict.
          training_rows: Rows of the training split, labeled or not.
        """
        labeled = [row for row in training_rows if self.is_labeled(row)]
        answer = self.most_frequent(labeled) if labeled else None
        return None if answer is None else [answer for _ in rows]

    def details_of(self, rows: Sequence[LabeledRow], scores: Sequence[np.ndarray]) -> list[dict[str, Any]]:
        """Return further fields of each row in ``predictions.jsonl``.

        Args:
          rows: Rows of the task.
          scores: Outputs of the head for each row.
        """
        del scores
        return [{} for _ in rows]

    def further_scores(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return further fields of a task's entry in ``scores.json``.

        Args:
          rows: Rows of ``predictions.jsonl``.
        """
        del rows
        return {}

    def num_answers(self, num_choices: int) -> int:
        """Return the number of possible predictions; 0 if they are open."""
        del num_choices
        return 0

    def written_example(
        self, format_row: Callable[[], Sequence[RowValues]], *, has_labels: bool
    ) -> RowValues | None:
        """Return the text-to-text example with the same answer as the row; None if there is none.

        Args:
          format_row: Returns the text-to-text examples of the row.
          has_labels: Whether the task's text answers are this head's classes or choices.
        """
        formatted = format_row() if has_labels else ()
        return formatted[0] if len(formatted) == 1 else None

    def target(self, row: LabeledRow) -> Any:
        """Return the true label as metrics compare it."""
        return row.label

    def written(self, answer: Answer, labels: Sequence[str]) -> Written:
        """Return a prediction as text.

        Args:
          answer: Prediction.
          labels: Texts of the classes or choices; empty if there are none.
        """
        return labels[answer] if labels and isinstance(answer, int) else answer

    def written_target(self, row: LabeledRow, labels: Sequence[str]) -> object:
        """Return the true label as text.

        Args:
          row: Labeled row.
          labels: Class names in the order of class ids.
        """
        return self.written(self.target(row), labels)
