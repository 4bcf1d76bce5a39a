"""Prefix language model: the model reads the first part of a text and writes the rest."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from t5x_like.text.objectives.cutting import cut_documents
from t5x_like.text.objectives.objective import Cuts, DocumentWindow, Example, ExampleSpec, Lengths, Text
from t5x_like.text.objectives.random_bits import random_below
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds


@dataclass(frozen=True, kw_only=True)
class PrefixLM:
    """Splits texts into a prefix and a continuation; every split point is equally likely.

    ``a b c d`` becomes inputs ``a b`` and targets ``c d``, each with its end of sequence. Documents stay separate, as
    in T5; a single remaining token makes no example.

    A decoder learns it with ``LoaderConfig(layout="decoder", …)``: prefix and continuation form one stream with
    bidirectional attention over the prefix. ``inputs_length`` is then the longest prefix, ``targets_length`` the
    stream.

    Raffel et al. 2020, §3.2.1 and §3.3.1, https://arxiv.org/abs/1910.10683.

    Attributes:
      noise_density: Average fraction of the tokens to predict. At 0.5 prefixes have one token to all but one; at 0.25
        at least half of them.
    """

    noise_density: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.noise_density <= 0.5:
            raise ValueError(
                f"noise_density must lie above 0 and up to 0.5 (any split), got {self.noise_density}"
            )

    def text_length(self, inputs_length: int) -> int:
        """Return the maximum text length, T5's: ``inputs_length`` less one for the end.

        Raises:
          ValueError: ``inputs_length`` is too short to split anything.
        """
        if inputs_length < 3:
            raise ValueError(f"inputs_length of {inputs_length} is too short to split a text; use at least 8")
        return inputs_length - 1

    def shortest_prefix(self, text_lengths: np.ndarray) -> np.ndarray:
        """Return the minimum prefix length for texts of these lengths, int64 [N]; the maximum is all but one token."""
        most = np.maximum(text_lengths - 1, 0)
        # In float32 and half to even, as T5 rounds.
        shares = np.float32(1 - 2 * self.noise_density) * most.astype(np.float32)
        return np.minimum(most, np.maximum(np.round(shares).astype(np.int64), 1))

    @property
    def spec(self) -> ExampleSpec:
        """Encoder-decoder examples from separate documents."""
        return ExampleSpec(layout="encoder_decoder")

    def check(self, lengths: Lengths, ids: VocabularyIds) -> None:
        """Check lengths; see ``Objective.check``."""
        del ids
        text_length = self.text_length(lengths.inputs)
        needed = text_length + 1 - int(self.shortest_prefix(np.array([text_length]))[0])
        if needed > lengths.targets:
            raise ValueError(
                f"inputs of {lengths.inputs} go with targets of up to {needed} tokens, over the limit of "
                f"{lengths.targets}; set targets_length to {needed}, or lower inputs_length"
            )

    def cut(self, window: DocumentWindow, lengths: Lengths, key: np.ndarray) -> Cuts:
        """Cut each document into parts that fit, without parts of one token; see ``Objective.cut``."""
        del key
        cuts = cut_documents(window, self.text_length(lengths.inputs))
        can_split = (cuts.ends - cuts.starts)[:, 0] > 1
        return Cuts(cuts.starts[can_split], cuts.ends[can_split])

    def make(
        self, texts: Sequence[Text], seeds: np.ndarray, lengths: Lengths, ids: VocabularyIds
    ) -> list[Example]:
        """Split texts at random positions; see ``Objective.make``."""
        del lengths
        assert ids.eos is not None, "a loader refuses vocabularies without an end"
        eos = ids.eos
        text_lengths = np.array([len(text.tokens) for text in texts], np.int64)
        shortest = self.shortest_prefix(text_lengths)
        choices = np.maximum(text_lengths, 1) - shortest
        prefixes = shortest + random_below(choices[:, None], seeds, 1)[:, 0]
        return [_split(text.tokens, split, eos) for text, split in zip(texts, prefixes.tolist(), strict=True)]


def _split(tokens: np.ndarray, at: int, eos: int) -> Example:
    both = np.empty(len(tokens) + 2, np.int32)
    both[:at], both[at], both[at + 1 : -1], both[-1] = tokens[:at], eos, tokens[at:], eos
    return Example(inputs=both[: at + 1], targets=both[at + 1 :])
