"""ALBERT's pretraining: masked n-grams and sentence order prediction."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from t5x_like.text.objectives.encoder_rows import MaskedPairs, require_shares
from t5x_like.text.objectives.masking import Masking
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Lengths
from t5x_like.text.objectives.random_bits import random_bits
from t5x_like.text.objectives.sentence_cutting import Pair, chunk_end, pair_cuts, sentences_of, target_lengths
from t5x_like.text.objectives.word_masking import TokenMasking


@dataclass(frozen=True, kw_only=True)
class SentenceOrder(MaskedPairs):
    """Two consecutive segments with masked n-grams, swapped in half of the texts.

    ``a b. c d.`` becomes ``[CLS] a b . [SEP] [MASK] d . [SEP]`` with label 0, or ``[CLS] c [MASK] . [SEP] a b .
    [SEP]`` with label 1; token types identify the segments of a row. A text of a single sentence is divided inside it;
    a document of one token makes no pair. Lengths, ``masking`` and ``num_copies`` are as in ``SentencePairs``.

    Lan et al. 2020, §3.1 and §4.1, https://arxiv.org/abs/1909.11942.

    Attributes:
      masking: Distribution of the masked tokens.
      swap_rate: Fraction of the pairs in the wrong order.
    """

    masking: Masking = field(default_factory=lambda: TokenMasking(whole_words=True, max_ngram=3))
    swap_rate: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_shares(swap_rate=self.swap_rate)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut pairs of adjacent segments, swapped or not; see ``Objective.cut``."""
        max_length = lengths.inputs - 3
        edges, first = (array.tolist() for array in sentences_of(window, max_length))
        num_sentences = len(edges) - 1
        bits = random_bits(key[None], 2 * num_sentences).reshape(2, num_sentences)
        is_swapped = ((bits[0] >> np.uint64(11)) * 2.0**-53 < self.swap_rate).tolist()
        splits = bits[1].tolist()
        targets = target_lengths(num_sentences, max_length, self.short_rate, key)
        pairs: list[Pair] = []
        for start, last in pairwise(first):
            while start < last:
                end = chunk_end(edges, start, last, targets[start])
                begin, split, stop = _split(edges, start, end, splits[start])
                if split < stop:
                    swapped = is_swapped[start]
                    both = (split, stop, begin, split) if swapped else (begin, split, split, stop)
                    pairs.append((*both, int(swapped)))
                start = end
        return pair_cuts(pairs, max_length, key)


def _split(edges: list[int], start: int, end: int, draw: int) -> tuple[int, int, int]:
    """Return the edges of two segments: between two of these sentences, or inside a single one."""
    begin, stop = edges[start], edges[end]
    if end - start > 1:
        return begin, edges[start + 1 + draw % (end - start - 1)], stop
    return begin, begin + 1 + draw % max(stop - begin - 1, 1), stop
