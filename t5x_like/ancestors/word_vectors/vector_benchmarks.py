"""Scores of word vectors on analogies and on judgments of similarity, from the files that these are published in."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.io.files import PathLike, as_path
from t5x_like.io.paths import find_file
from t5x_like.text.metrics.correlation import spearman_corrcoef
from t5x_like.text.vocabularies.tokenizer import describe_invalid_utf8

_QUESTIONS_AT_ONCE = 512


class Analogy(NamedTuple):
    """A question: ``b`` is to ``a`` as what is to ``c``? The answer is ``d``."""

    section: str
    a: str
    b: str
    c: str
    d: str


class SimilarPair(NamedTuple):
    """Two words, and how similar people find them."""

    first: str
    second: str
    score: float


@dataclass(frozen=True, kw_only=True)
class AnalogyScores:
    """Results on analogies.

    Attributes:
      accuracy: Share of right answers in percent, of questions whose four words all have vectors.
      num_questions: Questions of the file.
      num_answered: Questions whose words have vectors.
      sections: Accuracy and number of answered questions of each section that has some.
    """

    accuracy: float
    num_questions: int
    num_answered: int
    sections: dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class SimilarityScores:
    """Results on judgments of similarity.

    Attributes:
      spearman_corrcoef: Rank correlation of cosines with people's scores, times 100, over pairs with two vectors.
      num_pairs: Pairs of the file.
      num_scored: Pairs whose words have vectors.
    """

    spearman_corrcoef: float
    num_pairs: int
    num_scored: int


def read_analogies(path: PathLike, *, lower_case: bool = False) -> list[Analogy]:
    """Read questions in the form of word2vec's ``questions-words.txt``.

    A line of four words is a question. A line that begins with a colon names the section of those after it.

    Args:
      path: The file.
      lower_case: Convert words to lower case.

    Raises:
      ValueError: A line is neither, or there is no question.
    """
    name, section, questions = find_file(path), "", []
    for number, line in _lines(name):
        words = (line.lower() if lower_case and not line.startswith(":") else line).split()
        if words[0].startswith(":"):
            section = line.removeprefix(":").strip()
        elif len(words) == 4:
            questions.append(Analogy(section, *words))
        else:
            raise ValueError(
                f"{name}:{number}: {line[:80]!r} has {len(words)} words; a question has four, such as 'man king woman "
                "queen', and a section begins with a colon"
            )
    if not questions:
        raise ValueError(f"{name} has no questions; a question is a line of four words")
    return questions


def read_similarities(path: PathLike, *, lower_case: bool = False) -> list[SimilarPair]:
    """Read a table of word pairs with scores, such as WordSim-353, MEN or Rare Words.

    The first three columns are the words and the score. Columns are separated by tabs, commas or spaces. Lines that
    begin with ``#`` and a first line of headings are skipped.

    Args:
      path: The file.
      lower_case: Convert words to lower case.

    Raises:
      ValueError: A line has fewer columns or no score, or there is no pair.
    """
    name, pairs, is_first = find_file(path), [], True
    for number, line in _lines(name):
        if line.startswith("#"):
            continue
        separator = next((each for each in "\t," if each in line), None)
        columns = line.split() if separator is None else next(csv.reader([line], delimiter=separator))
        score = _score(columns[2]) if len(columns) > 2 else None
        if score is None and not (is_first and len(columns) > 2):
            raise ValueError(
                f"{name}:{number}: {line[:80]!r} is no pair; give two words and a finite score, separated by tabs, "
                "commas or spaces"
            )
        is_first = False
        if score is not None:
            first, second = (word.strip().lower() if lower_case else word.strip() for word in columns[:2])
            pairs.append(SimilarPair(first, second, score))
    if not pairs:
        raise ValueError(f"{name} has no pairs; a pair is a line of two words and a score")
    return pairs


def score_analogies(vectors: WordVectors, questions: Sequence[Analogy]) -> AnalogyScores:
    """Answer analogies by 3CosAdd: the word whose vector has the largest cosine to ``b - a + c``.

    Vectors have length 1 before they are added, and the three words of a question are no answers (Mikolov et al. 2013c,
    https://aclanthology.org/N13-1090; Levy and Goldberg 2014, https://aclanthology.org/W14-1618, §3).

    Args:
      vectors: Words and vectors.
      questions: From ``read_analogies``.

    Raises:
      ValueError: No question has only words with vectors.
    """
    known = [each for each in questions if all(word in vectors.rows for word in each[1:])]
    if not known:
        raise ValueError(_nothing_known("question", len(questions), " ".join(questions[0][1:])))
    is_right: list[bool] = []
    for start in range(0, len(known), _QUESTIONS_AT_ONCE):
        rows = np.array(
            [[vectors.rows[word] for word in each[1:]] for each in known[start : start + _QUESTIONS_AT_ONCE]]
        )
        a, b, c = (vectors.unit[rows[:, column]] for column in range(3))
        cosines = (b - a + c) @ vectors.unit.T  # but for a factor of each question
        np.put_along_axis(cosines, rows[:, :3], -np.inf, axis=1)
        is_right += (cosines.argmax(axis=1) == rows[:, 3]).tolist()
    sections: dict[str, list[bool]] = {}
    for question, right in zip(known, is_right, strict=True):
        sections.setdefault(question.section, []).append(right)
    return AnalogyScores(
        accuracy=100.0 * float(np.mean(is_right)),
        num_questions=len(questions),
        num_answered=len(known),
        sections={
            section: {"accuracy": 100.0 * float(np.mean(each)), "num_answered": len(each)}
            for section, each in sections.items()
        },
    )


def score_similarities(vectors: WordVectors, pairs: Sequence[SimilarPair]) -> SimilarityScores:
    """Correlate cosines of vectors with scores.

    Args:
      vectors: Words and vectors.
      pairs: From ``read_similarities``.

    Raises:
      ValueError: No pair has two words with vectors, or all have the same score or cosine.
    """
    known = [each for each in pairs if each.first in vectors.rows and each.second in vectors.rows]
    if not known:
        raise ValueError(_nothing_known("pair", len(pairs), " ".join(pairs[0][:2])))
    first = vectors.unit[[vectors.rows[each.first] for each in known]]
    second = vectors.unit[[vectors.rows[each.second] for each in known]]
    cosines = np.sum(first * second, axis=1)
    correlations = spearman_corrcoef([each.score for each in known], cosines.tolist())
    correlation = correlations["spearman_corrcoef"]
    if np.isnan(correlation):
        raise ValueError(
            f"{len(known):,} pairs have words with vectors, and their scores or cosines are all the same, so they have "
            "no ranks to correlate; give more pairs"
        )
    return SimilarityScores(spearman_corrcoef=correlation, num_pairs=len(pairs), num_scored=len(known))


def _nothing_known(what: str, number: int, example: str) -> str:
    return (
        f"none of {number:,} {what}s, such as {example!r}, has only words with vectors; if the vectors are of "
        "lower-case words, add lower_case"
    )


def _lines(name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that aren't blank, with their numbers."""
    try:
        text = as_path(name).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: {describe_invalid_utf8(error)}") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.strip("\r\n ")


def _score(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None
