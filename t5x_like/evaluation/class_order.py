"""Which of a head's scores is of which of a task's classes: by name, for others' heads have orders of their own."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.pretrained.head_classes import order_by_name
from t5x_like.text.heads import HeadFormat


class ClassOrder(NamedTuple):
    """Where each class of a task stands among a head's scores, ``None`` where as in the task; and what to say of it."""

    places: tuple[int, ...] | None = None
    note: str = ""

    def applied(self, scores: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Scores [..., C] in the task's order."""
        return list(scores) if self.places is None else [row[..., list(self.places)] for row in scores]


def class_order(named: Sequence[str], head_format: HeadFormat, *, learned: str) -> ClassOrder:
    """How a head whose classes are ``named`` tells those of a task; without names, in the task's order.

    ``learned`` is the task that it was trained on here, if it was; then missing names need no word more.

    Raises:
      ValueError: the names are not those of the task's classes.
    """
    if not head_format.class_names:
        return ClassOrder()
    ours = ", ".join(head_format.class_names)
    if not named:
        said = f"the head's classes have no names, and were taken in the task's order: {ours}. "
        return ClassOrder(note="" if learned else said + "--classes names them if theirs is another")
    order = order_by_name(named, head_format.class_names)
    if order is None:
        raise ValueError(f"the head's classes {', '.join(named)} are not the task's: {ours}")
    if order == tuple(range(len(order))):
        return ClassOrder()
    return ClassOrder(
        order, f"the head's classes are in another order, and were told by name: {', '.join(named)}"
    )
