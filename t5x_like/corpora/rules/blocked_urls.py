"""A rule that drops pages by their URL: listed sites and pages, and words that such URLs have."""

import functools
import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.string_sets import HashSet, read_lines
from t5x_like.corpora.rules.url_lists import host_from_url, normalize_url, parent_domains
from t5x_like.io.decompression import missing_library
from t5x_like.io.files import as_path

DOMAINS, URLS = "domains", "urls"
WORDS, SOFT_WORDS, SUBWORDS = "banned_words.txt", "soft_banned_words.txt", "banned_subwords.txt"
_FILES = (DOMAINS, URLS, WORDS, SOFT_WORDS, SUBWORDS)
_NOT_ALPHANUMERIC = re.compile(r"[^a-zA-Z0-9]+")


@dataclass(frozen=True, kw_only=True)
class BlockedUrls:
    """Drops pages of listed domains and URLs, and pages whose URL has banned words.

    The lists are those of the UT1 blocklist and of datatrove, which FineWeb was made with; none is shipped. A folder
    has one or more of five files, each with an entry a line. A line that begins with ``#`` is a comment.

    - ``domains``: a page of the domain or of its subdomains is dropped.
    - ``urls``: this page is dropped, with or without protocol and ``www.`` (``normalize_url``).
    - ``banned_words.txt``: one of these words is enough. A word is a run of ASCII letters and digits in the URL.
    - ``soft_banned_words.txt``: ``min_soft_words`` different ones are needed.
    - ``banned_subwords.txt``: letters that may be anywhere in the URL, whose other characters are ignored.

    Words are compared as the URL spells them, subwords in lower case, as in datatrove.

    Penedo et al. 2023, appendix G.1, https://arxiv.org/abs/2306.01116; Penedo et al. 2024, §3.3,
    https://arxiv.org/abs/2406.17557.

    Attributes:
      lists: A folder of lists.
      min_soft_words: Number of soft words that drop a page.

    Raises:
      ValueError: ``min_soft_words`` isn't positive; on first use, the folder has none of the files.
    """

    NAME: ClassVar[str] = "blocked-url-filter"
    VERSION: ClassVar[int] = 1

    lists: str
    min_soft_words: int = 2

    def __post_init__(self) -> None:
        if self.min_soft_words < 1:
            raise ValueError(
                f"BlockedUrls.min_soft_words is {self.min_soft_words}; give 1 or more, such as 2"
            )

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:  # noqa: ARG002
        """Return the page, or the kind of list that drops it, such as ``filtered:blocked_domain``."""
        lists = _lists(self.lists)
        if lists.domains and any(
            domain in lists.domains for domain in parent_domains(host_from_url(page.url))
        ):
            return Dropped("filtered:blocked_domain")
        if normalize_url(page.url) in lists.urls:
            return Dropped("filtered:blocked_url")
        words = set(_NOT_ALPHANUMERIC.split(page.url))
        if words & lists.words:
            return Dropped("filtered:banned_word")
        if len(words & lists.soft_words) >= self.min_soft_words:
            return Dropped("filtered:soft_banned_words")
        if lists.subwords is not None and next(lists.subwords.iter(_letters(page.url)), None) is not None:
            return Dropped("filtered:banned_subword")
        return page

    def fingerprint(self) -> str:
        """Return a hash of the lists, independent of their path."""
        return f"lists sha256 {_lists(self.lists).digest}"


class _Lists(NamedTuple):
    domains: HashSet
    urls: HashSet
    words: frozenset[str]
    soft_words: frozenset[str]
    subwords: Any  # an automaton (Aho and Corasick 1975); None without subwords
    digest: str


def _letters(text: str) -> str:
    return _NOT_ALPHANUMERIC.sub("", text).lower()


@functools.lru_cache(maxsize=2)
def _lists(folder: str) -> _Lists:
    files = {name: as_path(folder) / name for name in _FILES}
    if not any(file.is_file() for file in files.values()):
        raise ValueError(
            f"BlockedUrls.lists is {folder!r}, which has none of {', '.join(_FILES)}; give a folder with one or more "
            "of them, such as the UT1 blocklist's domains and urls (https://dsi.ut-capitole.fr/blacklists)"
        )

    def lines(name: str) -> list[str]:
        file = files[name]
        return [line for line in read_lines(str(file)) if line[0] != "#"] if file.is_file() else []

    domains = HashSet(host_from_url(line) for line in lines(DOMAINS))
    urls = HashSet(map(normalize_url, lines(URLS)))
    words, soft_words, subwords = (
        frozenset(map(_letters, lines(name))) - {""} for name in (WORDS, SOFT_WORDS, SUBWORDS)
    )
    content = json.dumps(
        [domains.fingerprint(), urls.fingerprint(), sorted(words), sorted(soft_words), sorted(subwords)]
    )
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    return _Lists(domains, urls, words, soft_words, _automaton(subwords) if subwords else None, digest)


def _automaton(terms: frozenset[str]) -> Any:
    try:
        import ahocorasick
    except ImportError as error:
        raise missing_library("pyahocorasick", error) from error
    automaton = ahocorasick.Automaton(ahocorasick.STORE_LENGTH)
    for term in sorted(terms):
        automaton.add_word(term)
    automaton.make_automaton()
    return automaton
