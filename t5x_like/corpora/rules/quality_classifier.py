"""GPT-3's filter of Common Crawl: a classifier of quality, and a draw that keeps most of what it rates highly."""

import functools
import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.pages.page_reader import PageReaderConfig, read_pages
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.string_sets import hash_64
from t5x_like.io.paths import find_files
from t5x_like.nested_values import one_or_several

_MAX_ITERATIONS = 300  # of L-BFGS


@dataclass(frozen=True, kw_only=True)
class QualityClassifier:
    """Keeps pages that resemble curated text, and a few others.

    A logistic regression learns to tell documents of ``curated`` files from those of ``raw`` ones. Its features are
    counts of words in lower case, separated by whitespace and hashed, as those of Spark's Tokenizer and HashingTF. A
    page stays if a draw from a Pareto distribution is greater than 1 - score: with probability
    ``keep_probability(score)``. The draw depends on the seed, the page's URL and its text, so builds repeat.

    Brown et al. 2020, section 2.2 and appendix A, https://arxiv.org/abs/2005.14165. Its positive examples were WebText,
    Wikipedia and a corpus of books, its negative ones unfiltered pages of Common Crawl.

    Attributes:
      curated: Paths or patterns of files of good documents, of any kind that a corpus is built from.
      raw: Paths or patterns of files of unfiltered pages, such as a few files of the crawl.
      alpha: Shape of the Pareto distribution; higher values keep fewer pages of low scores.
      max_documents: Most documents to learn from of either kind, in equal shares of its files.
      num_features: Number of hash values of words; HashingTF's default.
      seed: Seed of the draws.
      reading: Options for reading ``curated`` and ``raw``.

    Raises:
      ValueError: A field isn't positive; on first use, files are absent or without documents.
    """

    NAME: ClassVar[str] = "quality-classifier"
    VERSION: ClassVar[int] = 1

    curated: str | Sequence[str]
    raw: str | Sequence[str]
    alpha: float = 9.0
    max_documents: int = 20_000
    num_features: int = 2**18
    seed: int = 0
    reading: PageReaderConfig = field(default_factory=PageReaderConfig)

    def __post_init__(self) -> None:
        for name in ("curated", "raw"):
            object.__setattr__(self, name, one_or_several(getattr(self, name)))
        for name in ("alpha", "max_documents", "num_features"):
            if not getattr(self, name) > 0:
                raise ValueError(f"QualityClassifier.{name} is {getattr(self, name)}; it must be positive")

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page, or ``filtered:low_quality``; ``counts`` gets the score's tenth, such as ``score:0.3``."""
        score = self.score(page.text)
        counts[f"score:{min(int(score * 10), 9) / 10}"] += 1
        page_hash = hash_64(f"{self.seed}\n{page.url}\n{page.text}")
        draw = ((page_hash + 1) / 2**64) ** (-1 / self.alpha) - 1  # the inverse of the distribution function
        return page if draw > 1 - score else Dropped("filtered:low_quality")

    def score(self, text: str) -> float:
        """Return the probability that a text is curated, from 0 to 1."""
        trained = self._trained()
        logit = trained.bias + float((_features([text], self.num_features) @ trained.weights)[0])
        return round(0.5 + 0.5 * math.tanh(logit / 2), 6)  # processors may differ in the last digits

    def keep_probability(self, score: float) -> float:
        """Return the probability that a page of this score stays: (2 - score)^-alpha."""
        return (2 - score) ** -self.alpha

    def fingerprint(self) -> str:
        """Return a hash of the documents that were learned from, independent of their files' names."""
        return f"documents sha256 {self._trained().digest}"

    def _trained(self) -> "_Trained":
        return _train(
            tuple(self.curated), tuple(self.raw), self.max_documents, self.num_features, self.reading
        )


class _Trained(NamedTuple):
    weights: np.ndarray  # float64 [num_features]
    bias: float
    digest: str


@functools.lru_cache(maxsize=2)
def _train(
    curated: tuple[str, ...],
    raw: tuple[str, ...],
    max_documents: int,
    num_features: int,
    reading: PageReaderConfig,
) -> _Trained:
    positive, negative = (_documents(files, max_documents, reading) for files in (curated, raw))
    classifier: Any = LogisticRegression(max_iter=_MAX_ITERATIONS)
    labels = np.repeat([1, 0], [len(positive), len(negative)])
    classifier.fit(_features(positive + negative, num_features), labels)
    digest = hashlib.sha256()
    for label, text in zip(labels, positive + negative, strict=True):
        digest.update(f"{label}{len(text)} {text}".encode("utf-8", "surrogatepass"))
    return _Trained(classifier.coef_[0], float(classifier.intercept_[0]), digest.hexdigest()[:16])


def _documents(files: tuple[str, ...], max_documents: int, reading: PageReaderConfig) -> list[str]:
    paths = find_files(files)
    share = -(-max_documents // len(paths))
    texts = [page.page.text for file in paths for page in itertools.islice(read_pages(file, reading), share)]
    if not texts:
        raise ValueError(
            f"{', '.join(files)}: no documents in there; QualityClassifier learns from curated and raw ones"
        )
    return texts[:max_documents]


def _features(texts: Sequence[str], num_features: int) -> Any:
    """Return a sparse array [len(texts), num_features] of counts."""
    return _hashing(num_features).transform(texts)


@functools.lru_cache(maxsize=2)
def _hashing(num_features: int) -> HashingVectorizer:
    return HashingVectorizer(
        n_features=num_features,
        token_pattern=r"\S+",
        lowercase=True,
        norm=None,  # pyright: ignore[reportArgumentType]
        alternate_sign=False,
    )
