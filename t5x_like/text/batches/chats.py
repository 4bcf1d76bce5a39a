"""Conversations by number, of which answers are learned."""

from collections.abc import Mapping

import numpy as np

from t5x_like.text.batches.in_memory import ExampleStore
from t5x_like.text.batches.sources import IndexedSource
from t5x_like.text.objectives.objective import Example, Lengths
from t5x_like.text.objectives.sft import answers_only


class ChatSource(IndexedSource):
    """Every epoch has all conversations once; those that are too long are cut at their end."""

    def __init__(
        self, name: str, stored: ExampleStore, lengths: Lengths, *, seed: int, shuffle: bool
    ) -> None:
        super().__init__(name, stored, seed=seed, shuffle=shuffle)
        self._limit = lengths.targets

    @property
    def num_trimmed(self) -> int:
        """How many are longer than the limit."""
        return int(np.count_nonzero(self._stored.lengths("tokens") > self._limit + 1))

    def _example(self, features: Mapping[str, np.ndarray]) -> Example:
        return answers_only(features["tokens"], features["answers"], limit=self._limit)
