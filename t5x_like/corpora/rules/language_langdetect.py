"""Language identification with the results of langdetect 1.0.9, four times as fast.

langdetect draws n-grams of one to three characters at random. For each of its 55 languages, it multiplies their
frequencies there (Nakatani 2010, https://github.com/shuyo/language-detection; in Python:
https://github.com/Mimino666/langdetect). C4 was made with it.

This implementation finds and draws the same n-grams and forms the same products in the same order, on arrays instead of
lists. Its probabilities equal langdetect's, bit for bit, with the same seed. Languages are in alphabetical order;
langdetect's own order, and with it the last bits, depends on the file system.
"""

import functools
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from t5x_like.corpora.rules.rule import LanguagePrediction
from t5x_like.io.decompression import missing_library

MAX_CHARACTERS = 10_000  # langdetect's limit, Detector.max_text_length
# Longer than any address that langdetect blanks out, and any pair of characters that it joins.
_MARGIN = 3_000
_TRIALS = 7
_ALPHA, _ALPHA_WIDTH = 0.5, 0.05
_BASE_FREQUENCY = 10_000
_CONVERGED = 0.99999
_MAX_DRAWS = 1_000
_LIKELY = 0.1  # less likely languages are left out
_SLOTS = 2**19  # of the hash table; most of the 88,000 n-grams are found by one or two probes
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True)
class LangDetect:
    """langdetect's results with a fixed seed.

    Attributes:
      seed: Seed of the random choice of n-grams; 0 in C4.
    """

    EMPTY_REASON: ClassVar[str] = "filtered:langdetect_exception"

    seed: int = 0

    def predict(self, text: str) -> list[LanguagePrediction] | None:
        """Return languages of at least 10 % probability, or None where langdetect raises ``LangDetectException``.

        Raises:
          ValueError: langdetect is not installed.
        """
        tables = _tables()
        ngrams = tables.ngrams(_codes(tables.blank_addresses(text)))
        if not len(ngrams):
            return None
        probabilities = _probabilities(tables.frequencies, ngrams, self.seed)
        guesses = [
            LanguagePrediction(language, probability)
            for language, probability in zip(tables.languages, probabilities, strict=True)
            if probability > _LIKELY
        ]
        return sorted(guesses, key=lambda guess: guess.probability, reverse=True)


@functools.lru_cache(maxsize=1)
def _tables() -> "_Tables":
    return _Tables()


class _Tables:
    """langdetect's profiles as arrays: ``frequencies`` [n-gram, language]."""

    def __init__(self) -> None:
        try:
            from langdetect import detector_factory
            from langdetect.detector import Detector
            from langdetect.utils.ngram import NGram
        except ImportError as error:
            raise missing_library("langdetect", error) from error
        profiles = _read_profiles(detector_factory.PROFILES_DIRECTORY)
        factory = detector_factory.DetectorFactory()
        factory.load_json_profile(profiles)
        self.languages = factory.get_lang_list()
        self.frequencies = np.array(list(factory.word_lang_prob_map.values()))
        self._url, self._mail, self._normalize_vi = Detector.URL_RE, Detector.MAIL_RE, NGram.normalize_vi
        words = list(factory.word_lang_prob_map)
        self._index(words, NGram.normalize)

    def _index(self, words: list[str], normalize: Callable[[str], str]) -> None:
        letters = sorted({letter for word in words for letter in word} - {" "})
        self._other = len(letters) + 1  # symbol of characters that no profile has; 0 is the space
        symbols = {" ": 0, **{letter: index for index, letter in enumerate(letters, start=1)}}
        normal = [normalize(chr(code)) for code in range(0x10000)]
        self._symbols = np.array([symbols.get(letter, self._other) for letter in normal], np.int64)
        self._upper = np.array([letter.isupper() for letter in normal])
        self._base = self._other + 1
        keys = [functools.reduce(lambda key, c: key * self._base + symbols[c] + 1, word, 0) for word in words]
        self._keys = np.array([*keys, -1], np.int64)  # the last one represents empty slots
        self._slots = _hash_table(self._keys[:-1])

    def blank_addresses(self, text: str) -> str:
        """Return the start of ``text`` as langdetect reads it: URLs and e-mail addresses blanked, accents composed."""
        size = MAX_CHARACTERS + _MARGIN
        while True:
            part = text[:size]
            if "http" in part:
                part = self._url.sub(" ", part)
            if "@" in part:
                part = self._mail.sub(" ", part)
            if not part.isascii():
                part = self._normalize_vi(part)
            if len(part) >= MAX_CHARACTERS + _MARGIN or size >= len(text):
                return part[:MAX_CHARACTERS]
            size *= 2

    def ngrams(self, codes: np.ndarray) -> np.ndarray:
        """Return rows of ``frequencies``, int32 [number of n-grams], in langdetect's order."""
        codes = _without_foreign_latin(codes)
        inside = np.minimum(codes, 0xFFFF)
        symbols, upper = self._symbols[inside], self._upper[inside]
        beyond = np.flatnonzero(codes > 0xFFFF)
        if len(beyond):
            symbols[beyond] = self._other
            upper[beyond] = [chr(code).isupper() for code in codes[beyond]]
        # Two spaces before the text, so that every character has two predecessors.
        padded = np.concatenate([np.zeros(2, np.int64), symbols])
        second, first, here = padded[:-2], padded[1:-1], padded[2:]
        keys = np.empty((len(symbols), 3), np.int64)
        keys[:, 0] = here + 1
        keys[:, 1] = (first + 1) * self._base + here + 1
        keys[:, 2] = (second + 1) * self._base**2 + keys[:, 1]
        wanted = np.empty(keys.shape, np.bool_)
        wanted[:, 0] = here != 0
        wanted[:, 1] = (here != 0) | (first != 0)
        wanted[:, 2] = first != 0
        capitals = upper.copy()  # capitals after a capital are ignored
        capitals[1:] &= upper[:-1]
        capitals[:1] = False
        wanted &= ~capitals[:, None]
        return self._look_up(keys[wanted])

    def _look_up(self, keys: np.ndarray) -> np.ndarray:
        slots = _first_slots(keys)
        rows = self._slots[slots]
        keys_in_table = self._keys[rows]
        missed = np.flatnonzero((keys_in_table != keys) & (keys_in_table != -1))
        while len(missed):
            slots[missed] = (slots[missed] + 1) % _SLOTS
            rows[missed] = self._slots[slots[missed]]
            keys_in_table = self._keys[rows[missed]]
            missed = missed[(keys_in_table != keys[missed]) & (keys_in_table != -1)]
        return rows[rows != len(self._keys) - 1]


