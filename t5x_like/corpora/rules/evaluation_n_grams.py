"""n-grams of evaluation texts in a compact table, for fast comparison of a page with millions of them."""

import functools
import hashlib
import json
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.corpora.rules.string_sets import read_lines
from t5x_like.io.files import json_value

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Hit(NamedTuple):
    """An n-gram that a page shares with an evaluation set.

    Attributes:
      first_word: Index of its first word among those of ``normalize_words``.
      n: Its number of words.
      evaluation_set: Name of the set.
    """

    first_word: int
    n: int
    evaluation_set: str


class EvaluationNGrams:
    """n-grams of named sets of texts: 8 bytes each, and each distinct word once.

    A set of mostly short texts has shorter n-grams: as many words as 95 % of its texts have, and at least ``min_n``
    (Brown et al. 2020, appendix C, https://arxiv.org/abs/2005.14165). Texts that are shorter still have none.

    Attributes:
      sets: Names of the sets.
      sizes: Words in an n-gram of each set.
    """

    def __init__(self, texts: Iterable[tuple[str, str]], *, n: int, min_n: int) -> None:
        """Build the table.

        Args:
          texts: Pairs of set name and text.
          n: Words in an n-gram.
          min_n: Fewest words in an n-gram of a set of short texts.
        """
        self._numbers: dict[str, int] = {}  # of words, from 1; 0 is an unknown word
        by_set: dict[str, list[np.ndarray]] = {}
        for name, text in texts:
            numbers = [
                self._numbers.setdefault(word, len(self._numbers) + 1) for word in normalize_words(text)
            ]
            by_set.setdefault(name, []).append(np.array(numbers, np.uint64))
        self.sets = tuple(by_set)
        self.sizes: dict[str, int] = {}
        tables: dict[int, list[tuple[np.ndarray, int]]] = {}
        for index, (name, rows) in enumerate(by_set.items()):
            size = max(min_n, min(n, int(np.percentile([len(row) for row in rows], 5))))
            self.sizes[name] = size
            grams = np.unique(np.concatenate([_grams(row, size) for row in rows]))
            tables.setdefault(size, []).append((grams, index))
        self._tables = {size: _joined(parts) for size, parts in sorted(tables.items())}

    def __len__(self) -> int:
        return sum(len(grams) for grams, _ in self._tables.values())

    def hits(self, words: Sequence[str]) -> list[Hit]:
        """Return the n-grams of a page that occur in the sets, for each n in the page's order."""
        numbers = np.array([self._numbers.get(word, 0) for word in words], np.uint64)
        num_unknown = np.concatenate([[0], np.cumsum(numbers == 0)])
        hits: list[Hit] = []
        for size, (grams, sets) in self._tables.items():
            if len(words) < size:
                continue
            candidates = np.flatnonzero(num_unknown[size:] == num_unknown[:-size])
            wanted = _grams(numbers, size)[candidates]
            left, right = np.searchsorted(grams, wanted, "left"), np.searchsorted(grams, wanted, "right")
            for position in np.flatnonzero(left < right):
                of = sets[left[position] : right[position]]
                hits += [Hit(int(candidates[position]), size, self.sets[index]) for index in of]
        return hits

    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the collection of texts."""
        digest = hashlib.sha256(json.dumps([self.sizes, list(self._numbers)]).encode())
        for grams, sets in self._tables.values():
            digest.update(grams.tobytes() + sets.tobytes())
        return digest.hexdigest()[:16]


def normalize_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation and symbols."""
    return text.lower().translate(_punctuation()).split()


@functools.lru_cache(maxsize=1)
def _punctuation() -> dict[int, None]:
    """Return a table for ``str.translate`` that removes Unicode's punctuation (P) and symbols (S)."""
    codes = range(0x20000)  # higher codes are ideographs and private use
    return dict.fromkeys(code for code in codes if unicodedata.category(chr(code))[0] in "PS")


def read_texts(file: str) -> list[str]:
    """Read the texts of a file: one on each line, or (``.jsonl``) strings or the strings in objects, also ``.gz``.

    Raises:
      ValueError: The file can't be read, or a line isn't JSON with strings.
    """
    lines = list(read_lines(file))
    if not file.endswith((".jsonl", ".jsonl.gz", ".json", ".json.gz")):
        return lines
    return [text for number, line in enumerate(lines, start=1) for text in _strings(file, number, line)]


def _strings(file: str, number: int, line: str) -> list[str]:
    try:
        value = json_value(line)
    except ValueError as error:
        raise ValueError(
            f"{file}: line {number} is not JSON ({error}); give one string or object a line"
        ) from error
    parts = value.values() if isinstance(value, dict) else [value]
    strings = [text for text in parts if isinstance(text, str)]
    if not strings:
        raise ValueError(
            f"{file}: line {number} is {line[:60]!r}; needed is a string, or an object with strings in it"
        )
    return strings


def _grams(numbers: np.ndarray, n: int) -> np.ndarray:
    """Return uint64 [length - n + 1]: a hash of each n-gram."""
    if len(numbers) < n:
        return np.zeros(0, np.uint64)
    grams = np.zeros(len(numbers) - n + 1, np.uint64)
    for offset in range(n):
        grams = grams * _MULTIPLIER + numbers[offset : offset + len(grams)]
        grams ^= grams >> np.uint64(29)
    return grams


def _joined(parts: Sequence[tuple[np.ndarray, int]]) -> tuple[np.ndarray, np.ndarray]:
    grams = np.concatenate([grams for grams, _ in parts])
    sets = np.concatenate([np.full(len(grams), index, np.uint16) for grams, index in parts])
    order = np.argsort(grams, kind="stable")
    return grams[order], sets[order]
