"""Values against annotations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, Protocol

import pytest
from bakery import Loaf, Oven, Pan

from t5x_like.gin_config.value_types import TypeMismatchError, conform, name_type


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
