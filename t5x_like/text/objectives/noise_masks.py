"""Which tokens are noise: T5's random spans. Randomness is an argument (numbers drawn uniformly)."""

import numpy as np


def count_noise(length: int, *, noise_density: float, mean_noise_span_length: float) -> tuple[int, int]:
    """How many of ``length`` tokens are noise, and in how many spans (Raffel et al. 2020, §3.1.4).

    Rounding is T5's, half to even in float32, and at least one token is noise and one is not. Where T5 itself
    stops with an error, because it asks for more spans than there are tokens between them (three tokens at
    density 0.5 and mean span 1), there are as many spans as fit.
    """
    length = max(length, 2)
    num_noise = int(np.round(np.float32(length) * np.float32(noise_density)))
    num_noise = min(max(num_noise, 1), length - 1)
    num_spans = max(1, int(np.round(np.float32(num_noise) / np.float32(mean_noise_span_length))))
    return num_noise, min(num_spans, num_noise, length - num_noise)


def cut_at_random(num_items: int, num_parts: int, numbers: np.ndarray) -> np.ndarray:
    """Lengths [..., num_parts] of the non-empty parts of ``num_items``, every cut equally likely.

    ``numbers`` [..., num_items - 1], uint64 or in [0, 1), decide: shuffled by them, the first ``num_parts - 1`` gaps
    between items are cut.
    """
    rows = numbers.shape[:-1]
    if numbers.dtype.kind == "f":
        numbers = (numbers * 2.0**53).astype(np.uint64) << np.uint64(11)
    # The lowest bit says which gaps came first: sorting whole numbers is many times faster than finding their order.
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
    """T5's noise mask, bool [..., length]: starts with kept tokens and ends with a span of noise.

    ``uniforms`` [..., uniforms_needed(length)]: the first place the noise, the rest the tokens between.
    At density 0 nothing is noise.
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
    """How many random numbers ``random_spans`` of ``length`` tokens takes."""
    return max(length, 2) - 2


def rolled(mask: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Each row of ``mask`` [N, L] moved right by its shift, int64 [N, 1], and in again from the left."""
    length = mask.shape[-1]
    return np.take_along_axis(mask, (np.arange(length) - shifts) % length, axis=-1) if length else mask
