"""Whom a pronoun stands for, T5's wording: the pronoun marked by asterisks, answered by what it stands for.

Winograd schemas (SuperGLUE's WSC), Definite Pronoun Resolution and GLUE's WNLI become one task (Raffel et al. 2020,
§2.4): ``wsc: Mitchell asked Tom if *he* could lend some money.`` -> ``Tom``.
"""

import re

from t5x_like.text.benchmarks.benchmark import WordedRow
from t5x_like.text.benchmarks.keyed_wording import UNLABELLED, label_word
from t5x_like.text.tasks.rows import RowValues

_BLANK = "X"
# Two rows of WSC whose index names another word: the pronoun's place is given here.
_PLACED = {
    "The boy continued to whip the pony , and eventually the pony threw him over. John laughed out quite loud. "
    '"Good for him," he said. ': ('"Good for him," he said. ', '"Good for X ," he said.'),
    "When they had eventually calmed down a bit , and had gotten home, Mr. Farley put the magic pebble in an iron safe "
    ". Some day they might want to use it , but really for now, what more could they wish for?": (
        " use it ,",
        " use X ,",
    ),
}
_SPACE, _NO_SPACE = (
    r"[\t\n\f\r ]",
    r"[^\t\n\f\r ]",
)  # as RE2 understands \s and \S, which T5's wording was made with
TRUTH = ("False", "True")


def wsc_simple(row: RowValues) -> list[WordedRow]:
    """What the pronoun may stand for, whether it does or not: for evaluation.

    The pronoun's place is blanked by an X, then every X between spaces becomes the marked pronoun: an X of the text's
    own (``Brand X and``) too, as in T5.

    Raises:
      ValueError: the pronoun is the first word, is not where the row says, or lies outside the text.
    """
    blank = f" {_BLANK} "
    marked = _blanked(row).replace(blank, _as_replacement(f" *{row['span2_text']}* ", blank))
    return [
        {"inputs": f"wsc: {marked}", "targets": row["span1_text"], "label": row["label"], "idx": row["idx"]}
    ]


def wsc_simple_right_only(row: RowValues) -> list[WordedRow]:
    """As ``wsc_simple``, without the rows in which the pronoun stands for something else: for training."""
    return wsc_simple(row) if row["label"] else []


def _as_replacement(text: str, replaced: str) -> str:
    """What RE2, T5's library of patterns, writes where ``text`` replaces something: a backslash of it is no letter.

    Two are one, ``\\0`` is what was replaced, a group's number leaves that as it is, and at any other one the writing
    ends.
    """
    head, *rest = re.split(r"(\\[\\0-9]|\\)", text)
    signs = rest[::2]
    if any(sign[1:] in set("123456789") for sign in signs):
        return replaced
    for sign, letters in zip(signs, rest[1::2], strict=True):
        if sign == "\\":
            break
        head += ("\\" if sign == "\\\\" else replaced) + letters
    return head


def _blanked(row: RowValues) -> str:
    text, index, pronoun = row["text"], row["span2_index"], row["span2_text"]
    words = text.split(" ")
    if index <= 0:
        raise ValueError(f"span2_index must be > 0, a word before the pronoun, not {index}")
    if index >= len(words):
        raise ValueError(f"span2_index {index} is outside the text's {len(words)} words")
    if text in _PLACED:
        return text.replace(*_PLACED[text])
    if words[index] != pronoun:
        raise ValueError(f"the word at span2_index {index} is {words[index]!r}, not span2_text {pronoun!r}")
    # A space after it too where it is the last word, without which it would stay an X.
    return f"{' '.join(words[:index])} {_BLANK} {' '.join(words[index + 1 :])}"


def wsc_marked_spans(row: RowValues) -> list[WordedRow]:
    """Both spans marked, answered by whether they are the same: ``wsc text: * Tom * asked if # he # could``.

    The spans are looked for as regular expressions after so many words, each followed by one space: one that is not
    found stays unmarked, as in T5.

    Raises:
      ValueError: a span is no regular expression, or the label is outside the set.
    """
    first, second = row["span1_index"], row["span2_index"]
    text = _mark(row["text"], row["span1_text"], first, "*")
    # The marks of the first span count as words.
    text = _mark(text, row["span2_text"], second + 2 * (first < second), "#")
    return [{"inputs": f"wsc text: {text}", "targets": label_word(row, TRUTH), "idx": row["idx"]}]


def _mark(text: str, span: str, index: int, mark: str) -> str:
    try:
        pattern = re.compile(f"^((?:{_NO_SPACE}+{_SPACE}){{{index}}})({_as_replacement(span, 'W')})")
    except re.error as error:
        raise ValueError(f"the span {span!r} can't be looked for as a pattern: {error}") from None
    return pattern.sub(lambda match: f"{match[1]}{mark} {match[2]} {mark}", text, count=1)


def dpr_simple(row: RowValues) -> list[WordedRow]:
    """The first pronoun between a space and a space, full stop or comma is marked; any other stays as it is.

    DPR has no rows without a label: -1 is the last candidate, as T5 counts from the end, too.

    Raises:
      ValueError: the label names no candidate.
    """
    candidates, label = row["candidates"], row["label"]
    asked = label == -1 and not candidates
    if not asked and not -len(candidates) <= label < len(candidates):
        raise ValueError(f"the label {label} names none of the {len(candidates)} candidates")
    try:
        marked = re.sub(f" ({row['pronoun']})( |\\.|,)", r" *\1*\2", row["sentence"], count=1)
    except re.error as error:
        raise ValueError(
            f"the pronoun {row['pronoun']!r} can't be looked for as a pattern: {error}"
        ) from None
    return [{"inputs": f"wsc: {marked}", "targets": UNLABELLED if asked else candidates[label]}]