def _read_profiles(directory: str) -> list[str]:
    profiles: list[str] = []
    for name in sorted(os.listdir(directory)):
        if not name.startswith((".", "__")):
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                profiles.append(file.read())
    return profiles


def _first_slots(keys: np.ndarray) -> np.ndarray:
    return ((keys.astype(np.uint64) * _MIX) >> np.uint64(64 - _SLOTS.bit_length() + 1)).astype(np.int64)


def _hash_table(keys: np.ndarray) -> np.ndarray:
    """Return int32 [slots]: the index of the key in each slot, ``len(keys)`` if it is empty; linear probing."""
    table = np.full(_SLOTS, len(keys), np.int32)
    waiting, slots = np.arange(len(keys)), _first_slots(keys)
    while len(waiting):
        free = table[slots] == len(keys)
        table[slots[free]] = waiting[free]
        left = table[slots] != waiting
        waiting, slots = waiting[left], (slots[left] + 1) % _SLOTS
    return table


def _codes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _without_foreign_latin(codes: np.ndarray) -> np.ndarray:
    """Remove Latin letters if fewer than a third of the letters are Latin."""
    latin = (codes >= ord("A")) & (codes <= ord("z"))
    if 2 * np.count_nonzero(latin) < np.count_nonzero(codes >= 0x300):
        return codes[~latin]
    return codes


def _probabilities(frequencies: np.ndarray, ngrams: np.ndarray, seed: int) -> list[float]:
    """Return each language's probability, the mean of several trials; all arithmetic in langdetect's order."""
    num_languages = frequencies.shape[1]
    chance = random.Random(seed)
    total = np.zeros(num_languages)
    factors = np.empty((6, num_languages))
    for _ in range(_TRIALS):
        weight = (_ALPHA + chance.gauss(0.0, 1.0) * _ALPHA_WIDTH) / _BASE_FREQUENCY
        probabilities = np.full(num_languages, 1.0 / num_languages)
        draws, count = 0, 1  # convergence is checked after the first draw, then after every fifth
        while True:
            factors[0] = probabilities
            rows = ngrams[_choices(chance, len(ngrams), count)]
            np.add(frequencies[rows], weight, out=factors[1 : count + 1])
            probabilities = np.multiply.reduce(factors[: count + 1], axis=0)
            values = probabilities.tolist()
            scale = sum(values)  # Python's sum: the order of additions determines the last bits
            probabilities /= scale
            if max(values) / scale > _CONVERGED or draws >= _MAX_DRAWS:
                break
            draws, count = draws + 5, 5
        total += probabilities / _TRIALS
    return total.tolist()


def _choices(chance: random.Random, length: int, count: int) -> list[int]:
    """Return ``count`` results of ``chance.choice(range(length))``, without its overhead."""
    bits, draw = length.bit_length(), chance.getrandbits
    chosen: list[int] = []
    while len(chosen) < count:
        choice = draw(bits)
        if choice < length:
            chosen.append(choice)
    return chosen
