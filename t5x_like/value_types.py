"""Type checks of configured values against a field's annotation, before anything is computed."""

import collections.abc
import difflib
import functools
import inspect
import numbers
import os
import re
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, Literal

_LITERAL = re.compile(r"[-+]?[\d._]+([eE][-+]?\d+)?|True|False")  # text that means a number, or yes or no
SEQUENCES = (tuple, list, collections.abc.Sequence, collections.abc.Iterable)
_NUMBERS = {float: numbers.Real, int: numbers.Integral}
MAPPINGS = (dict, collections.abc.Mapping)


class TypeMismatchError(Exception):
    """A value of the wrong type; the message continues the parameter's name."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)


def parameter_types(target: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a class's or function's parameters; empty if they can't be evaluated."""
    owner = target
    if inspect.isclass(target) and not hasattr(target, "__dataclass_fields__"):
        owner = target.__init__
    try:
        return typing.get_type_hints(owner)
    except (NameError, TypeError, AttributeError):
        return {}


def conform(value: object, annotation: Any) -> Any:
    """Convert ``value`` to the annotated type where that is safe (an int to float, a list to tuple, a path to text).

    Args:
      value: Value from a recipe or a record.
      annotation: Type to convert to, such as ``tuple[int, ...] | None``.

    Raises:
      TypeMismatchError: The value has another type.
    """
    annotation = _unwrap(annotation)
    if annotation in (Any, object, inspect.Parameter.empty) or isinstance(annotation, typing.TypeVar | str):
        return value
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return _conform_choice(value, annotation, arguments)
    if origin in (typing.Union, types.UnionType):
        return _conform_union(value, annotation, arguments)
    if origin in SEQUENCES or annotation in (tuple, list):
        return _conform_sequence(value, annotation, origin or annotation, arguments)
    if origin in MAPPINGS:
        return _conform_mapping(value, annotation, arguments)
    if annotation in _NUMBERS and isinstance(value, _NUMBERS[annotation]) and type(value) is not bool:
        return annotation(value)  # also NumPy's
    if annotation is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if not _is_a(value, annotation, origin):
        raise TypeMismatchError(
            f"needs {name_type(annotation)}, got {name_value(value)}", _hint(value, annotation)
        )
    return value


def fits(value: Any, annotation: Any) -> typing.TypeGuard[Any]:
    """Return whether a value, such as one that a file or a request has, is of a type; bools are no numbers.

    >>> fits(3, int), fits(True, int), fits(3, float), fits(["a", 5], list[str])
    (True, False, True, False)

    Args:
      value: Any value.
      annotation: Type as annotations have it, such as ``list[str]``.
    """
    try:
        conform(value, annotation)
    except TypeMismatchError:
        return False
    return True


