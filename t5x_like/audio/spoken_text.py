"""A recording with its text, the row of speech tasks."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class SpokenText(NamedTuple):
    """One row of a table of recordings.

    Attributes:
      audio: Path of the audio file.
      text: Words that are spoken; None in tables of recordings alone.
      seconds: Length of the recording.
      location: Source of the row (``file:line``).
      cells: All columns of the row.
    """

    audio: str
    text: str | None
    seconds: float
    location: str
    cells: Mapping[str, Any]
