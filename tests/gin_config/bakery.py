"""Small frozen dataclasses that the tests of the command line configure: real ones, in the style of ours."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

HEAD = "from __gin__ import dynamic_registration\nimport bakery\n"
PLAIN = HEAD + "bakery.Bakery.loaves = ()\nbakery.Bakery.street = 'Mill Lane'\nbakery.Bakery.days = 6\n"


@dataclass(frozen=True, kw_only=True)
class Oven:
    degrees: float = 200.0
    kind: Literal["stone", "steam"] = "stone"


@dataclass(frozen=True, kw_only=True)
class Pan:
    width: int


@dataclass(frozen=True, kw_only=True)
class Loaf:
    name: str
    grams: int = 500
    seeds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.grams < 1:
            raise ValueError(f"grams is {self.grams}; a loaf weighs at least 1")


def half(grams: int, share: float = 0.5) -> float:
    """A function to refer to."""
    return grams * share


@dataclass(frozen=True, kw_only=True)
class Bakery:
    loaves: tuple[Loaf, ...]
    street: str
    days: int
    vessel: Oven | Pan = field(default_factory=Oven)
    open_on_sunday: bool = False
    opening: tuple[int, int] | None = None
    prices: dict[str, float] = field(default_factory=dict)
    rule: Callable[..., float] = half


@dataclass(frozen=True, kw_only=True)
class Shop:
    oven: Oven | None = None


@dataclass(frozen=True, kw_only=True)
class Other:
    shop: Shop | None = None


def twice(word: str) -> str:
    """Another, to be called."""
    return word * 2
