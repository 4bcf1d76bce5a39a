"""Values against annotations, in configuration classes, too."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Protocol

import numpy as np
import pytest

from t5x_like.config_class import ConfigTypeError, config_class
from t5x_like.value_types import TypeMismatchError, conform, name_type


@config_class
class Oven:
    degrees: float = 200.0


@config_class
class Pan:
    width: int


@dataclass(frozen=True)
class Seeds:
    """A dataclass that doesn't check itself."""

    kind: str
    grams: float = 5


@config_class
class Bun:
    seeds: tuple[Seeds, ...] = ()


@config_class
class Loaf:
    name: str
    grams: int = 500
    vessel: Oven | Pan = field(default_factory=Oven)
    shape: Literal["round", "long"] = "round"

    def __post_init__(self) -> None:
        if self.grams < 1:
            raise ValueError(f"grams is {self.grams}")


class Weighed(Protocol):
    grams: int

    def slice(self) -> int: ...


class Cake:
    grams = 5

    def slice(self) -> int:
        return 1


Metres = NewType("Metres", float)


@pytest.mark.parametrize(
    ("value", "annotation", "result"),
    [
        (3, float, 3.0),
        (np.int64(3), int, 3),
        (np.float64(0.5), float, 0.5),
        (Path("runs/x"), str, "runs/x"),
        ("a", Literal["a", "b"], "a"),
        (None, int | None, None),
        ([1, 2], tuple[int, ...], (1, 2)),
        ((1, 2), list[int], [1, 2]),
        ([("a", 1)], tuple[tuple[str, float], ...], (("a", 1.0),)),
        ({"a": 1}, Mapping[str, float], {"a": 1.0}),
        ((1,), Sequence[int], (1,)),
        (1, bool | int, 1),
        (True, bool | int, True),
        (2, Metres, 2.0),
        (2, Annotated[int, "why"], 2),
        (len, Callable[..., int], len),
        (Pan(width=1), Oven | Pan, Pan(width=1)),
        (object, Any, object),
        (Loaf, type[Loaf], Loaf),
        ((), tuple[int, ...], ()),
    ],
)
def test_a_fitting_value_comes_back_as_the_field_wants_it(value: Any, annotation: Any, result: Any) -> None:
    conformed = conform(value, annotation)
    assert conformed == result
    assert type(conformed) is type(result)


@pytest.mark.parametrize(
    ("value", "annotation", "message"),
    [
        (True, int, "needs an int, got True"),
        (True, float, "needs a float, got True"),
        (1, bool, "needs True or False, got 1"),
        (1.5, int, "needs an int, got 1.5"),
        ((1, 2), tuple[int, str], "item 1 needs text, got 2"),
        ((1,), tuple[int, str] | None, r"needs a tuple of 2: \(an int, text\) or None, got \(1,\)"),
        (None, str, "needs text, got None"),
        ("c", Literal["a", "b"], "needs 'a' or 'b', got 'c'"),
        (1, Literal[True, False], "needs True or False, got 1"),
        ("x", tuple[str, ...], "needs a tuple, each text, got 'x'"),
        ((1, 2, 3), tuple[int, int], "needs a tuple of 2: .*, got 3"),
        ([1, "x"], tuple[int, ...], "item 1 needs an int, got 'x'"),
        ("x", int | None, "needs an int or None, got 'x'"),
        (Oven(), Loaf | Pan, "needs a Loaf or a Pan, got Oven"),
        (Oven, Oven, "needs an Oven, got Oven itself"),
        (3, Weighed, "needs a Weighed, got 3"),
        (3, Callable[..., int], "needs a function or something callable, got 3"),
    ],
)
def test_a_misfit_says_what_is_needed_and_what_was_given(value: Any, annotation: Any, message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        conform(value, annotation)


def test_a_protocol_asks_for_its_members_not_for_its_name() -> None:
    cake = Cake()
    assert conform(cake, Weighed) is cake


def test_types_are_named_in_words() -> None:
    assert name_type(int | str | None) == "an int, text or None"
    assert name_type(tuple[int, str]) == "a tuple of 2: (an int, text)"


def test_a_configuration_class_refuses_what_does_not_fit_before_it_checks_ranges() -> None:
    with pytest.raises(ConfigTypeError, match=r"Loaf\.grams needs an int, got '5' \(text\); drop the quotes"):
        Loaf(name="rye", grams="5")
    with pytest.raises(ConfigTypeError, match=r"Loaf\.vessel needs an Oven or a Pan, got 3"):
        Loaf(name="rye", vessel=3)
    with pytest.raises(ConfigTypeError, match=r"Loaf\.shape needs .* did you mean 'round'\?"):
        replace(Loaf(name="rye"), shape="rond")
    with pytest.raises(ValueError, match="grams is 0"):
        Loaf(name="rye", grams=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'gram'"):
        Loaf(name="rye", gram=3)


def test_a_configuration_class_converts_what_fits() -> None:
    assert Oven(degrees=180) == Oven(degrees=180.0)
    assert type(Oven(degrees=180).degrees) is float
    assert Loaf(name="rye", vessel=Pan(width=3)).vessel.width == 3


def test_plain_dataclasses_in_a_configuration_are_checked() -> None:
    assert Bun(seeds=[Seeds("poppy", 3)]).seeds == (Seeds("poppy", 3),)
    with pytest.raises(ConfigTypeError, match=r"Bun\.seeds\.1\.kind needs text, got 3"):
        Bun(seeds=(Seeds("poppy"), Seeds(3)))
