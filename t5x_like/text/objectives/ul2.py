"""UL2's mixture of denoisers: regular, sequential and extreme, each with its mode token."""

import functools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from t5x_like.text.objectives.cutting import DOCUMENTS_TOGETHER
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.prefix_lm import PrefixLM
from t5x_like.text.objectives.random_bits import random_fractions, seeds_of_rows
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

Mode = Literal["R", "S", "X"]
MODES: tuple[Mode, ...] = ("R", "S", "X")


@dataclass(frozen=True, kw_only=True)
class Denoiser:
    """One denoiser of the mixture.

    Attributes:
      mode: Mode token that its inputs begin with: regular (R), sequential (S) or extreme (X).
      objective: Corruption of the text.
      rate: Sampling weight relative to the other denoisers.
    """

    mode: Mode
    objective: SpanCorruption | PrefixLM
    rate: float = 1.0

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"a denoiser's mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        if not self.rate > 0.0:
            raise ValueError(f"a denoiser's rate must be above 0, got {self.rate}; or leave it out")


def _spans(mode: Mode, mean_noise_span_length: float, noise_density: float) -> Denoiser:
    return Denoiser(
        mode=mode,
        objective=SpanCorruption(noise_density=noise_density, mean_noise_span_length=mean_noise_span_length),
    )


TABLE_1 = (
    _spans("R", 3.0, 0.15),
    _spans("R", 8.0, 0.15),
    Denoiser(mode="S", objective=PrefixLM(noise_density=0.25)),
    _spans("X", 3.0, 0.5),
    _spans("X", 8.0, 0.5),
    _spans("X", 64.0, 0.15),
    _spans("X", 64.0, 0.5),
)


