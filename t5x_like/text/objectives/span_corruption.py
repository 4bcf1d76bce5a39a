"""T5's span corruption: sentinels stand for dropped spans, the targets say what was dropped."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from t5x_like.text.objectives.noise_masks import count_noise, random_spans, uniforms_needed
from t5x_like.text.objectives.objective import Corrupted


@dataclass(frozen=True, kw_only=True)
class SpanCorruption:
    """Drops ``density`` of the tokens in spans of ``mean_span`` on average.

    ``a b c d e f`` becomes inputs ``a <0> d e <1>`` and targets ``<0> b c <1> f``. Sentinels count down from
    the end of the vocabulary; there is none at the end of the targets.

    >>> SpanCorruption().raw_length(512), SpanCorruption().lengths(568)
    (568, (512, 114))

    Raffel et al. 2020, §3.1.4, https://arxiv.org/abs/1910.10683.
    """

    density: float = 0.15
    mean_span: float = 3.0

    def __post_init__(self) -> None:
        if not 0.0 < self.density < 1.0:
            raise ValueError(f"density must lie between 0 and 1, got {self.density}")
        if self.mean_span < 1.0:
            raise ValueError(f"mean_span must be at least 1 token, got {self.mean_span}")

    def lengths(self, raw_length: int) -> tuple[int, int]:
        """Lengths of inputs and targets, each with end of sequence, made of ``raw_length`` tokens."""
        if raw_length < 2:  # one token cannot be dropped without dropping all: T5's targets are one sentinel
            return raw_length + 1, raw_length + 1
        num_noise, num_spans = count_noise(raw_length, density=self.density, mean_span=self.mean_span)
        return raw_length - num_noise + num_spans + 1, num_noise + num_spans + 1

    def raw_length(self, inputs_length: int) -> int:
        """The most raw tokens whose inputs fit ``inputs_length``: 568 for 512.

        Raises:
          ValueError: ``inputs_length`` is too short for any example.
        """
        return self.plan(inputs_length)[0]

    def plan(self, inputs_length: int) -> tuple[int, int]:
        """Raw tokens and targets' length for inputs of ``inputs_length``: (568, 114) for 512.

        T5's arithmetic, with its exception: at density 0.5 the targets are to be no longer than the inputs.

        Raises:
          ValueError: ``inputs_length`` is too short for any example.
        """
        length = inputs_length
        if inputs_length < 2 or self._planned(length)[0] > inputs_length:
            raise ValueError(f"inputs_length of {inputs_length} is too short for {self}; use at least 8")
        while self._planned(length + 1)[0] <= inputs_length:
            length += 1
        targets_length = self._planned(length)[1]
        if self.density == 0.5 and targets_length > inputs_length:
            return length - 1, targets_length - 1
        return length, targets_length

    def _planned(self, raw_length: int) -> tuple[int, int]:
        # In float64 and without the bounds of count_noise: how T5 plans lengths, not how it masks.
        num_noise = round(raw_length * self.density)
        num_spans = round(num_noise / self.mean_span)
        return raw_length - num_noise + num_spans + 1, num_noise + num_spans + 1

    def sentinels_needed(self, raw_length: int) -> int:
        """One for each span."""
        return count_noise(raw_length, density=self.density, mean_span=self.mean_span)[1]

    def corrupt(self, tokens: np.ndarray, seeds: np.ndarray, *, first_sentinel: int) -> Corrupted:
        """Corrupts rows of tokens [..., L], each by its own seed, uint64 [..., 2]. The same seed, the same
        spans."""
        length = tokens.shape[-1]
        # Raw bits, which unlike a Generator's numbers are promised to stay the same in every NumPy.
        uniforms = np.empty((*tokens.shape[:-1], uniforms_needed(length)), np.uint64)
        for row in np.ndindex(tokens.shape[:-1]):
            uniforms[row] = np.random.Philox(key=seeds[row]).random_raw(uniforms.shape[-1])
        is_noise = random_spans(length, uniforms, density=self.density, mean_span=self.mean_span)
        return Corrupted(
            inputs=replace_spans(tokens, is_noise, first_sentinel=first_sentinel),
            targets=replace_spans(tokens, ~is_noise, first_sentinel=first_sentinel),
        )

    def preprocessors(self) -> Sequence[Callable[..., Any]]:
        """T5's pipeline as seqio steps: chunks of 65,536, 128 documents together, split, corrupt."""
        from t5x_like.text.objectives import seqio_steps

        return seqio_steps.span_corruption(self)


def replace_spans(tokens: np.ndarray, is_span: np.ndarray, *, first_sentinel: int) -> np.ndarray:
    """Puts one sentinel in the place of each run where ``is_span`` [..., L].

    All rows must keep equally many tokens, as rows of one length and one noise density do.
    """
    starts = is_span.copy()
    starts[..., 1:] &= ~is_span[..., :-1]
    sentinels = first_sentinel + 1 - np.cumsum(starts, axis=-1)
    kept = starts | ~is_span
    replaced = np.where(starts, sentinels, tokens)[kept]
    return replaced.reshape(*tokens.shape[:-1], -1 if tokens.size else 0).astype(np.int32)
