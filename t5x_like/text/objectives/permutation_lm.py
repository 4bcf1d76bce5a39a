"""XLNet's permutation language model: tokens are predicted in a random order, from the previous ones in that order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from t5x_like.config_class import refuse_unused
from t5x_like.text.objectives.framing import require_ids, rows_to_examples
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.random_bits import random_below, random_bits, random_fractions
from t5x_like.text.objectives.segment_cutting import SegmentKind, cut_segments
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_LENGTHS, _PLACES, _ORDER = range(3)  # random sequences of a text


@dataclass(frozen=True, kw_only=True)
class PermutationLM:
    """Predicts one token in ``partial`` in a random order, in spans of 1 to ``max_span`` tokens.

    A span of ``n`` tokens is drawn from each stretch of ``partial · n`` (§2.3 and appendix A.2), at least one per
    text. For ``a b c d`` with targets ``b`` and ``c d``, ``ranks`` may be ``0 2 1 3``: ``c`` is predicted from ``a``,
    ``b`` from ``a c``, ``d`` from ``a c b``, and each knows its position. All tokens attend to rank 0.

    Texts are ``A [SEP] B [SEP] [CLS]`` with token types 0, 1 and 2, or ``A [SEP] [CLS]`` without ``two_segments``.

    Yang et al. 2019, §2.2-2.5, https://arxiv.org/abs/1906.08237. Span lengths are uniform as in the paper; the
    authors' code favors short ones.

    Attributes:
      partial: Tokens per predicted token (the paper's K); 1 predicts all.
      max_span: Maximum length of a predicted span in tokens.
      two_segments: Build texts of two segments.
      random_rate: Fraction of the texts whose second segment doesn't continue the first.
    """

    partial: int = 6
    max_span: int = 5
    two_segments: bool = True
    random_rate: float = 0.5

    def __post_init__(self) -> None:
        if self.partial < 1:
            raise ValueError(f"partial must be at least 1 (all tokens are predicted), got {self.partial}")
        if self.max_span < 1:
            raise ValueError(f"max_span must be at least 1 token, got {self.max_span}")
        if not 0.0 <= self.random_rate <= 1.0:
            raise ValueError(f"random_rate must lie between 0 and 1, got {self.random_rate}")
        if not self.two_segments:
            refuse_unused(self, "random_rate", because="texts have one segment (two_segments is False)")

    @property
    def spec(self) -> ExampleSpec:
        """Encoder examples whose attention mask is given by ranks."""
        return ExampleSpec(layout="encoder", fields=("weights", "token_types", "ranks"))

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        require_ids({"cls": ids.cls, "sep": ids.sep})
        least = self.partial + 2 + self.two_segments
        if lengths.inputs < least:
            raise ValueError(
                f"inputs_length of {lengths.inputs} is too short for {self.partial} tokens, of which one is predicted, "
                f"and special ids; set it to {least} or more"
            )

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut texts of one or two segments over all documents of the window."""
        max_length = lengths.inputs - 2 - self.two_segments
        if not self.two_segments:
            return cut_segments(window, [SegmentKind(1.0, max_length)], key)
        rates = (1.0 - self.random_rate, False), (self.random_rate, True)
        return cut_segments(
            window, [SegmentKind(rate, max_length, True, is_random) for rate, is_random in rates], key
        )

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Draw the targets and their order; see ``Objective.make``."""
        del lengths
        rows = _rows(texts, ids)
        counts = np.array([len(text.tokens) for text in texts], np.int64)
        is_target = np.zeros(rows.tokens.shape, bool)
        chosen = self.targets_of(counts, seeds)
        is_target[rows.is_text] = chosen[np.arange(chosen.shape[1]) < counts[:, None]]
        return rows_to_examples(
            np.array(rows.ends, np.int64),
            inputs=rows.tokens,
            targets=rows.tokens,
            weights=is_target.astype(np.float32),
            token_types=rows.types,
            ranks=ranks_of(is_target, seeds),
        )

    def targets_of(self, counts: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        """Draw the tokens to predict, bool [N, L].

        Args:
          counts: Number of tokens of each text, int64 [N].
          seeds: Seed of each text, uint64 [N, 2].
        """
        longest = int(counts.max(initial=1))
        columns = -(-longest // self.partial)
        lengths = 1 + random_below(self.max_span, seeds, columns, use=_LENGTHS)
        stretches = lengths * self.partial
        starts = np.cumsum(stretches, axis=1) - stretches
        stretches = np.clip(counts[:, None] - starts, 0, stretches)  # the last one is shorter
        lengths = np.minimum(lengths, stretches // self.partial)
        lengths[:, 0] = np.maximum(lengths[:, 0], 1)
        offsets = random_fractions(seeds, columns, use=_PLACES) * (stretches - lengths + 1)
        starts = np.minimum(starts + offsets.astype(np.int64), longest)
        change = np.zeros((len(counts), longest + 1), np.int64)
        rows = np.arange(len(counts))[:, None]
        np.add.at(change, (rows, starts), 1)
        np.add.at(change, (rows, np.minimum(starts + lengths, longest)), -1)
        return np.cumsum(change, axis=1)[:, :-1] > 0


class _Rows(NamedTuple):
    tokens: np.ndarray  # int32 [N, M]
    types: np.ndarray  # int32 [N, M]
    is_text: np.ndarray  # bool [N, M]
    ends: list[int]


def _rows(texts: Sequence[Text], ids: VocabularyIds) -> _Rows:
    assert ids.cls is not None, "check refuses such vocabularies"
    has_two = [text.second < len(text.tokens) for text in texts]
    ends = [len(text.tokens) + 2 + two for text, two in zip(texts, has_two, strict=True)]
    shape = (len(texts), max(ends, default=0))
    rows = _Rows(np.full(shape, ids.cls, np.int32), np.zeros(shape, np.int32), np.zeros(shape, bool), ends)
    for index, (text, two, end) in enumerate(zip(texts, has_two, ends, strict=True)):
        first = text.second
        rows.tokens[index, :first] = text.tokens[:first]
        rows.tokens[index, first] = ids.sep
        rows.is_text[index, :first] = True
        if two:
            rows.tokens[index, first + 1 : end - 2] = text.tokens[first:]
            rows.tokens[index, end - 2] = ids.sep
            rows.is_text[index, first + 1 : end - 2] = True
            rows.types[index, first + 1 : end - 1] = 1
        rows.types[index, end - 1] = 2
    return rows


def ranks_of(is_target: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Return attention ranks, int32 [N, M]: 1, 2, 3 … in random order for targets, 0 elsewhere.

    Args:
      is_target: True for tokens to predict, bool [N, M].
      seeds: Seed of each row, uint64 [N, 2].
    """
    counts = np.count_nonzero(is_target, axis=1)
    columns = int(counts.max(initial=0))
    is_used = np.arange(columns) < counts[:, None]
    keys = random_bits(seeds, columns, use=_ORDER)
    keys[~is_used] = ~np.uint64(0)
    order = np.empty((len(keys), columns), np.int32)
    np.put_along_axis(
        order, np.argsort(keys, axis=1, kind="stable"), np.arange(1, columns + 1, dtype=np.int32), 1
    )
    ranks = np.zeros(is_target.shape, np.int32)
    ranks[is_target] = order[is_used]
    return ranks
