"""Comparison of the settings from which a cache was made with those that are wanted."""

from collections.abc import Mapping


def _fingerprint_differences(stored: Mapping[str, object], requested: Mapping[str, object]) -> list[str]:
    """Return one line for each requested setting that differs from the stored one."""
    return [
        f"  {name}: the cache has {stored.get(name, 'nothing')}, you ask for {requested[name]}"
        for name in requested
        if stored.get(name) != requested[name]
    ]


def refuse_other(
    directory: str, stored: Mapping[str, object], requested: Mapping[str, object], *, what_to_do: str
) -> None:
    """Compare fingerprints.

    Args:
      directory: Folder of the cache, for the message.
      stored: Settings of the cache.
      requested: Settings to compare; others are ignored.
      what_to_do: End of the message.

    Raises:
      ValueError: Settings differ; the message lists them.
    """
    lines = _fingerprint_differences(stored, requested)
    if lines:
        shown = "\n".join(lines)
        raise ValueError(f"{directory} was made from something else:\n{shown}\n{what_to_do}")
