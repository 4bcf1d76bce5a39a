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
    kept_tokens,
    mask_id,
    random_words,
    shuffled,
    spans_to_sentinels,
    with_column,
)
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds
from t5x_like.value_types import fits

_SHORTENS = ("unique_sentinels", "one_sentinel", "dropped")


@dataclass(frozen=True, kw_only=True)
class Denoising:
    """Corrupts noise tokens; targets are the whole text or the noise alone.

    With noise at b, c and f, ``a b c d e f`` becomes

    | ``inputs`` | encoder's | | ``targets`` | decoder's |
    |---|---|---|---|---|
    | "unique_sentinels" | ``a <0> d e <1>`` | | "unique_sentinels" | ``<0> b c <1> f`` |
    | "one_sentinel" | ``a <0> d e <0>`` | | "one_sentinel" | ``<0> b c <0> f`` |
    | "dropped" | ``a d e`` | | "dropped" | ``b c f`` |
    | ``MaskTokens()`` | ``a <0> <0> d e <0>`` | | "text" | ``a b c d e f`` |
    | "random" | ``a x y d e z``, any tokens | | | |
    | "gathered" | ``a f d d e a``, tokens of the text | | | |
    | "shuffled" | ``a f b d e c`` | | | |

    Targets mark spans between noise as inputs mark spans of noise. Both streams end with an end of sequence. Targets
    over their limit, possible with independent noise, are cut as in T5. Random tokens are never special ids or
    sentinels; T5's own code draws those too.

    Raffel et al. 2020, §3.3, https://arxiv.org/abs/1910.10683: BERT-style is ``MaskTokens(random_rate=0.1)`` and
    "text", MASS-style ``MaskTokens()`` and "text", replaced spans sentinels in both streams, dropped tokens "dropped".

    Attributes:
      noise: Distribution of the noise tokens.
      inputs: Replacement of noise in the inputs.
      targets: Format of the targets.
    """

    noise: Noise = field(default_factory=IidNoise)
    inputs: Replacement | MaskTokens = "unique_sentinels"
    targets: TargetFormat = "unique_sentinels"

    def __post_init__(self) -> None:
        if not fits(self.inputs, MaskTokens | Replacement):
            known = ", ".join(Replacement.__args__)
            raise ValueError(f"inputs must be MaskTokens() or one of {known}, not {self.inputs!r}")
        if self.targets not in TargetFormat.__args__:
            raise ValueError(
                f"targets must be one of {', '.join(TargetFormat.__args__)}, not {self.targets!r}"
            )

    def lengths(self, text_length: int) -> tuple[int, int]:
        """Return the lengths of inputs and targets with their end; averages for independent and regular noise."""
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
        """Return the largest number of tokens whose inputs always fit ``inputs_length``.

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
        """Encoder-decoder examples from documents that T5 joins without a separator."""
        return ExampleSpec(layout="encoder_decoder")

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
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
        if mask_id(ids) is None and (isinstance(self.inputs, MaskTokens) or "one_sentinel" in sides):
            raise ValueError("the vocabulary has neither sentinels nor a mask; raise num_sentinels")

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut runs of equal length from 128 joined documents at a time; see ``Objective.cut``."""
        del key
        return cut_runs(window, self.text_length(lengths.inputs))

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Corrupt texts, in groups of equal length; see ``Objective.make``."""
        examples: list[Example] = [Example()] * len(texts)
        for length, numbers in by_length(texts).items():
            is_noise = self.noise.draw(length, seeds[numbers])
            sides = self.corrupt(stacked(texts, numbers), is_noise, seeds[numbers], lengths, ids)
            for index, inputs, targets in zip(numbers, *sides, strict=True):
                examples[index] = Example(inputs=inputs, targets=targets)
        return examples

    def corrupt(
        self,
        tokens: np.ndarray,
        is_noise: np.ndarray,
        seeds: np.ndarray,
        lengths: Lengths,
        ids: VocabularyIds,
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Corrupt rows with a given noise mask.

        Args:
          tokens: int32 [N, L].
          is_noise: bool [N, L].
          seeds: Seed of each row for replacement tokens, uint64 [N, 2].
          lengths: Maximum lengths of both streams.
          ids: Special ids of the vocabulary.

        Returns:
          Inputs and targets of each row, each with its end of sequence.
        """
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
        return kept_tokens(*side, max_length=lengths.inputs), kept_tokens(
            *target_side, max_length=lengths.targets
        )

    def _changed(
        self, tokens: np.ndarray, is_noise: np.ndarray, seeds: np.ndarray, ids: VocabularyIds
    ) -> np.ndarray:
        """Replace noise tokens one by one, so that rows keep their lengths."""
        if self.inputs == "shuffled":
            return shuffled(tokens, is_noise, seeds, use=2)
        if self.inputs == "gathered":
            return np.where(is_noise, gathered(tokens, seeds, use=2), tokens)
        if not isinstance(self.inputs, MaskTokens):
            return np.where(is_noise, random_words(tokens.shape, seeds, ids, use=2), tokens)
        masked = np.where(is_noise, np.int32(mask_id(ids) or 0), tokens)
        if not self.inputs.random_rate:
            return masked
        is_random = is_noise & (random_fractions(seeds, tokens.shape[1], use=2) < self.inputs.random_rate)
        return np.where(is_random, random_words(tokens.shape, seeds, ids, use=3), masked)


def require_sentinels(needed: int, lengths: Lengths, ids: VocabularyIds) -> None:
    """Check that the vocabulary has enough sentinels.

    Args:
      needed: Number of sentinels that the objective uses.
      lengths: Maximum lengths, for the message.
      ids: Special ids of the vocabulary.

    Raises:
      ValueError: There are too few.
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


ALL_SHUFFLED = Denoising(noise=IidNoise(noise_density=1.0), inputs="shuffled", targets="text")


@dataclass(frozen=True, kw_only=True)
class Deshuffling:
    """Restores the order of shuffled tokens: ``a b c d`` becomes inputs ``c a d b`` and targets ``a b c d``.

    Denoising in which every token is noise and noise is shuffled.

    Raffel et al. 2020, §3.3.1, https://arxiv.org/abs/1910.10683; after Liu et al. 2019,
    https://arxiv.org/abs/1910.00998.
    """

    @property
    def spec(self) -> ExampleSpec:
        """Encoder-decoder examples from documents that T5 joins without a separator."""
        return ALL_SHUFFLED.spec

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        ALL_SHUFFLED.check(lengths, ids)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut runs of equal length from 128 joined documents at a time; see ``Objective.cut``."""
        return ALL_SHUFFLED.cut(window, lengths, key)

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Shuffle texts, in groups of equal length; see ``Objective.make``."""
        return ALL_SHUFFLED.make(texts, seeds, lengths, ids)
