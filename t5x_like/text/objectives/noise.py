"""Noise configurations: the tokens that an objective corrupts, and their replacement."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from t5x_like.text.objectives.random_bits import random_below, random_bits, random_fractions


@dataclass(frozen=True, kw_only=True)
class IidNoise:
    """Corrupts each token independently with probability ``noise_density``."""

    noise_density: float = 0.15

    def __post_init__(self) -> None:
        _check_noise_density(self.noise_density)

    def draw(self, length: int, seeds: np.ndarray) -> np.ndarray:
        """Draw noise masks.

        Args:
          length: Number of tokens of each text.
          seeds: Seed of each text, uint64 [N, 2].

        Returns:
          bool [N, length], true for noise.
        """
        return random_fractions(seeds, length) < self.noise_density

    def expected(self, length: int) -> tuple[float, float]:
        """Return the average numbers of noise tokens and of noise spans in ``length`` tokens."""
        return length * self.noise_density, self.noise_density * (1 + (length - 1) * (1 - self.noise_density))


@dataclass(frozen=True, kw_only=True)
class SpanNoise:
    """Corrupts ``noise_density`` of the tokens, rounded, in spans of random lengths.

    T5's masks begin with kept tokens and end with noise.

    Attributes:
      noise_density: Fraction of the tokens that are noise.
      mean_noise_span_length: Average span length in tokens.
      roll: Rotate each mask by a random offset, so that every position is equally likely to be noise.
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
        """Draw noise masks; see ``IidNoise.draw``."""
        bits = random_bits(seeds, uniforms_needed(length))
        mask = random_spans(
            length, bits, noise_density=self.noise_density, mean_noise_span_length=self.mean_noise_span_length
        )
        return _roll_rows(mask, random_below(max(length, 2), seeds, 1, use=1)) if self.roll else mask

    def expected(self, length: int) -> tuple[int, int]:
        """Return the number of noise tokens and the maximum number of spans in ``length`` tokens."""
        num_noise, num_spans = count_noise(
            length, noise_density=self.noise_density, mean_noise_span_length=self.mean_noise_span_length
        )
        return num_noise, num_spans + self.roll


@dataclass(frozen=True, kw_only=True)
class RegularNoise:
    """Corrupts spans of one length at equal distances; length and offset are drawn for each text.

    Attributes:
      noise_density: Fraction of the tokens that are noise.
      shortest: Minimum span length in tokens.
      longest: Maximum span length in tokens.
    """

    noise_density: float = 0.15
    shortest: int = 1
    longest: int = 5

    def __post_init__(self) -> None:
        _check_noise_density(self.noise_density)
        if not 1 <= self.shortest <= self.longest:
            raise ValueError(
                f"shortest={self.shortest} and longest={self.longest} don't fit together; give 1 <= shortest <= longest"
            )

    def draw(self, length: int, seeds: np.ndarray) -> np.ndarray:
        """Draw noise masks; see ``IidNoise.draw``."""
        spans = self.shortest + random_below(self.longest + 1 - self.shortest, seeds, 1)
        period = np.round(spans.astype(np.float32) / np.float32(self.noise_density)).astype(np.int64)
        offset = random_below(period, seeds, 1, use=1)
        return (np.arange(length) + offset) % period < spans

    def expected(self, length: int) -> tuple[float, float]:
        """Return the average number of noise tokens and the maximum number of spans in ``length`` tokens."""
        return length * self.noise_density, length / round(self.shortest / self.noise_density) + 1


Noise = IidNoise | SpanNoise | RegularNoise
# What replaces noise in the inputs, and the format of the targets; ``Denoising`` shows an example of each.
Replacement = Literal["unique_sentinels", "one_sentinel", "dropped", "random", "gathered", "shuffled"]
TargetFormat = Literal["text", "unique_sentinels", "one_sentinel", "dropped"]


@dataclass(frozen=True, kw_only=True)
class MaskTokens:
    """Replaces every noise token by a mask, or with probability ``random_rate`` by a random token."""

    random_rate: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.random_rate <= 1.0:
            raise ValueError(f"random_rate must lie between 0 and 1, got {self.random_rate}")


def _check_noise_density(noise_density: float) -> None:
    if not 0.0 < noise_density <= 1.0:
        raise ValueError(
            f"noise_density is a share of the tokens and must lie above 0 and up to 1, got {noise_density}"
        )


