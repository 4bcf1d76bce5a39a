"""Rules that keep pages of listed URLs: C4's variants of the T5 paper (Raffel et al. 2020, §3.4.1).

The lists belong to others and aren't shipped:

* RealNews-like: the news sites of Zellers et al. 2019 (https://arxiv.org/abs/1905.12616),
  https://github.com/rowanz/grover, realnews/domain_to_allowed_subdomains.json.
* WebText-like: URLs that Reddit's users liked, as collected by OpenWebText,
  https://github.com/jcpeterson/openwebtext (``OpenWebText/Version 1/URLs/*.txt`` in its archive). The paper used
  twelve crawls of Common Crawl for it, August 2018 to July 2019.
"""

import functools
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.string_sets import HashSet, read_lines
from t5x_like.io.files import json_value
from t5x_like.io.paths import find_files
from t5x_like.message_sentences import sentence
from t5x_like.nested_values import one_or_several

_HOST = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]{0,20}://)?(?:[^/?#@]{0,1000}@)?([^/?#:]*)")
_DOMAINS_SOURCE = "RealNews' is https://github.com/rowanz/grover, realnews/domain_to_allowed_subdomains.json"
_URLS_SOURCE = "OpenWebText's are in the archive at https://github.com/jcpeterson/openwebtext, URLs/*.txt"


@dataclass(frozen=True, kw_only=True)
class Domains:
    """Keeps pages of listed domains and their subdomains: ``news.example.org`` if ``example.org`` is listed.

    Attributes:
      lists: Files or patterns: one domain on each line (``.txt``, ``.txt.gz``), or a ``.json`` object of domains, as
        RealNews has it. If the value is a list, only these subdomains are kept, ``""`` for the domain itself.
        Subdomains don't include ``www.``.

    Raises:
      ValueError: On first use, a file is absent, damaged or without domains.
    """

    NAME: ClassVar[str] = "domain-filter"
    VERSION: ClassVar[int] = 1

    lists: str | Sequence[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lists", one_or_several(self.lists))

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:  # noqa: ARG002
        """Return the page, ``filtered:bad_domain`` or ``filtered:bad_subdomain`` (TensorFlow Datasets, c4_utils.py)."""
        domains = _domains(one_or_several(self.lists))
        host = host_from_url(page.url)
        for domain in parent_domains(host):
            if domain in domains:
                allowed = domains[domain]
                if allowed is None or host[: -len(domain)].rstrip(".") in allowed:
                    return page
                return Dropped("filtered:bad_subdomain")
        return Dropped("filtered:bad_domain")

    def fingerprint(self) -> str:
        """Return a hash of the listed domains, independent of their path."""
        domains = _domains(one_or_several(self.lists))
        plain = [
            [domain, None if allowed is None else sorted(allowed)] for domain, allowed in domains.items()
        ]
        return f"domains sha256 {hashlib.sha256(json.dumps(sorted(plain)).encode()).hexdigest()[:16]}"


@dataclass(frozen=True, kw_only=True)
class Urls:
    """Keeps pages whose normalized URL is listed.

    Attributes:
      lists: Files or patterns, one URL on each line (``.txt``, ``.txt.gz``); they need 8 bytes of memory each.

    Raises:
      ValueError: On first use, a file is absent, damaged or without URLs.
    """

    NAME: ClassVar[str] = "url-list-filter"
    VERSION: ClassVar[int] = 1

    lists: str | Sequence[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lists", one_or_several(self.lists))

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:  # noqa: ARG002
        """Return the page, or ``filtered:not_listed``."""
        listed = normalize_url(page.url) in _urls(one_or_several(self.lists))
        return page if listed else Dropped("filtered:not_listed")

    def fingerprint(self) -> str:
        """Return a hash of the listed URLs, independent of their path."""
        return f"addresses sha256 {_urls(one_or_several(self.lists)).fingerprint()}"


def host_from_url(url: str) -> str:
    """Return the host of a URL in lower case, without ``www.``, port or user; empty if there is none."""
    match = _HOST.match(normalize_url(url).strip())
    return match[1].lower().strip(".").removeprefix("www.") if match else ""


def parent_domains(host: str) -> Iterator[str]:
    """Yield ``a.b.org``, ``b.org``, ``org``; a host has at most 127 parts (RFC 1035)."""
    parts = host.split(".")[-127:]
    for start in range(len(parts)):
        yield ".".join(parts[start:])


@functools.lru_cache(maxsize=4)
def _urls(lists: tuple[str, ...]) -> HashSet:
    urls = HashSet(normalize_url(line) for file in _find(lists, _URLS_SOURCE) for line in read_lines(file))
    if not len(urls):
        raise ValueError(f"{', '.join(lists)}: no URLs in there; give one on each line. {_URLS_SOURCE}")
    return urls


@functools.lru_cache(maxsize=4)
def _domains(lists: tuple[str, ...]) -> dict[str, frozenset[str] | None]:
    """Return the subdomains allowed under each domain; None allows all."""
    domains: dict[str, frozenset[str] | None] = {}
    for file in _find(lists, _DOMAINS_SOURCE):
        if file.endswith((".json", ".json.gz")):
            domains.update(_of_json(file))
        else:
            domains.update((host_from_url(line), None) for line in read_lines(file))
    domains.pop("", None)
    if not domains:
        raise ValueError(f"{', '.join(lists)}: no domains in there; give one on each line. {_DOMAINS_SOURCE}")
    return domains


def _of_json(file: str) -> dict[str, frozenset[str] | None]:
    try:
        value = json_value("\n".join(read_lines(file)))
    except ValueError as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(
            f"{file} has a {type(value).__name__}; needed is an object: domains, and their subdomains"
        )
    return {
        host_from_url(domain): frozenset(allowed) if isinstance(allowed, list) else None
        for domain, allowed in value.items()
    }


def _find(lists: tuple[str, ...], source: str) -> list[str]:
    try:
        return find_files(lists)
    except ValueError as error:
        raise ValueError(f"{sentence(error)} The list isn't shipped, for it is not ours: {source}") from error


_PROTOCOL = re.compile(r"https?://(?:www\.)?")
_TRACKING = re.compile(r"\?(?:utm_|ref|feed).*")


def normalize_url(url: str) -> str:
    """Return the URL without protocol, ``www.``, a tracking parameter and what follows, and closing slashes.

    As C4's builder does (TensorFlow Datasets, text/c4_utils.py): lower-case ``http`` only, a tracking parameter only if
    it comes first, and a protocol anywhere in the URL, as in URLs of web archives.

    >>> normalize_url("https://www.example.org/a/?utm_source=news")
    'example.org/a'
    """
    return _TRACKING.sub("", _PROTOCOL.sub("", url)).rstrip("/")


def url_digest(normalized_url: str) -> bytes:
    """Return the md5 of a normalized URL, 16 bytes: it determines the order of pages and their split."""
    return hashlib.md5(normalized_url.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
