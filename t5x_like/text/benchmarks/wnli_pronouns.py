"""WNLI as pronoun resolution: find the pronoun that the second sentence fills in, and the candidate it uses.

T5's ``wnli_simple`` (https://github.com/google-research/text-to-text-transfer-transformer): WNLI was made from Winograd
schemas by replacing the pronoun with a candidate. So the words around the right pronoun are those around the candidate
in the second sentence.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from t5x_like.config_class import config_class
from t5x_like.text.benchmarks.benchmark import FormattedRow
from t5x_like.text.benchmarks.pronouns import closed_up
from t5x_like.text.heads.cloze_head import BLANK
from t5x_like.text.templates import RowValues

_PRONOUNS = frozenset(["he", "she", "they", "it", "her", "his", "their", "them", "him"])
_ARTICLES = ("a", "an", "the")
_MARKS = (".", ",", "!", "?")


class _Match(NamedTuple):
    """A pronoun's candidate.

    Attributes:
      agreement: Number of words around the pronoun that are around the candidate, too.
      position: Position of the pronoun in the first sentence.
      candidate: The candidate's words.
    """

    agreement: int
    position: int
    candidate: str


def wnli_simple(row: RowValues) -> list[FormattedRow]:
    """Word ``wsc: … *It* has to be cleaned.`` with the candidate as the target, right (``label``) or wrong.

    Raises:
      ValueError: The first sentence has no pronoun, or the sentences share no words that lead to a candidate.
    """
    premise, hypothesis = row["sentence1"], row["sentence2"]
    position, candidate = _resolved(premise, hypothesis)
    return [
        {
            "inputs": f"wsc: {_replaced(premise, position, '*{}*')}",
            "targets": candidate,
            "premise": premise,
            "hypothesis": hypothesis,
            "label": row["label"],
            "idx": row["idx"],
        }
    ]


@config_class
class WnliReferents:
    """Makes the columns of ``ReferentRanking`` from rows of WNLI."""

    def __call__(self, row: RowValues) -> RowValues:
        """Return text, referent and label.

        Raises:
          ValueError: As ``wnli_simple``, or no candidate is found.
        """
        premise = " ".join(row["sentence1"].split())
        position, candidate = _resolved(premise, row["sentence2"])
        if not candidate:
            raise ValueError(f"sentence2 has no candidate for a pronoun of {premise!r}: {row['sentence2']!r}")
        text = closed_up(_replaced(premise, position, BLANK))
        return {"text": text, "referent": candidate, "label": row["label"]}


def _resolved(premise: str, hypothesis: str) -> tuple[int, str]:
    """Return the position of the pronoun among the words of the first sentence, and the candidate as written."""
    words, filled = _bare_words(premise), _bare_words(hypothesis)
    positions = [position for position, word in enumerate(words) if word in _PRONOUNS]
    if not positions:
        raise ValueError(f"sentence1 has none of the pronouns {', '.join(sorted(_PRONOUNS))}: {premise!r}")
    try:
        best = max(
            (_match(words, filled, position) for position in positions), key=lambda match: match.agreement
        )
        return best.position, _as_written(best.candidate, hypothesis)
    except re.error as error:
        raise ValueError(f"its words can't be looked for as a pattern ({error}): {premise!r}") from None


def _bare_words(sentence: str) -> list[str]:
    """Return lower-cased words, each without one punctuation mark at its end."""
    words = [re.sub(r"[.,?!]$", "", word) for word in sentence.strip().lower().split(" ")]
    return [word for word in words if word]


def _match(words: Sequence[str], filled: Sequence[str], position: int) -> _Match:
    """Match the words around one pronoun with the filled sentence, and find the candidate at its place.

    As in T5, words are searched unescaped and as parts of longer words.
    """
    before, after = words[:position], words[position + 1 :]
    num_before, num_after = _num_shared(before[::-1], filled[::-1]), _num_shared(after, filled)
    left, right = before[len(before) - num_before :], after[:num_after]
    if not num_before + num_after:
        return _Match(0, position, "")
    sentence = " ".join(filled)
    # Between the shared words; else at the sentence's beginning, or its end.
    for pattern in ([*left, "(.+)", *right], ["^(.+)", *right], [*left, "(.+)$"]):
        match = re.search(" ".join(pattern), sentence)
        if match:
            return _Match(num_before + num_after, position, match[1])
    return _Match(num_before + num_after, position, "")


def _num_shared(words: Sequence[str], filled: Sequence[str]) -> int:
    """Count the leading words that occur in the filled sentence, one after the other."""
    sentence = " ".join(filled)
    for count in range(len(words)):
        if " ".join(words[: count + 1]) not in sentence:
            return count
    return len(words)


def _as_written(candidate: str, hypothesis: str) -> str:
    """Return the candidate in the second sentence's case, from its last article on, without a possessive ending."""
    words = candidate.split(" ")
    article = max((words.index(each) for each in _ARTICLES if each in words), default=0)
    pattern = " ".join(f"{re.escape(word)}[.,?!]?" for word in words[article:])
    match = re.search(pattern, hypothesis, re.IGNORECASE)
    if not match:
        raise ValueError(
            f"{' '.join(words[article:])!r}, to which the pronoun refers, is not in {hypothesis!r}"
        )
    written = match[0][:-1] if match[0].endswith(_MARKS) else match[0]
    return written.removesuffix("'") if written.endswith("'") else written.removesuffix("'s")


def _replaced(premise: str, position: int, pattern: str) -> str:
    """Put a pattern in place of the word at a position, with a space before its punctuation mark.

    Positions don't count empty words, as in T5, so after two spaces the place is too early.

    Args:
      premise: Sentence.
      position: Position of the word.
      pattern: Text in place of it; the word itself replaces ``{}``.
    """
    words = premise.split(" ")
    word = words[position]
    if not word:
        raise ValueError(
            f"the pronoun can't be marked: there are two spaces in a row, or one at the start: {premise!r}"
        )
    words[position] = (
        f"{pattern.format(word[:-1])} {word[-1]}" if word.endswith(_MARKS) else pattern.format(word)
    )
    return " ".join(words)
