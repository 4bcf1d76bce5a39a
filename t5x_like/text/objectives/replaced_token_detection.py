"""ELECTRA's discriminator: detect replaced tokens."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t5x_like.io.files import as_path
from t5x_like.io.paths import find_file
from t5x_like.text.objectives.encoder_rows import SingleTexts
from t5x_like.text.objectives.framing import frame, ordinary_ids, rows_to_examples
from t5x_like.text.objectives.masking import (
    choose_units,
    num_targets,
    require_rates,
    require_words,
    token_starts,
    word_starts,
)
from t5x_like.text.objectives.objective import Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.random_bits import random_fractions
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

_WORD = 110  # random sequence of a text


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenDetection(SingleTexts):
    """Replaces ``noise_density`` of the tokens by others, and classifies every token as original or replaced.

    ``a b c d`` becomes inputs ``[CLS] a x c d [SEP]`` and targets ``0 0 1 0 0 0``. All tokens except special ids have
    weight 1; special ids are never replaced, although the paper counts them as original. A token that is drawn again
    counts as original.

    ELECTRA draws tokens from a small masked language model that is trained jointly: use ``MaskedLM`` with the model
    ``electra_pretraining`` for that. This is its ablation with a generator that ignores the text.

    Clark et al. 2020, §2 and §3.3, https://arxiv.org/abs/2003.10555.

    Attributes:
      noise_density: Fraction of the tokens to replace.
      whole_words: Replace all pieces of a word or none.
      frequencies: File with one number per line for each id of the vocabulary, by which tokens are drawn. The default
        draws uniformly.
    """

    noise_density: float = 0.15
    whole_words: bool = False
    frequencies: str | None = None

    def __post_init__(self) -> None:
        require_rates(self.noise_density, 0.0, 1.0)
        super().__post_init__()

    @property
    def spec(self) -> ExampleSpec:
        """Encoder rows whose targets are flags."""
        return super().spec._replace(flags_targets=True)

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths, vocabulary and the file of frequencies; see ``Objective.check``."""
        super().check(lengths, ids)
        if self.whole_words:
            require_words(ids)
        if self.frequencies is not None:
            _edges(self.frequencies, ids.vocab_size, ordinary_ids(ids).tobytes())

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Frame texts and replace tokens; see ``Objective.make``."""
        del lengths
        framed = frame(texts, ids)
        starts = word_starts(framed, ids) if self.whole_words else token_starts(framed)
        chosen = choose_units(starts, num_targets(framed, self.noise_density), framed, seeds)
        inputs = framed.tokens.copy()
        draws = random_fractions(seeds, framed.tokens.shape[1], use=_WORD)[chosen]
        inputs[chosen] = self._draw(draws, ids)
        targets = (inputs != framed.tokens).astype(np.int32)
        weights = framed.is_text.astype(np.float32)
        return rows_to_examples(framed.lengths, inputs=inputs, targets=targets, weights=weights)

    def _draw(self, fractions: np.ndarray, ids: VocabularyIds) -> np.ndarray:
        words = ordinary_ids(ids)
        if self.frequencies is None:
            return words[(fractions * len(words)).astype(np.int64)]
        edges = _edges(self.frequencies, ids.vocab_size, words.tobytes())
        return words[np.searchsorted(edges, fractions, side="right")]


@functools.lru_cache(maxsize=4)
def _edges(file: str, vocab_size: int, words: bytes) -> np.ndarray:
    """Return the upper limits of the ids' intervals in [0, 1), float64 [R - 1].

    Raises:
      ValueError: The file doesn't fit the vocabulary.
    """
    lines = as_path(find_file(file)).read_text(encoding="utf-8").split()
    try:
        counts = np.array(lines, np.float64)
    except ValueError as error:
        raise ValueError(f"{file}: a number for each id is expected on each line; {error}") from None
    if len(counts) != vocab_size:
        raise ValueError(
            f"{file} has {len(counts)} numbers, the vocabulary {vocab_size} ids; write one for each"
        )
    shares = counts[np.frombuffer(words, np.int32)]
    if not np.isfinite(counts).all() or counts.min() < 0 or not shares.sum() > 0:
        raise ValueError(f"{file}: numbers must be finite and not negative, and one of them over 0")
    return (np.cumsum(shares) / shares.sum())[:-1]
