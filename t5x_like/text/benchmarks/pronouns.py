"""Pronoun resolution in T5's templates: the pronoun is marked by asterisks, the target is its referent.

Winograd schemas (SuperGLUE's WSC), Definite Pronoun Resolution and GLUE's WNLI become one task (Raffel et al. 2020,
§2.4): ``wsc: Mitchell asked Tom if *he* could lend some money.`` -> ``Tom``.
"""

import re

from t5x_like.config_class import config_class
from t5x_like.text.benchmarks.benchmark import FormattedRow
from t5x_like.text.benchmarks.keyed_template import UNLABELED, label_word
from t5x_like.text.heads.cloze_head import BLANK
from t5x_like.text.heads.row_cells import UNLABELED as UNKNOWN
from t5x_like.text.templates import RowValues

_BLANK = "X"
# Two rows of WSC with a wrong index of the pronoun.
_PLACED = {
    "The boy continued to whip the pony , and eventually the pony threw him over. John laughed out quite loud. "
    '"Good for him," he said. ': ('"Good for him," he said. ', '"Good for X ," he said.'),
    "When they had eventually calmed down a bit , and had gotten home, Mr. Farley put the magic pebble in an iron safe "
    ". Some day they might want to use it , but really for now, what more could they wish for?": (
        " use it ,",
        " use X ,",
    ),
}
# RE2's \s and \S, which T5's templates used.
_SPACE, _NO_SPACE = r"[\t\n\f\r ]", r"[^\t\n\f\r ]"
FALSE_TRUE = ("False", "True")


def wsc_simple(row: RowValues) -> list[FormattedRow]:
    """Word a row for evaluation: the target is the candidate referent, right or wrong.

    The pronoun is replaced by an X, then every X between spaces becomes the marked pronoun. As in T5, this includes an
    X of the text itself (``Brand X and``).

    Raises:
      ValueError: The pronoun is the first word, is not at the row's index, or is outside the text.
    """
    blank = f" {_BLANK} "
    marked = _blanked(row).replace(blank, _as_replacement(f" *{row['span2_text']}* ", blank))
    return [
        {"inputs": f"wsc: {marked}", "targets": row["span1_text"], "label": row["label"], "idx": row["idx"]}
    ]


def wsc_simple_right_only(row: RowValues) -> list[FormattedRow]:
    """Word a row for training: as ``wsc_simple``, but rows with a wrong candidate are left out."""
    return wsc_simple(row) if row["label"] else []


def _as_replacement(text: str, replaced: str) -> str:
    r"""Apply RE2's rules for a replacement text, which T5's templates used: backslashes are not literal.

    Two backslashes become one, ``\0`` becomes the replaced text. A group's number leaves the replaced text unchanged,
    and any other backslash ends the replacement.
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


@config_class
class WscReferents:
    """Makes the columns of ``ReferentRanking`` from rows of WSC."""

    def __call__(self, row: RowValues) -> RowValues:
        """Return text, referent and label."""
        left, right = _around_pronoun(row)
        text = closed_up(f"{left} {BLANK} {right}")
        return {"text": text, "referent": row["span1_text"], "label": row["label"]}


def closed_up(text: str) -> str:
    """Return a text without spaces before its punctuation marks, which are tokens of their own in WSC."""
    return re.sub(r"\s+(?=[.,;:!?](?:\s|$))", "", text)


@config_class
class DprReferents:
    """Makes the columns of ``ReferentRanking(candidates="candidates")`` from rows of DPR."""

    def __call__(self, row: RowValues) -> RowValues:
        """Return text, referent, candidates and label.

        Raises:
          ValueError: The sentence has no such pronoun, or the label is not that of a candidate.
        """
        candidates, label, pronoun = row["candidates"], row["label"], row["pronoun"]
        if not candidates or not UNKNOWN <= label < len(candidates):
            raise ValueError(f"the label {label} names none of the {len(candidates)} candidates")
        text, count = re.subn(rf"(?<!\w){re.escape(pronoun)}(?!\w)", BLANK, row["sentence"], count=1)
        if not count:
            raise ValueError(f"the pronoun {pronoun!r} is not in {row['sentence']!r}")
        right = max(label, 0)
        return {
            "text": text,
            "referent": candidates[right],
            "candidates": [each for index, each in enumerate(candidates) if index != right],
            "label": label if label == UNKNOWN else 1,
        }


def _blanked(row: RowValues) -> str:
    # Followed by a space even as the last word, or it would stay an X.
    left, right = _around_pronoun(row)
    return f"{left} {_BLANK} {right}"


def _around_pronoun(row: RowValues) -> tuple[str, str]:
    text, index, pronoun = row["text"], row["span2_index"], row["span2_text"]
    words = text.split(" ")
    if index <= 0:
        raise ValueError(f"span2_index must be > 0, a word before the pronoun, not {index}")
    if index >= len(words):
        raise ValueError(f"span2_index {index} is outside the text's {len(words)} words")
    if text in _PLACED:
        left, right = text.replace(*_PLACED[text]).split(f" {_BLANK} ")
        return left, right
    if words[index] != pronoun:
        raise ValueError(f"the word at span2_index {index} is {words[index]!r}, not span2_text {pronoun!r}")
    return " ".join(words[:index]), " ".join(words[index + 1 :])


def wsc_marked_spans(row: RowValues) -> list[FormattedRow]:
    """Word both spans marked, with the target True or False: ``wsc text: * Tom * asked if # he # could``.

    As in T5, spans are searched as regular expressions after a number of words that are each followed by one space. A
    span that is not found stays unmarked.

    Raises:
      ValueError: A span is not a regular expression, or the label is outside the set.
    """
    first, second = row["span1_index"], row["span2_index"]
    text = _mark(row["text"], row["span1_text"], first, "*")
    # The marks of the first span count as words.
    text = _mark(text, row["span2_text"], second + 2 * (first < second), "#")
    return [{"inputs": f"wsc text: {text}", "targets": label_word(row, FALSE_TRUE), "idx": row["idx"]}]


def _mark(text: str, span: str, index: int, mark: str) -> str:
    try:
        pattern = re.compile(f"^((?:{_NO_SPACE}+{_SPACE}){{{index}}})({_as_replacement(span, 'W')})")
    except re.error as error:
        raise ValueError(f"the span {span!r} can't be looked for as a pattern: {error}") from None
    return pattern.sub(lambda match: f"{match[1]}{mark} {match[2]} {mark}", text, count=1)


def dpr_simple(row: RowValues) -> list[FormattedRow]:
    """Mark the first pronoun between a space and a space, full stop or comma; others stay unmarked.

    As T5 counts from the end, too, the label -1 means the last candidate; DPR has no rows without label.

    Raises:
      ValueError: The label is not that of a candidate.
    """
    candidates, label = row["candidates"], row["label"]
    is_unlabeled = label == -1 and not candidates
    if not is_unlabeled and not -len(candidates) <= label < len(candidates):
        raise ValueError(f"the label {label} names none of the {len(candidates)} candidates")
    try:
        marked = re.sub(f" ({row['pronoun']})( |\\.|,)", r" *\1*\2", row["sentence"], count=1)
    except re.error as error:
        raise ValueError(
            f"the pronoun {row['pronoun']!r} can't be looked for as a pattern: {error}"
        ) from None
    return [{"inputs": f"wsc: {marked}", "targets": UNLABELED if is_unlabeled else candidates[label]}]
