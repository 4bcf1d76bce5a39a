"""XLNet's permutation language model with a memory: rows continue the same rows of the previous batch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.objective import (
    Cuts,
    DocumentWindow,
    Example,
    ExampleSpec,
    Lengths,
    StreamRow,
    Text,
)
from t5x_like.text.objectives.permutation_lm import PermutationLM, ranks_of
from t5x_like.text.objectives.random_bits import random_fractions
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_BOUNDARY, _IS_RANDOM = 110, 111  # random sequences of a row, after those of PermutationLM
_OF_REUSED = np.array([1, 0], np.uint64)  # added to a row's seed for its reused part


@dataclass(frozen=True, kw_only=True)
class ContiguousPermutationLM:
    """Predicts tokens in a random order, also from those of earlier batches that the model remembers.

    A row is ``reuse_length`` tokens of its stream, then the text of a ``PermutationLM`` from the tokens that follow.
    The next row of the stream begins after the ``reuse_length`` tokens. A model remembers these alone, so set its
    ``reuse_length`` to the same number. The reused part is predicted without the rest, as the memory must not know it:
    ranks of the rest are higher.

    Streams are those of ``ContiguousLM``. With seqio, which has no streams, ``Batch.continues`` is always 0.

    Yang et al. 2019, §2.4 and §2.5, https://arxiv.org/abs/1906.08237; parts of a row as in the authors' code, without
    its texts in backward order.

    Attributes:
      reuse_length: Tokens of a row that the next one continues; half a row in the authors' code.
      partial: See ``PermutationLM``, as for the others.
      max_span: Maximum length of a predicted span in tokens.
      two_segments: The rest of a row has two segments.
      random_rate: Fraction of the rows whose second segment comes from a random place.
    """

    reuse_length: int = 256
    partial: int = 6
    max_span: int = 5
    two_segments: bool = True
    random_rate: float = 0.5

    def __post_init__(self) -> None:
        if self.reuse_length < self.partial:
            raise ValueError(
                f"reuse_length={self.reuse_length} is less than the {self.partial} tokens of which one is predicted "
                "(partial); raise it"
            )
        self._of_rest  # noqa: B018 - checks the other arguments

    @property
    def _of_rest(self) -> PermutationLM:
        return PermutationLM(
            partial=self.partial,
            max_span=self.max_span,
            two_segments=self.two_segments,
            random_rate=self.random_rate,
        )

    @property
    def spec(self) -> ExampleSpec:
        """Encoder rows in the order of their streams, whose attention mask is given by ranks."""
        return ExampleSpec(
            layout="encoder",
            fields=("weights", "token_types", "ranks", "continues"),
            ends_documents=True,
            fills_rows=True,
            contiguous=True,
        )

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        if ids.eos is None:
            raise ValueError("the vocabulary has no end of sequence, which ends each document of a stream")
        try:
            self._of_rest.check(Lengths(lengths.inputs - self.reuse_length, lengths.targets), ids)
        except ValueError as error:
            raise ValueError(f"after the {self.reuse_length} tokens of reuse_length: {error}") from None

    def stream(self, lengths: Lengths) -> StreamRow:
        """Return what each row reads of its stream; see ``ContiguousObjective.stream``."""
        room = self._room(lengths)
        has_random = self.two_segments and self.random_rate > 0.0
        return StreamRow(step=self.reuse_length, ahead=room, elsewhere=room if has_random else 0)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut rows for seqio, whose second segments are never random; see ``Objective.cut``."""
        del key
        starts = np.arange(1, len(window.tokens), self.reuse_length)  # after the token before them
        ends = np.minimum(starts + self.reuse_length + self._room(lengths), len(window.tokens))
        steps = np.minimum(self.reuse_length, len(window.tokens) - starts)
        return Cuts((starts - 1)[:, None], ends[:, None], steps)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Draw segments, targets and their order; see ``Objective.make``."""
        room = self._room(lengths)
        drawn = random_fractions(seeds, 1, use=_BOUNDARY)[:, 0]
        is_random = random_fractions(seeds, 1, use=_IS_RANDOM)[:, 0] < self.random_rate
        split = [
            self._split(text, room, boundary, is_other)
            for text, boundary, is_other in zip(texts, drawn.tolist(), is_random.tolist(), strict=True)
        ]
        rest = self._of_rest.make([each for _, each in split], seeds, lengths, ids)
        counts = np.array([len(reused) for reused, _ in split], np.int64)
        is_target = self._of_rest.targets_of(counts, seeds + _OF_REUSED)
        is_target &= np.arange(is_target.shape[1]) < counts[:, None]
        ranks = ranks_of(is_target, seeds + _OF_REUSED)
        return [
            _joined(reused, is_target[index, : len(reused)], ranks[index, : len(reused)], example)
            for index, ((reused, _), example) in enumerate(zip(split, rest, strict=True))
        ]

    def _room(self, lengths: Lengths) -> int:
        """Return the tokens of a row after the reused part, without its special ids."""
        return lengths.inputs - self.reuse_length - 2 - self.two_segments

    def _split(self, text: Text, room: int, boundary: float, is_other: bool) -> tuple[np.ndarray, Text]:
        """Return a row's reused tokens, and the text after them of at most ``room`` tokens."""
        tokens = text.tokens[1 : text.second]  # without the token before the row
        reused, rest, other = tokens[: text.label], tokens[text.label :][:room], text.tokens[text.second :]
        if not self.two_segments or len(rest) < 2:
            return reused, Text(rest, len(rest))
        first = 1 + int(boundary * (room - 1))
        if is_other and len(other):
            first = min(first, len(rest))
            return reused, Text(np.concatenate([rest[:first], other[: room - first]]), first)
        return reused, Text(rest, min(first, len(rest) - 1))


def _joined(reused: np.ndarray, is_target: np.ndarray, ranks: np.ndarray, rest: Example) -> Example:
    """Return the example of a reused part and the rest, whose ranks become higher."""
    assert rest.inputs is not None
    assert rest.targets is not None
    assert rest.ranks is not None
    assert rest.weights is not None
    assert rest.token_types is not None
    after = int(ranks.max(initial=0)) + 1
    return rest._replace(
        inputs=np.concatenate([reused, rest.inputs]),
        targets=np.concatenate([reused, rest.targets]),
        weights=np.concatenate([is_target.astype(np.float32), rest.weights]),
        token_types=np.concatenate([np.zeros(len(reused), np.int32), rest.token_types]),
        ranks=np.concatenate([ranks, rest.ranks + after]).astype(np.int32),
    )
