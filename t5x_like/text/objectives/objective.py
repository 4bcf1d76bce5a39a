"""Interface of pretraining objectives: cut documents into texts, then turn each text into a training example."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from t5x_like.batch import FIELDS, DataField, token_axis
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

# The token streams that a model reads; targets belong to the last of them.
Layout = Literal["encoder", "decoder", "encoder_decoder"]


class Lengths(NamedTuple):
    """Maximum stream lengths in tokens, special ids included.

    Attributes:
      inputs: Limit of the encoder's stream.
      targets: Limit of the decoder's stream.
    """

    inputs: int
    targets: int


class DocumentWindow(NamedTuple):
    """Concatenated documents, in the order in which the loader drew them.

    Attributes:
      tokens: Ids of all documents, any integer type [T].
      ends: End of each document in ``tokens``, int64 [D].
      sentence_ends: End of each sentence, int64 [S]; a document's end is also a sentence's. None if unknown.
      spans: Start and end of annotated words, phrases or entities, int64 [N, 2], sorted; a third number is
        that of an entity. None if there are none.
    """

    tokens: np.ndarray
    ends: np.ndarray
    sentence_ends: np.ndarray | None = None
    spans: np.ndarray | None = None


class Cuts(NamedTuple):
    """Texts as offsets into a window, without copies; each text has one or two segments.

    Attributes:
      starts: Start of each segment, int64 [N, 1 or 2].
      ends: End of each segment, int64 [N, 1 or 2].
      labels: Label of each text, int64 [N]; its meaning is the objective's own.
    """

    starts: np.ndarray
    ends: np.ndarray
    labels: np.ndarray | None = None


class Text(NamedTuple):
    """Source tokens of one example.

    Attributes:
      tokens: Ids, int32 [L].
      second: Start of the second segment; L for a text of one segment.
      label: Label from ``Cuts``; -1 if there is none.
      spans: Annotated spans inside the text, int64 [N, 2] or [N, 3], relative to its start.
      sentence_ends: Sentence ends inside the text, int64 [S], relative to its start.
    """

    tokens: np.ndarray
    second: int
    label: int = -1
    spans: np.ndarray | None = None
    sentence_ends: np.ndarray | None = None


class Example(NamedTuple):
    """One training example. Per-token arrays except ``inputs`` are as long as ``targets``.

    Attributes:
      inputs: int32, tokens that the encoder reads. For a decoder, tokens read instead of the shifted targets.
      targets: int32, tokens to predict.
      weights: float32, loss weight of each target; None means 1 everywhere.
      positions: int32, for positions that don't count up from 0.
      token_types: int32, segment ids.
      block_positions: int32, GLM's second position.
      prefix: int32, 1 for tokens that attend in both directions.
      ranks: int32, attention order; see ``Batch``.
      label: Class of the sequence, or the correct one of several choices; -1 if there is none.
      value: Number to predict for the sequence; NaN if there is none.
      span: First and last token of an answer; (0, 0) for unanswerable questions, (-1, -1) without a span.
      classes: int32 [C], 1 for each class of a sequence with several, 0 for the others; -1 if it has no label.
      choices: One example per choice; replaces all per-token fields.
      continues: 1 if the example continues the same row of the previous batch.
      declared: Values of the streams in ``ExampleSpec.streams``, by name.
      task: Index of the task in the mixture; set by the loader.
    """

    inputs: np.ndarray | None = None
    targets: np.ndarray | None = None
    weights: np.ndarray | None = None
    positions: np.ndarray | None = None
    token_types: np.ndarray | None = None
    block_positions: np.ndarray | None = None
    prefix: np.ndarray | None = None
    ranks: np.ndarray | None = None
    label: int = -1
    value: float = math.nan
    span: tuple[int, int] = (-1, -1)
    classes: np.ndarray | None = None
    choices: tuple["Example", ...] = ()
    continues: int = 0
    declared: Mapping[str, Any] = {}
    task: int = 0

    def value_of(self, field: DataField) -> Any:
        """Return the example's value of a stream; None if it has none."""
        name = field.example_field
        return getattr(self, name) if field.name in FIELDS else self.declared.get(name)


# Losses of labels of whole rows, each with the field of ``Example`` that holds the label.
LabelLoss = Literal[
    "classification", "sentence_pairs", "multiple_choice", "regression", "multi_label", "question_answering"
]
LABEL_FIELDS: dict[LabelLoss, str] = {
    "classification": "label",
    "sentence_pairs": "label",
    "multiple_choice": "label",
    "regression": "value",
    "multi_label": "classes",
    "question_answering": "span",
}


