"""Accuracy of likelihoods that prefer one text to another: minimal pairs, and targets in two contexts."""

from collections.abc import Sequence

from t5x_like.text.metrics.classification import Scores, require_pairs


def preference_accuracy(targets: Sequence[Sequence[str]], scores: Sequence[float]) -> Scores:
    """Compute the share of comparisons in which the right text is likelier, over all and in each group.

    Equal likelihoods count as half, as for EWoK (Ivanova et al. 2024, https://arxiv.org/abs/2405.09605). A difference
    that is not a number counts as wrong.

    >>> preference_accuracy([["syntax"], ["syntax"], ["s-selection"]], [1.5, 0.0, -2.0])
    {'accuracy': 50.0, 'syntax_accuracy': 75.0, 's_selection_accuracy': 0.0}

    Args:
      targets: Names of the groups that each comparison belongs to; empty names are no groups.
      scores: Log-likelihood of the right text minus that of the other, in nats.

    Raises:
      ValueError: Different numbers of targets and scores, or none.
    """
    require_pairs(targets, scores)
    points: dict[tuple[int, str], list[float]] = {}
    for names, difference in zip(targets, scores, strict=True):
        point = 100.0 if difference > 0 else 50.0 if difference == 0 else 0.0
        groups = ((position, name) for position, name in enumerate(names, start=1) if name)
        for level in ((0, ""), *groups):
            points.setdefault(level, []).append(point)
    # All comparisons come first, then the first groups of each, such as fields, then the second ones.
    levels = sorted(points, key=lambda level: level[0])
    return {
        f"{name.replace('-', '_')}_accuracy".lstrip("_"): sum(points[position, name])
        / len(points[position, name])
        for position, name in levels
    }
