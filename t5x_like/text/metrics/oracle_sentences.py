"""Sentences of a document that match a summary best: labels of extractive summarization."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

_WORD = re.compile(r"[^\W_]+")
_ORDERS: tuple[int, ...] = (1, 2)


class _Grams(NamedTuple):
    """Counts of n-grams.

    Attributes:
      counts: Counts of those that matter.
      total: Number of all.
    """

    counts: Counter[tuple[str, ...]]
    total: int


def words_of(text: str) -> list[str]:
    """Return the lower-case words of a text in any script with spaces between words."""
    return _WORD.findall(text.lower())


def ngrams(words: Sequence[str], order: int) -> list[tuple[str, ...]]:
    """Return the n-grams of a sentence.

    Args:
      words: Words of the sentence.
      order: Number of words of an n-gram.
    """
    return [tuple(words[start : start + order]) for start in range(len(words) - order + 1)]


def oracle_sentences(sentences: Sequence[str], summary: str, *, max_sentences: int = 3) -> tuple[int, ...]:
    """Return the numbers of the sentences with the best ROUGE against a summary, chosen greedily one after another.

    Each next sentence is the one that raises the sum of the F1 of ROUGE-1 and ROUGE-2 most, as in the code of Liu and
    Lapata 2019 (https://arxiv.org/abs/1908.08345; section 3.1 of the paper names ROUGE-2). The choice ends where none
    does. N-grams don't cross the ends of sentences or of the summary's lines.

    >>> oracle_sentences(["It rained.", "A ferry ran aground.", "All were saved."], "The ferry is aground.")
    (1,)

    Args:
      sentences: Sentences of the document.
      summary: Reference.
      max_sentences: Highest number of sentences to choose.

    Returns:
      Numbers in ascending order; none if no word matches.
    """
    wanted = {order: _grams_of([words_of(line) for line in summary.splitlines()], order) for order in _ORDERS}
    offered = [
        {order: _kept(_grams_of([words_of(sentence)], order), wanted[order]) for order in _ORDERS}
        for sentence in sentences
    ]
    chosen: list[int] = []
    covered = {order: Counter[tuple[str, ...]]() for order in _ORDERS}
    matched, total = dict.fromkeys(_ORDERS, 0), dict.fromkeys(_ORDERS, 0)
    best = 0.0
    while len(chosen) < max_sentences:
        scores = {
            index: sum(
                _f1(
                    matched[order] + _gain(grams[order], covered[order], wanted[order]),
                    total[order] + grams[order].total,
                    wanted[order].total,
                )
                for order in _ORDERS
            )
            for index, grams in enumerate(offered)
            if index not in chosen
        }
        index = max(scores, key=scores.__getitem__, default=None)  # the first of equal ones
        if index is None or scores[index] <= best:
            break
        best = scores[index]
        chosen.append(index)
        for order, grams in offered[index].items():
            matched[order] += _gain(grams, covered[order], wanted[order])
            covered[order] += grams.counts
            total[order] += grams.total
    return tuple(sorted(chosen))


def _grams_of(sentences: Sequence[Sequence[str]], order: int) -> _Grams:
    counts = Counter(gram for words in sentences for gram in ngrams(words, order))
    return _Grams(counts, counts.total())


def _kept(grams: _Grams, wanted: _Grams) -> _Grams:
    """Return a sentence's n-grams without the counts of those that the summary lacks."""
    return grams._replace(
        counts=Counter({gram: count for gram, count in grams.counts.items() if gram in wanted.counts})
    )


def _gain(grams: _Grams, covered: Counter[tuple[str, ...]], wanted: _Grams) -> int:
    """Return how many more n-grams of the summary are matched with a sentence."""
    return sum(
        min(count, max(wanted.counts[gram] - covered[gram], 0)) for gram, count in grams.counts.items()
    )


def _f1(matched: int, offered: int, wanted: int) -> float:
    return 2.0 * matched / (offered + wanted) if offered + wanted else 0.0
