"""Vectors of words, and the words nearest to a sum of them."""

import difflib
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A table with one vector for each word.

    Attributes:
      words: Distinct words, usually the most frequent first.
      table: Their vectors, float32 [W, D].
    """

    words: tuple[str, ...]
    table: np.ndarray

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return self.table.shape[1]

    @functools.cached_property
    def rows(self) -> dict[str, int]:
        """Row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @functools.cached_property
    def unit(self) -> np.ndarray:
        """Vectors divided by their lengths; a vector of zeros stays one."""
        lengths = np.linalg.norm(self.table, axis=1, keepdims=True)
        return self.table / np.where(lengths > 0, lengths, 1)

    def nearest(
        self, words: Sequence[str], *, minus: Sequence[str] = (), number: int = 10
    ) -> list[tuple[str, float]]:
        """Return the words with the largest cosines to a sum of unit vectors, and these cosines.

        Args:
          words: Words to add; neither they nor those of ``minus`` are among the results.
          minus: Words to subtract.
          number: Number of results.

        Raises:
          ValueError: A word has no vector, or there is none to add.
        """
        if not words:
            raise ValueError("name at least one word to look for the nearest of")
        added, subtracted = [self._row(word) for word in words], [self._row(word) for word in minus]
        total = self.unit[added].sum(axis=0) - self.unit[subtracted].sum(axis=0)
        cosines = self.unit @ (total / (np.linalg.norm(total) or 1))
        cosines[added + subtracted] = -np.inf
        best = np.argsort(-cosines, kind="stable")[
            : min(number, len(self.words) - len({*added, *subtracted}))
        ]
        return [(self.words[row], float(cosines[row])) for row in best]

    def _row(self, word: str) -> int:
        if word not in self.rows:
            near = difflib.get_close_matches(word, self.words, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"there is no vector of {word!r} among {len(self.words):,} words{hint}")
        return self.rows[word]
