"""Parameter sets that run with the slow tests."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def slow_except(values: Iterable[Any], always: Container[Any]) -> list[Any]:
    """Return the parameter sets of one name; those that repeat a promise for another case are slow.

    Args:
      values: All values of the parameter.
      always: The values that run every time.
    """
    return [pytest.param(value, marks=() if value in always else pytest.mark.slow) for value in values]
