"""A rule that keeps evaluation data out of training data."""

import bisect
import functools
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

from t5x_like.config_class import refuse_unused
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.evaluation_n_grams import EvaluationNGrams, Hit, normalize_words, read_texts
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.io.paths import find_files
from t5x_like.nested_values import one_or_several

Action = Literal["cut", "drop", "report"]
_TOKEN = re.compile(r"\S+")


class Overlap(NamedTuple):
    """Text that a page and an evaluation set share.

    Attributes:
      evaluation_set: Name of the set.
      text: The shared text as the page has it.
    """

    evaluation_set: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Contamination:
    """Finds n-grams of words that pages share with evaluation texts (Brown et al. 2020, appendix C).

    GPT-3 ignores n-grams that many pages share; here they count too, so leave well-known phrases out of the evaluation
    texts.

    Attributes:
      files: Paths or patterns: ``.jsonl`` of strings or of objects with strings, otherwise one text on each line. Each
        file is a set, named as the file.
      texts: Further texts, as pairs of set name and text.
      n: Words in an n-gram.
      min_n: Fewest words in an n-gram, for sets of short texts.
      action: "cut" removes the n-grams, as GPT-3 did; "drop" drops the page; "report" only counts.
      min_hits: Pages with fewer shared n-grams are left alone.
      window: Characters that "cut" removes on both sides of an n-gram.
      min_piece: "cut" removes remaining pieces with fewer characters.
      max_pieces: "cut" drops pages that fall into more pieces.

    Raises:
      ValueError: A field is out of range; on first use, a file can't be read, or no text has enough words.
    """

    NAME: ClassVar[str] = "contamination-filter"
    VERSION: ClassVar[int] = 1

    files: str | Sequence[str] = ()
    texts: Sequence[tuple[str, str]] = ()
    n: int = 13
    min_n: int = 8
    action: Action = "cut"
    min_hits: int = 1
    window: int = 200
    min_piece: int = 200
    max_pieces: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", one_or_several(self.files))
        object.__setattr__(self, "texts", tuple((name, text) for name, text in self.texts))
        if not self.files and not self.texts:
            raise ValueError(
                "Contamination has nothing to compare with; give files or texts of evaluation sets"
            )
        if self.action not in get_args(Action):
            raise ValueError(
                f"Contamination.action is {self.action!r}; choose from {', '.join(get_args(Action))}"
            )
        if not 1 <= self.min_n <= self.n:
            raise ValueError(f"Contamination.min_n is {self.min_n}; give 1 to n ({self.n})")
        for name, least in (("min_hits", 1), ("window", 0), ("min_piece", 0), ("max_pieces", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"Contamination.{name} is {getattr(self, name)}; give {least} or more")
        if self.action != "cut":
            refuse_unused(
                self, "window", "min_piece", "max_pieces", because=f"action={self.action!r} cuts nothing"
            )
        if self.action == "report":
            refuse_unused(self, "min_hits", because="action='report' changes no page")

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        """Return the page, the rest of it, or ``filtered:contaminated``.

        Args:
          page: The page.
          counts: Receives, for each set, shared n-grams (``n-grams:squad``) and pages that have any (``pages:squad``).
        """
        hits = self._n_grams().hits(normalize_words(page.text))
        if not hits:
            return page
        for name, count in Counter(hit.evaluation_set for hit in hits).items():
            counts[f"n-grams:{name}"] += count
            counts[f"pages:{name}"] += 1
        if self.action == "report" or len({hit.first_word for hit in hits}) < self.min_hits:
            return page
        pieces = self._pieces(page.text, hits) if self.action == "cut" else []
        if not pieces:
            return Dropped("filtered:contaminated")
        counts["cut"] += 1
        return page._replace(text="\n".join(pieces))

    def overlaps(self, text: str) -> list[Overlap]:
        """Return the text shared with each set, for reports; adjacent n-grams are joined."""
        spans = _word_spans(text)
        ranges_of_set: dict[str, list[tuple[int, int]]] = {}
        for hit in self._n_grams().hits(normalize_words(text)):
            start, end = spans[hit.first_word][0], spans[hit.first_word + hit.n - 1][1]
            ranges = ranges_of_set.setdefault(hit.evaluation_set, [])
            if ranges and start <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
            else:
                ranges.append((start, end))
        return [
            Overlap(name, text[start:end]) for name, ranges in ranges_of_set.items() for start, end in ranges
        ]

    def fingerprint(self) -> str:
        """Return a hash of the evaluation texts, independent of the files they come in."""
        return f"evaluation texts sha256 {self._n_grams().fingerprint()}"

    def _n_grams(self) -> EvaluationNGrams:
        return _load(tuple(self.files), tuple(self.texts), self.n, self.min_n)

    def _pieces(self, text: str, hits: Sequence[Hit]) -> list[str]:
        """Return the pieces between the cuts; nothing if there are too many."""
        spans = _word_spans(text)
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        pieces: list[tuple[int, int]] = []
        begin = 0
        for hit in sorted(hits):
            last = bisect.bisect_right(ends, starts[hit.first_word] - self.window)  # whole words stay
            first = bisect.bisect_left(starts, ends[hit.first_word + hit.n - 1] + self.window)
            if last and ends[last - 1] > begin:
                pieces.append((begin, ends[last - 1]))
            begin = max(begin, starts[first] if first < len(starts) else len(text))
        pieces.append((begin, len(text)))
        kept = [text[start:end].strip() for start, end in pieces]
        kept = [piece for piece in kept if piece]
        return (
            [piece for piece in kept if len(piece) >= self.min_piece] if len(kept) <= self.max_pieces else []
        )


def _word_spans(text: str) -> list[tuple[int, int]]:
    """Return the positions of the words of ``normalize_words``: punctuation alone is no word."""
    spans = [match.span() for match in _TOKEN.finditer(text)]
    return [span for span in spans if normalize_words(text[slice(*span)])]


@functools.lru_cache(maxsize=2)
def _load(files: tuple[str, ...], texts: tuple[tuple[str, str], ...], n: int, min_n: int) -> EvaluationNGrams:
    pairs = list(texts)
    for file in find_files(files) if files else ():
        name = os.path.basename(file).split(".")[0]
        pairs += [(name, text) for text in read_texts(file)]
    n_grams = EvaluationNGrams(pairs, n=n, min_n=min_n)
    if not len(n_grams):
        sets = ", ".join(n_grams.sets) or ", ".join(files)
        raise ValueError(
            f"no text of {sets} has {min_n} words or more; nothing would be found. Lower min_n or give others"
        )
    return n_grams
