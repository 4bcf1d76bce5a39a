"""T5's span corruption: sentinels replace spans in the inputs, and the targets restore them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.cutting import cut_runs
from t5x_like.text.objectives.denoising import Denoising, require_sentinels
from t5x_like.text.objectives.noise import SpanNoise
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_ENOUGH = 8  # tokens of inputs that hold an example


@dataclass(frozen=True, kw_only=True)
class SpanCorruption:
    """Drops ``noise_density`` of the tokens in spans of ``mean_noise_span_length`` tokens on average.

    ``a b c d e f`` becomes inputs ``a <0> d e <1>`` and targets ``<0> b c <1> f``. Sentinels count down from the end of
    the vocabulary; targets don't end with one.

    >>> SpanCorruption().raw_length(512), SpanCorruption().lengths(568)
    (568, (512, 114))

    Raffel et al. 2020, §3.1.4, https://arxiv.org/abs/1910.10683.

    Attributes:
      noise_density: Fraction of the tokens that are dropped.
      mean_noise_span_length: Average length of a dropped span in tokens.
    """

    noise_density: float = 0.15
    mean_noise_span_length: float = 3.0

    def __post_init__(self) -> None:
        if not 0.0 < self.noise_density < 1.0:
            raise ValueError(f"noise_density must lie between 0 and 1, got {self.noise_density}")
        if self.mean_noise_span_length < 1.0:
            raise ValueError(
                f"mean_noise_span_length must be at least 1 token, got {self.mean_noise_span_length}"
            )

    def lengths(self, raw_length: int) -> tuple[int, int]:
        """Return the lengths of inputs and targets, with their ends, for ``raw_length`` tokens."""
        if raw_length < 2:  # one token cannot be dropped without dropping all: T5's targets are one sentinel
            return raw_length + 1, raw_length + 1
        num_noise, num_spans = self.noise.expected(raw_length)
        return raw_length - num_noise + num_spans + 1, num_noise + num_spans + 1

    def raw_length(self, inputs_length: int) -> int:
        """Return the largest number of raw tokens whose inputs fit ``inputs_length``: 568 for 512.

        Raises:
          ValueError: ``inputs_length`` is too short for any example.
        """
        return self.plan(inputs_length)[0]

    def plan(self, inputs_length: int) -> tuple[int, int]:
        """Return the raw tokens and the targets' length for inputs of ``inputs_length``: (568, 114) for 512.

        T5's arithmetic, with its exception: at density 0.5 the targets must not be longer than the inputs.

        Raises:
          ValueError: ``inputs_length`` is too short for any example.
        """
        length = inputs_length
        if inputs_length >= _ENOUGH and self._planned(length)[0] > inputs_length:
            length -= 1  # spans as short as their sentinels: only the end is added. T5 cuts it off
        if inputs_length < 2 or self._planned(length)[0] > inputs_length:
            raise ValueError(
                f"inputs_length of {inputs_length} is too short for {self}; use at least {_ENOUGH}"
            )
        while self._planned(length + 1)[0] <= inputs_length:
            length += 1
        targets_length = self._planned(length)[1]
        if self.noise_density == 0.5 and targets_length > inputs_length:
            return length - 1, targets_length - 1
        return length, targets_length

    def _planned(self, raw_length: int) -> tuple[int, int]:
        # In float64 and without the bounds of count_noise: T5 plans lengths in this way, and masks in the other.
        num_noise = round(raw_length * self.noise_density)
        num_spans = round(num_noise / self.mean_noise_span_length)
        return raw_length - num_noise + num_spans + 1, num_noise + num_spans + 1

    @property
    def noise(self) -> SpanNoise:
        """Distribution of the dropped tokens."""
        return SpanNoise(noise_density=self.noise_density, mean_noise_span_length=self.mean_noise_span_length)

    @property
    def denoising(self) -> Denoising:
        """Equivalent ``Denoising``, which only plans lengths differently."""
        return Denoising(noise=self.noise)

    @property
    def spec(self) -> ExampleSpec:
        """Encoder-decoder examples from documents that T5 joins without a separator."""
        return ExampleSpec(layout="encoder_decoder")

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        raw_length = self.raw_length(lengths.inputs)
        needed = self.lengths(raw_length)[1]
        if needed > lengths.targets:
            raise ValueError(
                f"inputs of {lengths.inputs} go with targets of {needed} tokens, over the limit of "
                f"{lengths.targets}; set targets_length to {needed}, or lower inputs_length"
            )
        require_sentinels(self.noise.expected(raw_length)[1], lengths, ids)

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut runs of equal length from 128 joined documents at a time; see ``Objective.cut``."""
        del key
        return cut_runs(window, self.raw_length(lengths.inputs))

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Corrupt texts, in groups of equal length; see ``Objective.make``."""
        return self.denoising.make(texts, seeds, lengths, ids)
