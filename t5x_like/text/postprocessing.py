"""Written answers as metrics want them, by the names that T5's users know (https://github.com/google-research/
text-to-text-transfer-transformer).

Each takes the text of an answer, ``example`` (the features that the task's preprocessing gave) and ``is_target``: True
for the true answer, whose other features may say more than its text does. Unreadable answers become -1, which no metric
counts as right.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Example = Mapping[str, Any]

# Words that say which one is meant, not what it is: an answer is no better or worse for them.
_DETERMINERS = frozenset(
    [
        "a",
        "an",
        "few",
        "her",
        "his",
        "each",
        "every",
        "many",
        "much",
        "my",
        "our",
        "some",
        "that",
        "the",
        "their",
        "these",
        "this",
        "those",
        "which",
        "whose",
        "your",
    ]
)
_MULTIRC_ANSWERS = ("False", "True")


def lower_text(text: str, **unused: Any) -> str:
    """Case never counts."""
    del unused
    return text.lower()


def string_to_float(text: str, default: float = -1.0, **unused: Any) -> float:
    """The number that a text is, or ``default``."""
    del unused
    try:
        return float(text)
    except ValueError:
        return default


def string_label_to_class_id(
    text: str, label_classes: Sequence[str], default: int = -1, **unused: Any
) -> int:
    """The number of a label, which must be written exactly, or ``default``."""
    del unused
    return label_classes.index(text) if text in label_classes else default


def multirc(text: str, example: Example | None = None, is_target: bool = False) -> dict[str, Any]:
    """``value`` 0 or 1 of one answer, and the question that groups it with others (``group``; of targets)."""
    found: dict[str, Any] = {"value": string_label_to_class_id(text, _MULTIRC_ANSWERS)}
    if is_target:
        found["group"] = _plain(_of(example, "idx/question"))
    return found


def record(text: str, example: Example | None = None, is_target: bool = False) -> dict[str, Any]:
    """``value`` is the written answer; of targets all that count as right, and the query (``group``)."""
    if not is_target:
        return {"value": text}
    group = tuple(_plain(_of(example, name)) for name in ("idx/passage", "idx/query"))
    return {"value": _texts(_of(example, "answers")), "group": group}


def qa(text: str, example: Example | None = None, is_target: bool = False) -> str | list[str]:
    """The written answer; of targets all that count as right."""
    return _texts(_of(example, "answers")) if is_target else text


def span_qa(text: str, example: Example | None = None, is_target: bool = False) -> str | dict[str, Any]:
    """``start: 3 end: 5`` as written; of targets the right answers, and the context that words are counted in."""
    if not is_target:
        return text
    return {"answers": _texts(_of(example, "answers")), "context": _texts([_of(example, "context")])[0]}


def wsc_simple(text: str, example: Example | None = None, is_target: bool = False) -> int:
    """1 if an answer names what the pronoun stands for, 0 if not, -1 if nothing is left of it; of targets the label.

    Determiners and case don't count, nor do words too many or too few, unless only one of both is a possessive
    (Raffel et al. 2020, §2.4: rows are trained on with the right referent as their target).
    """
    if is_target:
        return int(_of(example, "label"))
    referent = _content(_texts([_of(example, "targets_pretokenized")])[0])
    answer = _content(_texts([text])[0])
    if not answer:
        return -1
    if ("'" in answer) != ("'" in referent):
        return 0
    # Between two spaces is a word, too: an empty one, which counts as T5 counts it.
    answered, meant = set(answer.split(" ")), set(referent.split(" "))
    return int(answered <= meant or meant <= answered)


def rank_classification(
    score: float,
    example: Example | None = None,
    is_target: bool = False,
    passthrough_feature_keys: Sequence[str] | None = None,
) -> float | tuple[Any, ...]:
    """The score of an answer; of targets its index, whether it is right, how much it counts, and its tokens.

    Features named in ``passthrough_feature_keys`` come after these.
    """
    if not is_target:
        return score
    index, is_right, targets = (_of(example, name) for name in ("idx", "is_correct", "targets"))
    weight = example["weight"] if example and "weight" in example else 1.0
    others = (_of(example, name) for name in passthrough_feature_keys or ())
    return (tuple(index), is_right, weight, len(targets), *others)


def _content(text: str) -> str:
    return " ".join(word for word in text.strip().lower().split(" ") if word not in _DETERMINERS)


def _of(example: Example | None, name: str) -> Any:
    if example is None or name not in example:
        raise ValueError(f"the example of a target must have {name!r}, which its task's preprocessing gives")
    return example[name]


def _texts(values: Any) -> list[str]:
    return [value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in values]


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value