@dataclass(frozen=True, kw_only=True)
class UL2:
    """Corrupts each text by one denoiser, drawn by the rates; inputs begin with its mode token.

    ``a b c d`` becomes, by an R- or X-denoiser, inputs ``[R] a <0> d`` and targets ``<0> b c``. An S-denoiser, a
    prefix language model, makes inputs ``[S] a b c`` and targets ``d``. Texts are cut to the longest that fits a
    denoiser's inputs and targets and needs at most ``max_sentinels``.

    Tay et al. 2022, §3.1.2, table 1, and §3.1.3, https://arxiv.org/abs/2205.05131.

    Attributes:
      denoisers: Mixture; the default is table 1's seven at equal rates.
      mode_ids: Ids of R, S and X, one or several each (the released model uses the words [NLU], [S2S] and [NLG]).
        "sentinels" uses the last three sentinels; None adds no mode tokens.
      max_sentinels: Limit of the spans of one text. T5's 100 sentinels leave 93 after mask, cls, sep, bos and the
        modes.
    """

    denoisers: tuple[Denoiser, ...] = TABLE_1
    mode_ids: Mapping[str, Sequence[int]] | Literal["sentinels"] | None = "sentinels"
    max_sentinels: int = 93

    def __post_init__(self) -> None:
        if not self.denoisers:
            raise ValueError("a mixture of no denoisers; leave denoisers away for those of UL2's table 1")
        if self._named_ids:
            used = dict.fromkeys(denoiser.mode for denoiser in self.denoisers)
            missing = [mode for mode in used if not len(self._named_ids.get(mode, ()))]
            if missing:
                raise ValueError(f"mode_ids have no ids of {', '.join(missing)}; they are {self._named_ids}")
        elif self.mode_ids not in ("sentinels", None):
            raise ValueError(
                f"mode_ids must be ids of R, S and X, 'sentinels' or None, not {self.mode_ids!r}"
            )

    def text_lengths(self, lengths: Lengths) -> tuple[int, ...]:
        """Return the maximum text length of each denoiser; 0 if no text fits."""
        limits = Lengths(lengths.inputs - self._mode_length, lengths.targets)
        return tuple(_text_length(each.objective, limits, self.max_sentinels) for each in self.denoisers)

    @property
    def _named_ids(self) -> dict[str, Sequence[int]]:
        """Ids of each mode that are named; empty for sentinels and without mode tokens."""
        return dict(self.mode_ids) if isinstance(self.mode_ids, Mapping) else {}

    @property
    def _mode_length(self) -> int:
        return max(map(len, self._named_ids.values()), default=int(self.mode_ids is not None))

    @property
    def spec(self) -> ExampleSpec:
        """Encoder-decoder examples from documents that are joined without a separator."""
        return ExampleSpec(layout="encoder_decoder")

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths and vocabulary; see ``Objective.check``."""
        for denoiser, text_length in zip(self.denoisers, self.text_lengths(lengths), strict=True):
            if text_length < 2:
                raise ValueError(
                    f"inputs_length of {lengths.inputs} and targets_length of {lengths.targets} are too short for "
                    f"{denoiser.objective}; use at least 16 each"
                )
        left = ids.num_sentinels - 3 * (self.mode_ids == "sentinels")
        if left < self.max_sentinels:
            raise ValueError(
                f"the vocabulary has {ids.num_sentinels} sentinels, of which {max(left, 0)} are left for spans; "
                f"{self.max_sentinels} are needed: lower max_sentinels or raise num_sentinels"
            )

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut runs from 128 joined documents at a time; each has its denoiser as label and that denoiser's length."""
        if not len(window.ends):
            return Cuts(np.zeros((0, 1), np.int64), np.zeros((0, 1), np.int64), np.zeros(0, np.int64))
        sizes = np.array(self.text_lengths(lengths))
        last = np.arange(
            DOCUMENTS_TOGETHER - 1, len(window.ends) + DOCUMENTS_TOGETHER - 1, DOCUMENTS_TOGETHER
        )
        ends = window.ends[np.minimum(last, len(window.ends) - 1)]
        parts_of_objectives = []
        for index, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            seeds = seeds_of_rows(key, np.array([index]))
            drawn = self._draw(random_fractions(seeds, -(-(end - start) // sizes.min()))[0])
            run_ends = np.minimum(start + np.cumsum(sizes[drawn]), end)
            is_run = np.diff(run_ends, prepend=start) > 0
            parts_of_objectives.append(
                (np.append(start, run_ends)[:-1][is_run], run_ends[is_run], drawn[is_run])
            )
        starts, run_ends, labels = (np.concatenate(parts) for parts in zip(*parts_of_objectives, strict=True))
        return Cuts(starts[:, None], run_ends[:, None], labels)

    def _draw(self, fractions: np.ndarray) -> np.ndarray:
        edges = np.cumsum([denoiser.rate for denoiser in self.denoisers])
        return np.searchsorted(edges[:-1], fractions * edges[-1], side="right")

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Corrupt texts by the denoisers that their labels name.

        A text without a label gets a denoiser drawn by its seed, and is cut to that denoiser's length.
        """
        labels = np.array([text.label for text in texts], np.int64)
        labels = np.where(labels < 0, self._draw(random_fractions(seeds, 1, use=8)[:, 0]), labels)
        modes, ids = self._modes(ids)
        limits = Lengths(lengths.inputs - self._mode_length, lengths.targets)
        sizes = self.text_lengths(lengths)
        examples: list[Example] = [Example()] * len(texts)
        for label in np.unique(labels).tolist():
            denoiser, numbers = self.denoisers[label], np.flatnonzero(labels == label).tolist()
            those = [texts[index]._replace(tokens=texts[index].tokens[: sizes[label]]) for index in numbers]
            made = denoiser.objective.make(those, seeds[numbers], limits, ids)
            mode = modes[denoiser.mode]
            for index, example in zip(numbers, made, strict=True):
                assert example.inputs is not None
                examples[index] = example._replace(inputs=np.concatenate([mode, example.inputs]))
        return examples

    def _modes(self, ids: VocabularyIds) -> tuple[dict[str, np.ndarray], VocabularyIds]:
        """Return the ids of each mode, and the vocabulary's remaining ids."""
        if self.mode_ids == "sentinels":
            last = ids.first_sentinel + 1 - ids.num_sentinels
            modes: dict[str, np.ndarray] = {
                mode: np.array([last + index], np.int32) for index, mode in enumerate(MODES)
            }
            return modes, replace(ids, num_sentinels=ids.num_sentinels - 3)
        return {mode: np.array(self._named_ids.get(mode, ()), np.int32) for mode in MODES}, ids


@functools.lru_cache(maxsize=64)
def _text_length(objective: SpanCorruption | PrefixLM, limits: Lengths, max_sentinels: int) -> int:
    def is_too_long(text_length: int) -> bool:
        if isinstance(objective, PrefixLM):
            shortest = int(objective.shortest_prefix(np.array([text_length]))[0])
            return text_length > limits.inputs or text_length - shortest + 1 > limits.targets
        inputs, targets = objective.lengths(text_length)
        spans = objective.noise.expected(text_length)[1]
        return inputs > limits.inputs or targets > limits.targets or spans > max_sentinels

    least_kept = 0.0 if isinstance(objective, PrefixLM) else objective.noise_density
    most = int(max(limits.inputs, 1) / (1.0 - least_kept)) + 2
    return bisect_right(range(1, most + 1), 0, key=is_too_long)
