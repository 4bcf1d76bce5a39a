"""Metrics of decaNLP's tasks whose answers have a structure (McCann et al. 2018, section 2), times 100.

They follow https://github.com/salesforce/decaNLP, metrics.py.
"""

import string
from collections.abc import Mapping, Sequence
from typing import Any

from t5x_like.text.metrics.classification import Scores, over_groups, require_as_many, require_pairs

UNANSWERABLE = "unanswerable"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_LEFT_OUT = {"the", "a", "an", "and", ""}


def relation_f1(targets: Sequence[str], predictions: Sequence[str]) -> Scores:
    """Compute QA-ZRE's F1 over the whole corpus (Levy et al. 2017, section 5, https://arxiv.org/abs/1706.04115).

    An answer is right if its set of words is that of the target; case, punctuation and articles don't count. Precision
    is over the answers that aren't "unanswerable", recall over the targets that aren't.

    Args:
      targets: Answers, or "unanswerable".
      predictions: Predicted answers, or "unanswerable".
    """
    require_as_many(targets, predictions)
    truths, guesses = (list(map(_words, texts)) for texts in (targets, predictions))
    none = {UNANSWERABLE}
    num_right = sum(truth == guess and truth != none for truth, guess in zip(truths, guesses, strict=True))
    num_predicted, wanted = (sum(words != none for words in each) for each in (guesses, truths))
    precision, recall = (
        num_right / num_predicted if num_predicted else 0.0,
        num_right / wanted if wanted else 0.0,
    )
    f1 = 2 * precision * recall / (precision + recall) if num_right else 0.0
    return {"f1": 100 * f1, "precision": 100 * precision, "recall": 100 * recall}


def _words(text: str) -> set[str]:
    return {word.translate(_NO_PUNCTUATION) for word in text.strip().lower().split()} - _LEFT_OUT


@over_groups
def joint_goal_em(targets: Sequence[Mapping[str, Any]], predictions: Sequence[Mapping[str, Any]]) -> Scores:
    """Compute how often a dialogue's whole state is right, and how often the change and the requests of a turn are.

    The state is what all changes up to a turn add up to. Changes are written ``food: thai, area: north; phone``: values
    of slots, then requested slots.

    Args:
      targets: Rows ``{"dialogue": number, "turn": number, "value": change}``.
      predictions: Rows ``{"value": change}``.
    """
    require_pairs(targets, predictions)
    pairs = sorted(
        zip(targets, predictions, strict=True), key=lambda pair: (pair[0]["dialogue"], pair[0]["turn"])
    )
    counts = dict.fromkeys(("joint_goal_em", "turn_goal_em", "turn_request_em"), 0)
    dialogue, truth, guess = None, dict[str, str](), dict[str, str]()
    for target, prediction in pairs:
        if target["dialogue"] != dialogue:
            dialogue, truth, guess = target["dialogue"], {}, {}
        (wanted, true_requests), (predicted, predicted_requests) = (
            _change(target["value"]),
            _change(prediction["value"]),
        )
        truth, guess = truth | wanted, guess | predicted
        counts["joint_goal_em"] += truth == guess
        counts["turn_goal_em"] += wanted == predicted
        counts["turn_request_em"] += true_requests == predicted_requests
    return {name: 100 * count / len(pairs) for name, count in counts.items()}


def _change(text: str) -> tuple[dict[str, str], list[str]]:
    """Return values by slot and requested slots; what can't be read is left out."""
    informed, _, requested = text.partition(";")
    pairs = [part.split(":") for part in informed.split(",")]
    values = {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}
    return values, [slot.strip() for slot in requested.split(",") if slot.strip()]


def logical_form_em(targets: Sequence[str], predictions: Sequence[str]) -> Scores:
    """Compute how often a query of WikiSQL's grammar has the logical form of its target (Zhong et al. 2017).

    The queries differ in form exactly if they differ in words, apart from case.

    Args:
      targets: Queries such as ``SELECT COUNT name FROM table WHERE age > 3``.
      predictions: Predicted queries.
    """
    require_pairs(targets, predictions)
    equal = [
        target.lower().split() == prediction.lower().split()
        for target, prediction in zip(targets, predictions, strict=True)
    ]
    return {"logical_form_em": 100 * sum(equal) / len(equal)}
