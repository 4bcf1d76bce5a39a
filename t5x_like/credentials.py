"""Passwords in addresses, which must not reach run directories, logs and other services with the configuration."""

import re

from t5x_like.nested_values import leaves_of

_USER_AND_PASSWORD = re.compile(r"(?<=://)[^\s/?#@:'\"]+:[^\s/?#@'\"]+(?=@)")


def masked(text: str) -> str:
    """Return a text without the users and passwords of its addresses.

    >>> masked("--set TRACKING=https://me:secret@host")
    '--set TRACKING=https://***@host'
    """
    return _USER_AND_PASSWORD.sub("***", text)


def holds_password(value: object) -> bool:
    """Return whether a value of a configuration, or a text in it at any depth, is an address with a password."""
    texts = (leaf for leaf in leaves_of(value) if isinstance(leaf, str))
    return any(masked(text) != text and not re.search(r"\s", text) for text in texts)
