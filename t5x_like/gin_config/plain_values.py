"""Values of ``--set NAME=value``: plain text that is read by the type of what it sets."""

import typing
from collections.abc import Iterator, Sequence
from typing import Any

from t5x_like.gin_config.statements import PlainText, macro_of, macros_in, references_in
from t5x_like.gin_config.user_error import UserError, gin_text_flag, set_flag
from t5x_like.nested_values import parts_of
from t5x_like.value_types import MAPPINGS, SEQUENCES, conform, fits, union_members


def plain_value(plain: PlainText, annotations: Sequence[object], current: object) -> object:
    """Return the typed value of a plain text.

    Where text is accepted, text is taken as it is. Other types are written as in gin: numbers, ``True``, ``None``,
    ``(1, 2)``. A tuple of texts may also be written ``a,b``.

    Args:
      plain: The text, and gin's reading of it.
      annotations: Types of the parameters that take the value.
      current: The value so far, whose type counts where no annotation says more.

    Raises:
      TypeMismatchError: The text is of another type.
      UserError: The text is quoted, as gin's own syntax has it.
    """
    literal = plain.literal
    if isinstance(literal, str):
        raise UserError(
            "the quotes would be part of the text",
            where="command line",
            source=f"--set {plain.name}={plain.text}",
            hint=f"write {set_flag(plain.name, literal)}, or in gin's own syntax {gin_text_flag(plain.name, literal)}",
        )
    wanted = [annotation for annotation in annotations if annotation not in (Any, object)]
    if not wanted and isinstance(current, str):
        wanted = [str]
    refers = bool(references_in(literal) or macros_in(literal))
    if refers and not _fits(plain.text, wanted):
        return literal  # its type is checked when it has been built
    candidates = [*([literal] if plain.is_readable and not refers else []), plain.text]
    candidates.append(tuple(part.strip() for part in plain.text.split(",")))
    for candidate in candidates:
        if _fits(candidate, wanted):
            return candidate
    for annotation in wanted:
        conform(candidates[0], annotation)
    raise AssertionError(f"{candidates[0]!r} was refused before")


def nested_annotations(value: object, annotation: object, macro: str) -> Iterator[object]:
    """Yield the annotation of each place where a value refers to a macro.

    >>> files = {"train": MacroReference("TRAIN_FILES")}
    >>> list(nested_annotations(files, dict[str, str], "TRAIN_FILES"))
    [<class 'str'>]

    Args:
      value: A value as gin reads it, of any depth.
      annotation: Annotation of the whole value.
      macro: Name of the macro.
    """
    if macro_of(value) == macro:
        yield annotation
    parts = parts_of(value) or {}
    of_values = [typing.get_args(member)[1] for member in _members(annotation, MAPPINGS)] or [Any]
    for key, item in parts.items():
        for inner in of_values if parts is value else _item_annotations(annotation, key):
            yield from nested_annotations(item, inner, macro)


def _item_annotations(annotation: object, index: int) -> list[object]:
    """Return the annotations of item ``index`` in the tuples and sequences that ``annotation`` allows."""
    annotations = []
    for arguments in map(typing.get_args, _members(annotation, SEQUENCES)):
        is_fixed = len(arguments) > 1 and arguments[1] is not ...
        annotations += arguments[index : index + 1] if is_fixed else arguments[:1]
    return annotations or [Any]


def _members(annotation: object, origins: tuple[object, ...]) -> list[object]:
    return [member for member in union_members(annotation) if typing.get_origin(member) in origins]


def _fits(value: object, annotations: Sequence[object]) -> bool:
    return all(fits(value, annotation) for annotation in annotations)