class ExampleSpec(NamedTuple):
    """Requirements on an objective's windows, and the properties of its examples.

    Attributes:
      layout: Streams that the examples have.
      fields: Fields of ``Example`` filled besides inputs and targets; decoders that fill inputs list them too.
      ends_documents: Whether each document of a window is followed by an end of sequence.
      needs_sentences: Whether windows must mark sentence ends.
      fills_rows: Whether an example fills a row; otherwise packing may put several into one.
      contiguous: Whether texts are rows of one long text, each continuing the previous one.
      num_copies: Number of epochs after which texts and seeds repeat, in another order; None means never.
      num_choices: Number of rows per example, for multiple choice and pairs in both orders; 0 for one row.
      head: Type of the head that reads the examples, its number of outputs, and "multi_label" for several labels of
        a row.
      label_loss: Loss of the rows' labels; None for rows without labels.
      streams: Declared streams, whose values are in ``Example.declared``.
      shows_targets: Whether inputs have the targets at their own positions, for models that don't read them there.
      flags_targets: Whether targets are 1 for replaced tokens and 0 for others, and no ids.
      predicts_next: Whether the output before a masked token predicts it, and not that of its own position.
    """

    layout: Layout
    fields: tuple[str, ...] = ()
    ends_documents: bool = False
    needs_sentences: bool = False
    fills_rows: bool = False
    contiguous: bool = False
    num_copies: int | None = None
    num_choices: int = 0
    head: tuple[str, int, str | None] | None = None
    label_loss: LabelLoss | None = None
    streams: tuple[DataField, ...] = ()
    shows_targets: bool = False
    flags_targets: bool = False
    predicts_next: bool = False

    def with_streams(self, streams: tuple[DataField, ...]) -> "ExampleSpec":
        """Return the properties of examples that have further declared streams; values of rows need a row each."""
        of_rows = any(token_axis(each.level) is None for each in streams)
        return self._replace(
            streams=tuple(dict.fromkeys((*self.streams, *streams))), fills_rows=self.fills_rows or of_rows
        )


class StreamRow(NamedTuple):
    """Tokens that a row of a contiguous objective reads of its stream.

    Attributes:
      step: Tokens of the row that the next one continues.
      ahead: Tokens read after these, which the next row reads again.
      elsewhere: Tokens read from a random place of the epoch; they are a text's second segment.
      backward: Documents are read from their last token to the first.
    """

    step: int
    ahead: int = 0
    elsewhere: int = 0
    backward: bool = False


def lengths_of(examples: Sequence[Example]) -> np.ndarray:
    """Return the lengths of inputs and targets, int64 [N, 2]; an absent stream has length 0."""
    sides = [[0 if side is None else len(side) for side in example[:2]] for example in examples]
    return np.array(sides, np.int64).reshape(-1, 2)


@runtime_checkable
class Objective(Protocol):
    """Pretraining objective: a frozen dataclass whose methods are pure functions, with randomness as an argument."""

    @property
    def spec(self) -> ExampleSpec:
        """Requirements on windows, and the properties of the examples."""
        ...

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check that lengths and vocabulary suit the objective.

        Args:
          lengths: Maximum lengths of both streams.
          ids: Special ids of the vocabulary.

        Raises:
          ValueError: They don't; the message says what is needed.
        """
        ...

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Divide a window into texts; their order doesn't matter.

        Args:
          window: Concatenated documents.
          lengths: Maximum lengths of both streams.
          key: Random key, uint64 [2].

        Returns:
          Offsets and labels of the texts.
        """
        ...

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Build one example from each text; an example depends on its own text and seed alone.

        Args:
          texts: N texts, cut by ``cut``.
          seeds: Random seed of each text, uint64 [N, 2].
          lengths: Maximum lengths of both streams.
          ids: Special ids of the vocabulary.

        Returns:
          N examples within the length limits, with their end of sequence.
        """
        ...


class ContiguousObjective(Objective, Protocol):
    """Objective whose texts are rows of one long text (``ExampleSpec.contiguous``).

    ``make`` gets the token before each row, then the row's own tokens. The text's label is the number of tokens of its
    step: fewer than ``StreamRow.step`` where a stream ends.
    """

    def stream(self, lengths: Lengths) -> StreamRow:
        """Return what each row reads of its stream.

        Args:
          lengths: Maximum lengths of both streams of an example.
        """
        ...