def count_noise(length: int, *, noise_density: float, mean_noise_span_length: float) -> tuple[int, int]:
    """Return the numbers of noise tokens and of noise spans (Raffel et al. 2020, §3.1.4).

    Rounding is T5's, half to even in float32. At least one token is noise and one is not. For some lengths T5 itself
    fails because it needs more spans than there are tokens between them (three tokens at density 0.5 and mean span 1);
    here the number of spans is the largest that fits.

    Args:
      length: Number of tokens of the text; below 2 counts as 2.
      noise_density: Fraction of the tokens that are noise.
      mean_noise_span_length: Average span length in tokens.
    """
    length = max(length, 2)
    num_noise = int(np.round(np.float32(length) * np.float32(noise_density)))
    num_noise = min(max(num_noise, 1), length - 1)
    num_spans = max(1, int(np.round(np.float32(num_noise) / np.float32(mean_noise_span_length))))
    return num_noise, min(num_spans, num_noise, length - num_noise)


def cut_at_random(num_items: int, num_parts: int, numbers: np.ndarray) -> np.ndarray:
    """Divide ``num_items`` into ``num_parts`` non-empty parts; every division is equally likely.

    Args:
      num_items: Items to divide.
      num_parts: Number of parts, at most ``num_items``.
      numbers: Random numbers [..., num_items - 1], uint64 or floats in [0, 1). The first ``num_parts - 1`` gaps, in the
        order of these numbers, become cuts.

    Returns:
      Lengths of the parts, int64 [..., num_parts].
    """
    rows = numbers.shape[:-1]
    if numbers.dtype.kind == "f":
        numbers = (numbers * 2.0**53).astype(np.uint64) << np.uint64(11)
    # The lowest bit marks the gaps that came first: sorting whole numbers is much faster than argsort.
    is_later = np.arange(num_items - 1) >= num_parts - 1
    in_order = np.sort((numbers & ~np.uint64(1)) | is_later.astype(np.uint64), axis=-1)
    cuts = np.nonzero((in_order & np.uint64(1)) == 0)[-1].reshape(*rows, num_parts - 1) + 1
    edges = np.zeros((*rows, num_parts + 1), np.int64)
    edges[..., 1:-1] = cuts
    edges[..., -1] = num_items
    return np.diff(edges, axis=-1)


def random_spans(
    length: int, uniforms: np.ndarray, *, noise_density: float, mean_noise_span_length: float
) -> np.ndarray:
    """Return T5's noise mask, which starts with kept tokens and ends with a span of noise.

    Args:
      length: Number of tokens.
      uniforms: Random numbers [..., uniforms_needed(length)]: first those that divide the noise, then those that divide
        the kept tokens.
      noise_density: Fraction of the tokens that are noise; at 0 nothing is.
      mean_noise_span_length: Average span length in tokens.

    Returns:
      bool [..., length], true for noise.
    """
    if length == 0 or noise_density == 0.0:
        return np.zeros((*uniforms.shape[:-1], length), bool)
    num_noise, num_spans = count_noise(
        length, noise_density=noise_density, mean_noise_span_length=mean_noise_span_length
    )
    num_kept = max(length, 2) - num_noise
    noise_lengths = cut_at_random(num_noise, num_spans, uniforms[..., : num_noise - 1])
    kept_lengths = cut_at_random(num_kept, num_spans, uniforms[..., num_noise - 1 : max(length, 2) - 2])
    lengths = np.stack([kept_lengths, noise_lengths], axis=-1)
    is_noise = np.broadcast_to(np.array([False, True]), lengths.shape)
    mask = np.repeat(is_noise.ravel(), lengths.ravel())
    return mask.reshape(*uniforms.shape[:-1], -1)[..., :length]


def uniforms_needed(length: int) -> int:
    """Return the number of random numbers that ``random_spans`` needs for ``length`` tokens."""
    return max(length, 2) - 2


def _roll_rows(mask: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Rotate each row of a mask [N, L] to the right by its shift, int64 [N, 1]."""
    length = mask.shape[-1]
    return np.take_along_axis(mask, (np.arange(length) - shifts) % length, axis=-1) if length else mask
