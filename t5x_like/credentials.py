"""Passwords in addresses, which must not reach run directories, logs and other services with the configuration."""

import re
from typing import Any

_USER_AND_PASSWORD = re.compile(r"(?<=://)[^\s/?#@:'\"]+:[^\s/?#@'\"]+(?=@)")


def masked(text: str) -> str:
    """Return a text without the users and passwords of its addresses.

    >>> masked("--set TRACKING=https://me:secret@host")
    '--set TRACKING=https://***@host'
    """
    return _USER_AND_PASSWORD.sub("***", text)


def holds_password(value: Any) -> bool:
    """Return whether a value of a configuration, or a text in it at any depth, is an address with a password."""
    if isinstance(value, tuple | list):
        return any(map(holds_password, value))
    if isinstance(value, dict):
        return any(map(holds_password, value.values()))
    return isinstance(value, str) and not re.search(r"\s", value) and masked(value) != value
