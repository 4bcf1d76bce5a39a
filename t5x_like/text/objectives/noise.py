"""Configurations of noise: which tokens an objective corrupts, and what replaces them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from t5x_like.text.objectives.noise_masks import count_noise, random_spans, rolled, uniforms_needed
from t5x_like.text.objectives.random_bits import random_below, random_bits, random_fractions


@dataclass(frozen=True, kw_only=True)
class IidNoise:
    """Every token by itself, with probability ``noise_density``."""

    noise_density: float = 0.15

    def __post_init__(self) -> None:
        _check_noise_density(self.noise_density)

    def draw(self, length: int, seeds: np.ndarray) -> np.ndarray:
        """Masks, bool [N, length]."""
        return random_fractions(seeds, length) < self.noise_density

    def expected(self, length: int) -> tuple[float, float]:
        """How many tokens are noise, and how many spans they make, on average."""
        return length * self.noise_density, self.noise_density * (1 + (length - 1) * (1 - self.noise_density))


@dataclass(frozen=True, kw_only=True)
class SpanNoise:
    """``noise_density`` of the tokens, to the token, in spans of ``mean_noise_span_length`` on average.

    T5's masks begin with what is kept and end with noise. With ``roll``, each is turned round by a random offset, so
    that noise is as likely everywhere.
    """

    noise_density: float = 0.15
    mean_noise_span_length: float = 3.0
    roll: bool = False

    def __post_init__(self) -> None:
        _check_noise_density(self.noise_density)
        if self.noise_density == 1.0:
            raise ValueError("spans of noise at density 1 leave nothing between them; use IidNoise")
        if self.mean_noise_span_length < 1.0:
            raise ValueError(
                f"mean_noise_span_length must be at least 1 token, got {self.mean_noise_span_length}"
            )

    def draw(self, length: int, seeds: np.ndarray) -> np.ndarray:
        """Masks, bool [N, length]."""
        bits = random_bits(seeds, uniforms_needed(length))
        mask = random_spans(
            length, bits, noise_density=self.noise_density, mean_noise_span_length=self.mean_noise_span_length
        )
        return rolled(mask, random_below(max(length, 2), seeds, 1, use=1)) if self.roll else mask

    def expected(self, length: int) -> tuple[float, float]:
        """How many tokens are noise, and the most spans they make."""
        num_noise, num_spans = count_noise(
            length, noise_density=self.noise_density, mean_noise_span_length=self.mean_noise_span_length
        )
        return num_noise, num_spans + self.roll


@dataclass(frozen=True, kw_only=True)
class RegularNoise:
    """Spans of one length, at equal distances; length, from ``shortest`` to ``longest``, and offset are drawn."""

    noise_density: float = 0.15
    shortest: int = 1
    longest: int = 5

    def __post_init__(self) -> None:
        _check_noise_density(self.noise_density)
        if not 1 <= self.shortest <= self.longest:
            raise ValueError(
                f"spans of {self.shortest} to {self.longest} tokens are none; give 1 <= shortest <= longest"
            )

    def draw(self, length: int, seeds: np.ndarray) -> np.ndarray:
        """Masks, bool [N, length]."""
        spans = self.shortest + random_below(self.longest + 1 - self.shortest, seeds, 1)
        period = np.round(spans.astype(np.float32) / np.float32(self.noise_density)).astype(np.int64)
        offset = random_below(period, seeds, 1, use=1)
        return (np.arange(length) + offset) % period < spans

    def expected(self, length: int) -> tuple[float, float]:
        """How many tokens are noise on average, and the most spans they make."""
        return length * self.noise_density, length / round(self.shortest / self.noise_density) + 1


Noise = IidNoise | SpanNoise | RegularNoise
# What replaces noise in the inputs, and the format of the targets; ``Denoising`` shows an example of each.
Replacement = Literal["unique_sentinels", "one_sentinel", "dropped", "random", "gathered", "shuffled"]
TargetFormat = Literal["text", "unique_sentinels", "one_sentinel", "dropped"]


@dataclass(frozen=True, kw_only=True)
class MaskTokens:
    """Replaces every noise token by a mask, or by a random word at ``random_rate``."""

    random_rate: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.random_rate <= 1.0:
            raise ValueError(f"random_rate must lie between 0 and 1, got {self.random_rate}")


def _check_noise_density(noise_density: float) -> None:
    if not 0.0 < noise_density <= 1.0:
        raise ValueError(
            f"noise_density is a share of the tokens and must lie above 0 and up to 1, got {noise_density}"
        )
