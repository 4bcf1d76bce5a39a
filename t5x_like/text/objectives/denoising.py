"""T5's denoising objectives: a noise mask, its replacement in the inputs, and the target format."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from t5x_like.text.objectives.cutting import by_length, cut_runs, stacked
from t5x_like.text.objectives.noise import IidNoise, MaskTokens, Noise, Replacement, SpanNoise, TargetFormat
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.random_bits import random_fractions
from t5x_like.text.objectives.replacing import (
    gathered,
    mask_of,
    random_words,
    rows_of,
    shuffled,
    spans_to_sentinels,
    with_column,
)
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_SHORTENS = ("unique_sentinels", "one_sentinel", "dropped")


@dataclass(frozen=True, kw_only=True)
class Denoising:
    """Corrupts the tokens that are noise; targets are the whole text or the noise alone.

    With noise in the places of b, c and f, ``a b c d e f`` becomes

    | ``inputs`` | encoder's | | ``targets`` | decoder's |
    |---|---|---|---|---|
    | "unique_sentinels" | ``a <0> d e <1>`` | | "unique_sentinels" | ``<0> b c <1> f`` |
    | "one_sentinel" | ``a <0> d e <0>`` | | "one_sentinel" | ``<0> b c <0> f`` |
    | "dropped" | ``a d e`` | | "dropped" | ``b c f`` |
    | ``MaskTokens()`` | ``a <0> <0> d e <0>`` | | "text" | ``a b c d e f`` |
    | "random" | ``a x y d e z``, any words | | | |
    | "gathered" | ``a f d d e a``, words of the text | | | |
    | "shuffled" | ``a f b d e c`` | | | |

    Spans between noise are marked in the targets, as spans of noise are in the inputs. Both sides end with an end of
    sequence; targets over their limit, which independent noise may give, are cut as in T5. Random words are never
    special ids or sentinels, which T5's own code draws as well.

    Raffel et al. 2020, §3.3, https://arxiv.org/abs/1910.10683: BERT-style is ``MaskTokens(random_rate=0.1)`` and the
    text, MASS-style ``MaskTokens()`` and the text, replaced spans sentinels on both sides, dropped tokens "dropped".
    """

    noise: Noise = field(default_factory=IidNoise)
    inputs: Replacement | MaskTokens = "unique_sentinels"
    targets: TargetFormat = "unique_sentinels"

    def __post_init__(self) -> None:
        known = Replacement.__args__
        if not isinstance(self.inputs, MaskTokens) and self.inputs not in known:
            raise ValueError(f"inputs must be MaskTokens() or one of {', '.join(known)}, not {self.inputs!r}")
        if self.targets not in TargetFormat.__args__:
            raise ValueError(
                f"targets must be one of {', '.join(TargetFormat.__args__)}, not {self.targets!r}"
            )

    def lengths(self, text_length: int) -> tuple[int, int]:
        """Lengths of both sides, with end of sequence; of independent and of regular noise on average."""
        num_noise, num_spans = self.noise.expected(text_length)
        sides = []
        for becomes, kept in ((self.inputs, text_length - num_noise), (self.targets, num_noise)):
            if becomes not in _SHORTENS:
                kept = text_length
            elif becomes != "dropped":
                kept += num_spans
            sides.append(ceil(kept) + 1)
        return sides[0], sides[1]

    def text_length(self, inputs_length: int) -> int:
        """The most tokens whose inputs fit for certain, whatever the noise.

        Raises:
          ValueError: ``inputs_length`` is too short for any example.
        """
        length = inputs_length - 1
        if length < 2:
            raise ValueError(f"inputs_length of {inputs_length} is too short for {self}; use at least 8")
        if isinstance(self.noise, SpanNoise) and self.inputs in _SHORTENS:
            while self.lengths(length)[0] > inputs_length:
                length -= 1
            while self.lengths(length + 1)[0] <= inputs_length:
                length += 1
        return length

    @property
    def spec(self) -> ExampleSpec:
        """T5 joins documents without a mark."""
        return ExampleSpec(layout="encoder_decoder")

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """See ``Objective.check``."""
        text_length = self.text_length(lengths.inputs)
        needed = self.lengths(text_length)[1]
        if needed > lengths.targets:
            raise ValueError(
                f"inputs of {lengths.inputs} go with targets of {needed} tokens, over the limit of "
                f"{lengths.targets}; set targets_length to {needed} or more, or lower inputs_length"
            )
        sides = self.inputs, self.targets
        sentinels = ceil(self.noise.expected(text_length)[1]) if "unique_sentinels" in sides else 0
        require_sentinels(sentinels, lengths, ids)
        if mask_of(ids) is None and (isinstance(self.inputs, MaskTokens) or "one_sentinel" in sides):
            raise ValueError("the vocabulary has neither sentinels nor a mask; raise num_sentinels")

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Even runs over 128 documents."""
        del key
        return cut_runs(window, self.text_length(lengths.inputs))

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Corrupts texts, those of one length together."""
        examples: list[Example] = [Example()] * len(texts)
        for length, numbers in by_length(texts).items():
            is_noise = self.noise.draw(length, seeds[numbers])
            sides = self.corrupt(stacked(texts, numbers), is_noise, seeds[numbers], lengths, ids)
            for number, inputs, targets in zip(numbers, *sides, strict=True):
                examples[number] = Example(inputs=inputs, targets=targets)
        return examples

    def corrupt(
        self,
        tokens: np.ndarray,
        is_noise: np.ndarray,
        seeds: np.ndarray,
        lengths: Lengths,
        ids: VocabularyIds,
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Inputs and targets, ended, of rows int32 [N, L] with given noise, bool [N, L]; ``seeds`` draw new words."""
        assert ids.eos is not None, "a loader refuses vocabularies without an end"
        ended = with_column(tokens, ids.eos)
        if isinstance(self.inputs, str) and self.inputs in _SHORTENS:
            side = _shortened(ended, with_column(is_noise, False), self.inputs, ids)
        else:
            changed = with_column(self._changed(tokens, is_noise, seeds, ids), ids.eos)
            side = changed, np.ones(changed.shape, bool)
        if self.targets == "text":
            target_side = ended, np.ones(ended.shape, bool)
        else:
            target_side = _shortened(ended, with_column(~is_noise, False), self.targets, ids)
        return rows_of(*side, most=lengths.inputs), rows_of(*target_side, most=lengths.targets)

    def _changed(
        self, tokens: np.ndarray, is_noise: np.ndarray, seeds: np.ndarray, ids: VocabularyIds
    ) -> np.ndarray:
        """Rows as long as before."""
        if self.inputs == "shuffled":
            return shuffled(tokens, is_noise, seeds, use=2)
        if self.inputs == "gathered":
            return np.where(is_noise, gathered(tokens, seeds, use=2), tokens)
        if not isinstance(self.inputs, MaskTokens):
            return np.where(is_noise, random_words(tokens.shape, seeds, ids, use=2), tokens)
        masked = np.where(is_noise, np.int32(mask_of(ids) or 0), tokens)
        if not self.inputs.random_rate:
            return masked
        is_random = is_noise & (random_fractions(seeds, tokens.shape[1], use=2) < self.inputs.random_rate)
        return np.where(is_random, random_words(tokens.shape, seeds, ids, use=3), masked)


def require_sentinels(needed: int, lengths: Lengths, ids: VocabularyIds) -> None:
    """Refuses vocabularies with fewer.

    Raises:
      ValueError: says how many there are.
    """
    if needed > ids.num_sentinels:
        raise ValueError(
            f"{needed} sentinels are needed for inputs of {lengths.inputs}, the vocabulary has {ids.num_sentinels}; "
            "raise num_sentinels, lower inputs_length, or use longer spans"
        )


def _shortened(
    tokens: np.ndarray, is_span: np.ndarray, becomes: str, ids: VocabularyIds
) -> tuple[np.ndarray, np.ndarray]:
    if becomes == "dropped":
        return tokens, ~is_span
    return spans_to_sentinels(tokens, is_span, ids, unique=becomes == "unique_sentinels")
