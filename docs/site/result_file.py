"""How the page of results shows one file of ``benchmarks/results``."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """How a results file is shown.

    Attributes:
      name: file name without its ending.
      title: heading.
      words: sentences above the table.
      rows: path to the object whose members are rows, such as ``("runs",)``; its members are objects.
      columns: heading -> path in a row's object.
      picture: name in ``docs/pictures``, without "_light.svg".
    """

    name: str
    title: str
    words: str
    rows: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    picture: str = ""
