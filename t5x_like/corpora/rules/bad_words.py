"""A rule that drops pages with bad words, by a list of words for each language."""

import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.url_lists import normalize_url, url_digest
from t5x_like.io.decompression import missing_library
from t5x_like.io.files import as_path, json_value
from t5x_like.io.paths import find_file
from t5x_like.value_types import fits

SHIPPED = "data/bad_words"
# Languages without spaces between words: a term counts anywhere.
_UNSPACED = ("ja", "th", "zh")
# C4 leaves these out: each would drop more than a tenth of the pages of its language (TensorFlow Datasets, text/c4.py).
TOO_COMMON = (("ja", "sm"), ("ja", "グロ"), ("ja", "女の子"), ("zh", "性"))


@dataclass(frozen=True, kw_only=True)
class BadWords:
    """Drops pages that contain a term of their language's list, as C4 does (Raffel et al. 2020, §2.2).

    A term counts if it occurs in the lower-cased page without a letter, digit or underscore next to it; in Japanese,
    Thai and Chinese anywhere. Pages in languages without a list pass; ``fr-CA`` uses the list of ``fr``. Terms are
    compared as the list spells them, so a term with a capital letter never matches, as in C4.

    Attributes:
      lists: A folder of files named ``en.txt``, ``fr.txt`` … (one term on each line) or ``en.json`` (a list of
        strings); or one such file; or a ``.json`` file with an object of terms by language.
      filter_fraction: Fraction of pages with a bad word that is dropped, selected by URL: 1 in C4, 0.999 in mC4.
      lower_terms: Lower-case the terms, so that terms with a capital letter match too.
      leave_out: Terms that don't count, as pairs of language and term.

    Raises:
      ValueError: ``filter_fraction`` isn't between 0 and 1; on first use, ``lists`` can't be read or has no terms.
    """

    NAME: ClassVar[str] = "badwords-filter"
    VERSION: ClassVar[int] = 1

    lists: str = SHIPPED
    filter_fraction: float = 1.0
    lower_terms: bool = False
    leave_out: tuple[tuple[str, str], ...] = TOO_COMMON

    def __post_init__(self) -> None:
        if not 0 <= self.filter_fraction <= 1:
            raise ValueError(f"BadWords.filter_fraction is {self.filter_fraction}; give 0 (none) to 1 (all)")
        object.__setattr__(self, "leave_out", tuple((language, term) for language, term in self.leave_out))

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page, or ``filtered:badwords``.

        Args:
          page: A page with a language.
          counts: Receives outcomes by language: ``-en:passed``, ``-en:filtered``.

        Raises:
          ValueError: The page's language isn't known, or the lists can't be used.
        """
        if page.language is None:
            raise ValueError(
                f"BadWords needs the language of {page.url!r}: put Languages before it (keep=None drops nothing)"
            )
        language = page.language.split("-")[0]
        terms = _terms(self.lists, self.lower_terms, self.leave_out).get(language)
        if terms is None:
            return page
        if not terms.are_in(page.text.lower()):
            counts[f"-{language}:passed"] += 1
            return page
        if _is_spared(page.url, self.filter_fraction):
            counts["soft-passed"] += 1
            counts[f"-{language}:soft-passed"] += 1
            return page
        counts[f"-{language}:filtered"] += 1
        return Dropped("filtered:badwords")

    def fingerprint(self) -> str:
        """Return a hash of the terms, independent of their path: other terms make another corpus."""
        lists = {language: sorted(terms) for language, terms in sorted(read_lists(self.lists).items())}
        return f"terms sha256 {hashlib.sha256(json.dumps(lists).encode()).hexdigest()[:16]}"


def _is_spared(url: str, fraction: float) -> bool:
    numerator, denominator = float(fraction).as_integer_ratio()
    return int.from_bytes(url_digest(normalize_url(url)), "big") % denominator >= numerator


class _Terms:
    """All terms of a language in one automaton (Aho and Corasick 1975), which finds any number of them in one pass."""

    def __init__(self, terms: Iterable[str], *, anywhere: bool) -> None:
        try:
            import ahocorasick
        except ImportError as error:
            raise missing_library("pyahocorasick", error) from error
        self._automaton = ahocorasick.Automaton(ahocorasick.STORE_LENGTH)
        for term in terms:
            self._automaton.add_word(term)
        self._automaton.make_automaton()
        self._anywhere = anywhere

    def are_in(self, text: str) -> bool:
        """Return True if the text contains a term with no word character next to it."""
        matches = self._automaton.iter(text)
        if self._anywhere:
            return next(matches, None) is not None
        last = len(text) - 1
        for end, length in matches:
            if end < last and _is_of_word(text[end + 1]):
                continue
            start = end - length
            if start < 0 or not _is_of_word(text[start]):
                return True
        return False


def _is_of_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


@functools.lru_cache(maxsize=8)
def _terms(lists: str, lower: bool, leave_out: tuple[tuple[str, str], ...]) -> dict[str, _Terms]:
    terms_of_language: dict[str, _Terms] = {}
    for language, terms in read_lists(lists).items():
        wanted = {term.lower() if lower else term for term in terms} - {
            t for code, t in leave_out if code == language
        }
        if wanted:
            terms_of_language[language] = _Terms(sorted(wanted), anywhere=language in _UNSPACED)
    return terms_of_language


def read_lists(lists: str) -> dict[str, set[str]]:
    """Read terms by language (``fr-CA`` joins ``fr``) from a value of ``BadWords.lists``.

    Raises:
      ValueError: ``lists`` doesn't exist, has another format, or has no terms.
    """
    path = as_path(find_file(lists))
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in (".txt", ".json"))
    by_language: dict[str, set[str]] = {}
    for file in files:
        for language, terms in _read_list(os.fspath(file), file.stem, file.read_bytes()).items():
            stripped = {term.strip() for term in terms} - {""}
            by_language.setdefault(language.split("-")[0], set()).update(stripped)
    if not any(by_language.values()):
        raise ValueError(f"{lists!r} has no terms; give a folder of files such as en.txt, one term a line")
    return by_language


def _read_list(name: str, language: str, content: bytes) -> dict[str, list[str]]:
    try:
        text = content.decode("utf-8-sig")
        terms = json_value(text) if name.endswith(".json") else text.splitlines()
    except ValueError as error:
        raise ValueError(
            f"{name} can't be read ({error}); give UTF-8, one term a line or a JSON list"
        ) from error
    if isinstance(terms, list):
        if not language.split("-")[0].isalpha() or len(language.split("-")[0]) > 3:
            raise ValueError(
                f"the language of the terms in {name} is unknown; name the file by its code: en.txt, fr.txt, en.json …"
            )
        terms = {language: terms}
    if not fits(terms, dict[str, list[str]]):
        raise ValueError(
            f"{name} has {content[:40]!r}…; needed are a JSON list of strings, or such lists by language"
        )
    return terms
