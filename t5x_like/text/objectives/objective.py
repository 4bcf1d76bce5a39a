"""What every pretraining objective is: how text is cut for it, and how a cut becomes something to learn."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

# Which streams a model reads; targets belong to the last of them.
Layout = Literal["encoder", "decoder", "encoder_decoder"]


class Lengths(NamedTuple):
    """Limits of the encoder's and of the decoder's stream in tokens, special ids included."""

    inputs: int
    targets: int


class DocumentWindow(NamedTuple):
    """Some documents laid end to end, in the order in which they were drawn."""

    tokens: np.ndarray  # [T], of any integer type
    ends: np.ndarray  # int64 [D], where each document ends
    sentence_ends: np.ndarray | None = None  # int64 [S], where each sentence ends; documents end sentences
    spans: np.ndarray | None = None  # int64 [N, 2], annotated words, phrases or entities, in order


class Cuts(NamedTuple):
    """Texts as places in a window; nothing is copied. A text is one stretch of it or two."""

    starts: np.ndarray  # int64 [N, 1 or 2]
    ends: np.ndarray  # int64 [N, 1 or 2]
    labels: np.ndarray | None = None  # int64 [N], what is known of each text as a whole


class Text(NamedTuple):
    """What one example is made of."""

    tokens: np.ndarray  # int32 [L]
    second: int  # where the second of two stretches begins; L where there is one
    label: int = -1
    spans: np.ndarray | None = None  # int64 [N, 2], those that lie within, counted from the text's start
    sentence_ends: np.ndarray | None = None  # int64 [S], inside the text, counted from its start


class Example(NamedTuple):
    """What a model learns from. All but ``inputs`` and ``label`` belong to the targets' stream and are as long.

    ``inputs`` are what the encoder reads; in a decoder's example what it reads in place of the targets shifted right.
    """

    inputs: np.ndarray | None = None  # int32
    targets: np.ndarray | None = None  # int32
    weights: np.ndarray | None = None  # float32, of each target in the loss; None is 1 everywhere
    positions: np.ndarray | None = None  # int32, where they don't count from 0
    token_types: np.ndarray | None = None  # int32
    block_positions: np.ndarray | None = None  # int32
    prefix: np.ndarray | None = None  # int32, 1 where tokens are seen from before
    ranks: np.ndarray | None = None  # int32, see Batch
    label: int = -1  # of the whole sequence; of several choices the right one
    value: float = math.nan  # of the whole sequence, where a number is to be told
    span: tuple[int, int] = (-1, -1)  # first and last token of an answer; (0, 0) where there is none
    choices: tuple["Example", ...] = ()  # each a row of its own, in place of all that belongs to a stream
    continues: int = 0  # 1 where it goes on where the same row of the batch before ended
    task: int = 0  # number in the mixture, which the loader sets


class ExampleSpec(NamedTuple):
    """What an objective takes and gives.

    ``fields``: those of ``Example`` that it fills besides inputs and targets; of a decoder's, inputs too.
    ``ends_documents``: an end of sequence stands after each document of a window. ``needs_sentences``: windows say
    where sentences end. ``fills_rows``: one example is a row; others may share one. ``contiguous``: texts are rows of
    one long text, each going on where the last one ended. ``num_copies``: after so many epochs texts and their seeds
    come again, in another order (None: never). ``num_choices``: an example is that many rows (0: one, no choice).
    ``head``: the kind of an encoder's head that reads them, and how many scores it gives.
    """

    layout: Layout
    fields: tuple[str, ...] = ()
    ends_documents: bool = False
    needs_sentences: bool = False
    fills_rows: bool = False
    contiguous: bool = False
    num_copies: int | None = None
    num_choices: int = 0
    head: tuple[str, int] | None = None


def lengths_of(examples: Sequence[Example]) -> np.ndarray:
    """int64 [N, 2]: how long both streams of examples are."""
    sides = [[0 if side is None else len(side) for side in example[:2]] for example in examples]
    return np.array(sides, np.int64).reshape(-1, 2)


@runtime_checkable
class Objective(Protocol):
    """A frozen dataclass with these. Every method is a pure function: randomness is an argument."""

    @property
    def spec(self) -> ExampleSpec:
        """What it takes and gives."""
        ...

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Refuses limits and vocabularies that it can't work with.

        Raises:
          ValueError: says what is needed.
        """
        ...

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Where the texts of a window lie, drawn by ``key``, uint64 [2]. The order doesn't matter."""
        ...

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """One example for each text, by its own seed, uint64 [N, 2], and no other; ended and within the limits."""
        ...
