"""BERT's pretraining: masked tokens and next sentence prediction."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from t5x_like.text.objectives.encoder_rows import MaskedPairs, require_shares
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Lengths
from t5x_like.text.objectives.random_bits import random_bits
from t5x_like.text.objectives.sentence_cutting import Pair, chunk_end, pair_cuts, sentences_of, target_lengths

Segments = Literal["segments", "sentences"]
FOLLOWS, RANDOM = 0, 1  # labels, as in BERT's code


class _Draws(NamedTuple):
    """Random draws for each sentence, used if a text begins with it."""

    is_random: list[bool]
    split: list[int]
    document: list[int]
    sentence: list[int]
    length: list[int]


@dataclass(frozen=True, kw_only=True)
class SentencePairs(MaskedPairs):
    """Pairs of segments with masked tokens; the second segment follows the first, or comes from another document.

    ``a b. c d.`` becomes ``[CLS] a [MASK] . [SEP] c d . [SEP]`` with token types ``0 0 0 0 0 1 1 1 1`` and label 0.
    With ``random_next_rate``, or if a document has no next sentence, the second segment starts at a sentence of
    another document, and the label is 1. The next text then continues the first document.

    Segments hold as many sentences as fill the row; the longer one is truncated at its front or end. ``short_rate`` of
    the texts have a random shorter length. BERT's code draws that once per document; this draws it for each text.

    Devlin et al. 2019, §3.1 and appendix A.2, https://arxiv.org/abs/1810.04805; Liu et al. 2019, §4.2,
    https://arxiv.org/abs/1907.11692.

    Attributes:
      segments: "segments" of several sentences, or single "sentences" (RoBERTa's SENTENCE-PAIR+NSP).
      random_next_rate: Fraction of pairs whose second segment is from another document.
    """

    segments: Segments = "segments"
    random_next_rate: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.segments not in ("segments", "sentences"):
            raise ValueError(f"segments must be 'segments' or 'sentences', got {self.segments!r}")
        require_shares(random_next_rate=self.random_next_rate)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut pairs of segments from one document or two; see ``Objective.cut``."""
        max_length = lengths.inputs - 3
        edges, first = (array.tolist() for array in sentences_of(window, max_length))
        num_sentences = len(edges) - 1
        bits = random_bits(key[None], 4 * num_sentences).reshape(4, num_sentences)
        draws = _Draws(
            is_random=((bits[0] >> np.uint64(11)) * 2.0**-53 < self.random_next_rate).tolist(),
            split=bits[1].tolist(),
            document=bits[2].tolist(),
            sentence=bits[3].tolist(),
            length=target_lengths(num_sentences, max_length, self.short_rate, key),
        )
        return pair_cuts(list(self._pairs(edges, first, draws)), max_length, key)

    def _pairs(self, edges: list[int], first: list[int], draws: _Draws) -> Iterator[Pair]:
        for document, last in enumerate(first[1:]):
            start = first[document]
            while start < last:
                end = self._end(edges, start, last, draws.length[start])
                split = start + 1 + (draws.split[start] % (end - start - 1) if end - start > 1 else 0)
                is_random = len(first) > 2 and (draws.is_random[start] or split == end)
                if is_random:
                    begin, stop = self._elsewhere(edges, first, document, (start, split), draws)
                    yield edges[start], edges[split], edges[begin], edges[stop], RANDOM
                elif split < end:
                    yield edges[start], edges[split], edges[split], edges[end], FOLLOWS
                start = split if is_random else end

    def _elsewhere(
        self, edges: list[int], first: list[int], document: int, segment: tuple[int, int], draws: _Draws
    ) -> tuple[int, int]:
        """Return sentences of another document, to follow a segment of this one."""
        start, split = segment
        other = draws.document[start] % (len(first) - 2)
        other += other >= document
        begin = first[other] + draws.sentence[start] % (first[other + 1] - first[other])
        if self.segments == "sentences":
            return begin, begin + 1
        length = draws.length[start] - (edges[split] - edges[start])
        return begin, chunk_end(edges, begin, first[other + 1], length)

    def _end(self, edges: list[int], start: int, last: int, length: int) -> int:
        if self.segments == "sentences":
            return min(start + 2, last)
        return chunk_end(edges, start, last, length)