def union_members(annotation: object) -> tuple[object, ...]:
    """Return the types of a union; of any other annotation itself.

    >>> union_members(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    annotation = _unwrap(annotation)
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return tuple(map(_unwrap, typing.get_args(annotation))) if is_union else (annotation,)


def name_type(annotation: object) -> str:
    """Return the annotation in words: ``an int``, ``'a' or 'b'``, ``a tuple of text``."""
    annotation = _unwrap(annotation)
    simple = {
        int: "an int",
        float: "a float",
        bool: "True or False",
        str: "text",
        None: "None",
        type(None): "None",
    }
    if annotation in simple:
        return simple[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return _either(repr(choice) for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return _either(name_type(argument) for argument in arguments)
    if origin is tuple and arguments[-1:] != (...,):
        return f"a tuple of {len(arguments)}: ({', '.join(name_type(argument) for argument in arguments)})"
    if origin in SEQUENCES and arguments:
        return f"a {'list' if origin is list else 'tuple'}, each {name_type(arguments[0])}"
    if origin in MAPPINGS and arguments:
        return f"a dict of {name_type(arguments[0])} to {name_type(arguments[1])}"
    if origin is collections.abc.Callable:
        return "a function or something callable"
    name = getattr(annotation, "__name__", str(annotation))
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def name_value(value: object) -> str:
    """Return the value and its type in words, cut to one line: ``'300' (text)``."""
    if maker := _maker(value):
        return f"{maker.__name__} itself, not a value it made"
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
    words = {str: "text", int: "an int", float: "a float", bool: "a bool", tuple: "a tuple", list: "a list"}
    return f"{shown} ({words[type(value)]})" if type(value) in words else shown


def _unwrap(annotation: Any) -> object:
    while True:
        if hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif typing.get_origin(annotation) is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return type(None) if annotation is None else annotation


def _is_a(value: object, annotation: object, origin: object) -> bool:
    if annotation in (int, float):
        return False  # numbers were taken before
    if origin is collections.abc.Callable or annotation is collections.abc.Callable:
        return callable(value)
    if origin is type:
        return inspect.isclass(value)
    target = origin or annotation
    if getattr(target, "_is_protocol", False):
        members = set(vars(target)) | set(vars(target).get("__annotations__", {}))
        wanted = {name for name in members if not name.startswith("_")} - {"_abc_impl"}
        return not inspect.isclass(value) and all(hasattr(value, name) for name in wanted)
    return not inspect.isclass(target) or isinstance(value, target)


def _conform_choice(value: object, annotation: object, choices: tuple[object, ...]) -> object:
    if any(type(value) is type(choice) and value == choice for choice in choices):
        return value
    words = [choice for choice in choices if isinstance(choice, str)]
    near = difflib.get_close_matches(str(value), words, n=1)
    hint = f"did you mean {near[0]!r}?" if near else ""
    raise TypeMismatchError(f"needs {name_type(annotation)}, got {name_value(value)}", hint)


def _conform_union(value: object, annotation: object, members: tuple[object, ...]) -> object:
    if any(type(value) is member for member in members):
        return value
    hints = []
    for member in members:
        try:
            return conform(value, member)
        except TypeMismatchError as mismatch:
            hints.append(mismatch.hint)
    raise TypeMismatchError(
        f"needs {name_type(annotation)}, got {name_value(value)}", next(filter(None, hints), "")
    )


def _conform_sequence(value: object, annotation: object, kind: object, members: tuple[object, ...]) -> object:
    if not isinstance(value, tuple | list):
        hint = "for a tuple of one write (…,), with the comma"
        raise TypeMismatchError(f"needs {name_type(annotation)}, got {name_value(value)}", hint)
    fixed = kind is tuple and members and members[-1] is not ...
    if fixed and len(members) != len(value):
        raise TypeMismatchError(f"needs {name_type(annotation)}, got {len(value)}: {name_value(value)}")
    member_types = members if fixed else (members[:1] or (Any,)) * len(value)
    items = []
    for index, (item, member) in enumerate(zip(value, member_types, strict=True)):
        try:
            items.append(conform(item, member))
        except TypeMismatchError as mismatch:
            raise TypeMismatchError(f"item {index} {mismatch}", mismatch.hint) from mismatch
    return list(items) if kind is list else tuple(items)


def _conform_mapping(value: object, annotation: object, members: tuple[object, ...]) -> object:
    if not isinstance(value, collections.abc.Mapping):
        raise TypeMismatchError(
            f"needs {name_type(annotation)}, got {name_value(value)}", "write {'key': value}"
        )
    if not isinstance(value, dict):
        return value  # such as files that are looked up when they are needed
    key_type, value_type = members or (Any, Any)
    items = {}
    for key, item in value.items():
        try:
            items[conform(key, key_type)] = conform(item, value_type)
        except TypeMismatchError as mismatch:
            raise TypeMismatchError(f"entry {key!r} {mismatch}", mismatch.hint) from mismatch
    return items


def _hint(value: object, annotation: object) -> str:
    if annotation in (int, float, bool) and isinstance(value, str) and _LITERAL.fullmatch(value):
        return "drop the quotes"
    if annotation is int and isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    maker = _maker(value)
    return f"call it: {maker.__name__}(), in gin @{maker.__name__}()" if maker else ""


def _maker(value: Any) -> Any:
    """Return the class or function that a value is; ``None`` for other values."""
    maker = value.func if isinstance(value, functools.partial) else value
    return maker if inspect.isclass(maker) or inspect.isroutine(maker) else None


def _either(words: Iterable[str]) -> str:
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} or {last}" if first else last
