"""Removal of repeated three-sentence spans in the whole corpus, as T5's paper describes."""

import itertools
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from t5x_like.corpora.duplicates.duplicate_rule import PagePosition, digest, make_keys
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.sentences import has_sentences, split_sentences
from t5x_like.corpora.rules.word_tokens import ASCII_MARKS, CONTROLS, OTHER_MARKS


@dataclass(frozen=True, kw_only=True)
class DuplicateSpans:
    """Keeps only the first occurrence of each span of ``num_sentences`` sentences in the corpus.

    "We discarded all but one of any three-sentence span occurring more than once in the data set" (Raffel et al. 2020
    §2.2, https://arxiv.org/abs/1910.10683). Spans are compared as the documents were read, before any removal. Spans
    overlap, and all sentences of a later one are removed. The order is that of the input files, so this step, unlike
    ``DuplicateLines``, depends on their names. ``normalize_sentence`` defines equality.

    The rules are those of datatrove's sentence deduplication, https://github.com/huggingface/datatrove.

    Attributes:
      num_sentences: Sentences in a span.
      split_sentences: Split text into sentences by Punkt (``split_sentences``), and at the marks that end sentences in
        other scripts, such as Chinese; False takes lines instead.
      min_sentences: Fewest sentences that must remain in a document from which a span was removed.
      min_words: Fewest words (separated by whitespace) that must remain in such a document.
    """

    NAME: ClassVar[str] = "dedupe-spans"
    VERSION: ClassVar[int] = 2
    BY_HASH_ALONE: ClassVar[bool] = True

    num_sentences: int = 3
    split_sentences: bool = True
    min_sentences: int = 3
    min_words: int = 0

    def __post_init__(self) -> None:
        if self.num_sentences < 1:
            raise ValueError(
                f"DuplicateSpans.num_sentences is {self.num_sentences}; a span has 1 or more, in T5's paper 3"
            )

    def keys(self, page: Page, position: PagePosition) -> np.ndarray:
        """Return ``KEY`` [number of sentences + 1 - ``num_sentences``], or [0] for a shorter document."""
        sentences = [normalize_sentence(sentence) for sentence in self._sentences(page.text)]
        starts = range(len(sentences) + 1 - self.num_sentences)
        spans = [" ".join(sentences[start : start + self.num_sentences]) for start in starts]
        keys = make_keys(map(digest, spans), rank=(position.source, position.record))
        return keys[np.array([bool(span.strip()) for span in spans], bool)]

    def remove(self, page: Page, parts: np.ndarray, counts: Counter[str]) -> Page | Dropped:
        """Return the document without the sentences of the removed spans if enough of it remains."""
        sentences = self._sentences(page.text)
        counts["sentence-passed"] += len(sentences)
        if not len(parts):
            return page
        removed = {start + offset for start in parts.tolist() for offset in range(self.num_sentences)}
        counts["sentence-passed"] -= len(removed)
        counts["sentence-filtered:duplicate_span"] += len(removed)
        kept = [sentence for index, sentence in enumerate(sentences) if index not in removed]
        return self._rest(page, ("" if self.split_sentences else "\n").join(kept).lstrip())

    def texts(self, page: Page, parts: np.ndarray) -> list[str]:
        """Return the removed spans."""
        sentences = [" ".join(sentence.split()) for sentence in self._sentences(page.text)]
        return [" ".join(sentences[part : part + self.num_sentences]) for part in parts.tolist()]

    def _rest(self, page: Page, text: str) -> Page | Dropped:
        if not text:
            return Dropped("filtered:empty")
        if self.min_words > 0 and len(text.split()) < self.min_words:
            return Dropped("filtered:too_few_words")
        if not has_sentences(text, self.min_sentences) and len(_ends(text)) < self.min_sentences:
            return Dropped("filtered:too_few_sentences")
        return page._replace(text=text)

    def _sentences(self, text: str) -> list[str]:
        """Return lines, or sentences with the whitespace before them: joined, these are the text except for its end."""
        if not self.split_sentences:
            return text.splitlines()
        return [text[start:end] for start, end in itertools.pairwise([0, *_ends(text)])]


def _ends(text: str) -> list[int]:
    """Return the ends of sentences. Marks without a word, such as the last of "!!", belong to the sentence before."""
    ends: list[int] = []
    end = 0
    for sentence in split_sentences(text):
        start = text.index(sentence, end)
        for part in _OTHER_SENTENCE.findall(sentence):
            end = start = start + len(part)
            if ends and not has_words(part):
                ends[-1] = end
            else:
                ends.append(end)
    return ends


# Marks that end a sentence in scripts that Punkt's English doesn't know, with or without a space after them: Chinese,
# Japanese, Devanagari, Urdu, Arabic, Armenian, Ethiopic, Burmese and Khmer. Closing quotes and brackets belong to it.
_OTHER_MARK = "[\u3002\uff01\uff1f\uff61\u0964\u0965\u06d4\u061f\u0589\u1362\u1367\u104b\u17d4]"
_OTHER_SENTENCE = re.compile(rf"(?s:.+?{_OTHER_MARK}+[\"')\]\u2019\u201d\u300d\u300f\uff09\u3011]*|.+)")

_TO_SPACES = str.maketrans(dict.fromkeys(ASCII_MARKS + OTHER_MARKS + CONTROLS, " "))

_NUMBER = re.compile(r"\d+(?:[.,\u066b\u060c\u2396-\u2398]\d+)?")
_NO_ASCII_WORD = re.compile(r"[^a-z0-9]+")
_WORD_CHARACTER = re.compile(r"[A-Za-z0-9]")


def normalize_sentence(sentence: str) -> str:
    """Return a sentence in lower case, with numbers as 0, punctuation and whitespace as one space, and no accents.

    >>> normalize_sentence("The  café's 3.5 stars, in 1999!")
    'the cafe s 0 stars in 0'
    """
    text = _NUMBER.sub("0", sentence.lower())
    if text.isascii():
        return _NO_ASCII_WORD.sub(" ", text).strip()  # equal to the general case, twice as fast
    return _without_accents(" ".join(text.translate(_TO_SPACES).split()))


def has_words(sentence: str) -> bool:
    """Return True if the normalized sentence isn't empty."""
    return _WORD_CHARACTER.search(sentence) is not None or bool(normalize_sentence(sentence))


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(letter for letter in decomposed if unicodedata.category(letter) != "Mn").strip()
