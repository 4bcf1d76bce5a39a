"""Settings that are ``"auto"``: the backend, which decides them, and a list of their values in programs."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax


class Choice(NamedTuple):
    """A setting that was "auto", and its value in a program.

    Attributes:
      setting: Its name.
      value: What was chosen.
      reason: Why.
    """

    setting: str
    value: object
    reason: str


_ANY_PLATFORM: ContextVar[bool] = ContextVar("any_platform", default=False)
_CHOICES: ContextVar[list[Choice] | None] = ContextVar("choices", default=None)


@contextmanager
def any_platform() -> Iterator[None]:
    """Trace programs that several platforms can run: no kernels of one of them are chosen."""
    token = _ANY_PLATFORM.set(True)
    try:
        yield
    finally:
        _ANY_PLATFORM.reset(token)


def platform() -> str:
    """Return the platform to compile for: that of the mesh's devices, which needn't be here, or ``"any"``."""
    if _ANY_PLATFORM.get():
        return "any"
    device = jax.sharding.get_abstract_mesh().abstract_device
    if device is not None:
        return device.platform
    default: Any = jax.config.values["jax_default_device"]
    return getattr(default, "platform", default) or jax.default_backend()


@contextmanager
def noted_choices() -> Iterator[list[Choice]]:
    """Collect the choices of programs that are traced inside.

    Yields:
      The choices, each once. The list fills while programs are traced; one that was compiled before adds nothing.
    """
    choices: list[Choice] = []
    token = _CHOICES.set(choices)
    try:
        yield choices
    finally:
        _CHOICES.reset(token)


def note_choice(setting: str, value: object, reason: str) -> None:
    """Add a choice to those that are collected, if any are.

    Args:
      setting: Name of the setting.
      value: What was chosen.
      reason: Why.
    """
    choices, choice = _CHOICES.get(), Choice(setting, value, reason)
    if choices is not None and choice not in choices:
        choices.append(choice)


def shown_choices(choices: Iterable[Choice]) -> str:
    """Return choices and their reasons as one line.

    Args:
      choices: What ``noted_choices`` collected.
    """
    return "chosen: " + ", ".join(f"{setting}={value!r} ({reason})" for setting, value, reason in choices)
