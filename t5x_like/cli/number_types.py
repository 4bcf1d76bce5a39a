"""Types of flags that are numbers: each refuses values that no verb can use."""

import argparse
import math


def positive(text: str) -> int:
    """Return a whole number of at least 1, such as a batch size."""
    return _whole(text, at_least=1)


def non_negative(text: str) -> int:
    """Return a whole number of at least 0, such as a step or a seed."""
    return _whole(text, at_least=0)


def port(text: str) -> int:
    """Return a port of this machine; 0 lets the system choose."""
    number = _whole(text, at_least=0)
    if number > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is no port; give 0 to {_LAST_PORT}")
    return number


def positive_number(text: str) -> float:
    """Return a finite number above 0, such as a learning rate."""
    number = _finite(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text} is too small; give a number above 0")
    return number


def non_negative_number(text: str) -> float:
    """Return a finite number of at least 0."""
    number = _finite(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is too small; give a number of at least 0")
    return number


def share(text: str) -> float:
    """Return a number above 0 and up to 1."""
    number = positive_number(text)
    if number > 1:
        raise argparse.ArgumentTypeError(f"{text} is too large; give a share of at most 1")
    return number


_LAST_PORT = 65_535


def _whole(text: str, *, at_least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < at_least:
        raise argparse.ArgumentTypeError(f"{text} is too small; give a whole number of at least {at_least}")
    return number


def _finite(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text} is not finite; give a finite number")
    return number
