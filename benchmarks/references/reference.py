"""A recorded value and its comparison with ours."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ATOL = 1e-4  # of logits and hidden states


class DifferenceError(AssertionError):
    """Ours is another value than the reference; the message says where, in one line."""


class Reference(NamedTuple):
    """A recorded value.

    Attributes:
      form: Kind of the reference, such as "models".
      name: Name in messages, with its folder.
      compare: Raises ``DifferenceError`` where ours is another value.
    """

    form: str
    name: str
    compare: Callable[[], None]


def compare_all(references: Iterable[Reference]) -> int:
    """Compare references up to the first that differs, and return their number.

    Raises:
      DifferenceError: Ours is another value.
    """
    count = 0
    for reference in references:
        reference.compare()
        count += 1
    return count


def check_close(got: Any, wanted: Any, name: str, *, atol: float = ATOL, rtol: float = 1e-5) -> None:
    """Check that an array is close to the recorded one everywhere.

    Args:
      got: Our array.
      wanted: Recorded array.
      name: Name of the array, for the message.
      atol: Allowed difference.
      rtol: Allowed difference as a part of the recorded value, in addition.

    Raises:
      DifferenceError: It isn't, has another shape, or holds no numbers where the other does.
    """
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    if got.shape != wanted.shape:
        raise DifferenceError(f"{name} has shape {got.shape}, recorded is {wanted.shape}")
    is_same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):  # infinite values have no difference
        difference = np.abs(got - wanted)
        within = is_same | (np.isfinite(difference) & (difference <= atol + rtol * np.abs(wanted)))
    if not within.all():
        worst = np.unravel_index(
            np.argmax(np.where(within, -1.0, np.nan_to_num(difference, nan=np.inf))), got.shape
        )
        place = f" at {tuple(map(int, worst))}" if worst else ""
        raise DifferenceError(
            f"{name} is {got[worst]:.8g}{place}, recorded is {wanted[worst]:.8g}; {np.sum(~within):,} of {got.size:,} "
            f"differ by more than {atol:g}"
        )


def check_equal(got: Any, wanted: Any, name: str) -> None:
    """Check that a value is the recorded one.

    Raises:
      DifferenceError: It is another.
    """
    if got != wanted:
        raise DifferenceError(f"{name} is {_shown(got)}, recorded is {_shown(wanted)}")


def check_scores(got: dict[str, Any], wanted: dict[str, Any], name: str) -> None:
    """Check that scores have the recorded names and values; ``NaN`` equals ``NaN``.

    Raises:
      DifferenceError: They don't.
    """
    check_equal(sorted(got), sorted(wanted), f"names of {name}")
    for key, score in wanted.items():
        check_close(got[key], float(score), f"{name} {key}", atol=1e-9, rtol=1e-6)


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text("utf-8"))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read a file with a JSON object on each line."""
    return [json.loads(line) for line in path.read_text("utf-8").rstrip("\n").split("\n")]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}…"
