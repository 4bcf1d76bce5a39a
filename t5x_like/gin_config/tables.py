"""Tables in gin files: a macro such as ``TASK`` chooses a row of values for other macros.

::

    TASK = %gin.REQUIRED
    TABLE = {
        'TASK': ('MIXTURE', 'TRAIN_STEPS', 'include'),
        'cola': ('glue_cola_v002', 801, None),
        'mnli': ('glue_mnli_v002', 36815, 'gin/runs/mnli_validation.gin'),
    }

The first row has the choosing macro and names of macros, or of parameters such as ``mesh.MeshConfig.fsdp``. The chosen
row gives its values in the table's place. A column ``include`` names a gin file to read before them, or several in a
tuple, or has None. A file may have several tables, and tables of different files don't replace each other.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from t5x_like.gin_config.statements import (
    REQUIRED,
    BindingStatement,
    GinStatements,
    GinTable,
    MacroReference,
    Origin,
    Statement,
)
from t5x_like.gin_config.user_error import UserError, nearest_or_all
from t5x_like.nested_values import one_or_several
from t5x_like.value_types import fits

TABLE = "TABLE"
_INCLUDE = "include"

Include = Callable[[str, tuple[Origin, ...]], None]


def is_table(statement: Statement) -> TypeGuard[BindingStatement]:
    """Return True for the statement ``TABLE = …``."""
    return isinstance(statement, BindingStatement) and statement[:3] == ("", TABLE, "")


def read_table(statement: BindingStatement) -> GinTable:
    """Return the table that a statement has.

    Raises:
      UserError: It is no dictionary of rows that are as long as the first.
    """
    value = statement.value
    if not fits(value, dict[str, tuple[Any, ...]]) or len(value) < 2:
        message = f"{TABLE} is no dictionary of two or more rows"
        hint = (
            f"write {TABLE} = {{'TASK': ('TRAIN_STEPS', 'BATCH_SIZE'), 'cola': (801, 32), 'rte': (233, 32)}}"
        )
        raise UserError(message, where=str(statement.origin), source=statement.origin.source, hint=hint)
    (key, columns), *rows = value.items()
    for name, row in rows:
        if len(row) != len(columns):
            raise UserError(
                f"the row {name!r} has {len(row)} values, and the first row names {len(columns)} columns",
                where=str(statement.origin),
                source=statement.origin.source,
            )
    return GinTable(key, columns, dict(rows), statement.origin)


def replace_tables(sources: GinStatements, overrides: Sequence[BindingStatement], include: Include) -> None:
    """Replace the tables in ``sources`` by the bindings of their rows.

    A table whose macro has no value yet asks for it: its columns refer to that macro.

    Args:
      sources: Statements of all files.
      overrides: Bindings of the command line, which choose before those of files.
      include: Reads a file into ``sources``, given the places that it is included from.

    Raises:
      UserError: A table has no such row, or can't be read.
    """
    chains: dict[Origin, tuple[Origin, ...]] = {}  # places that included the file of a table
    while (index := next(_tables(sources), None)) is not None:
        statement, file_index = sources.bindings.pop(index)
        table = read_table(statement)
        sources.keys.add(table.key)
        chosen = _chosen_row(table, [*(each for each, _ in sources.bindings), *overrides])
        end = len(sources.bindings)
        if chosen.is_open:
            sources.open_tables.append(table)
        values = dict(zip(table.columns, chosen.values, strict=True))
        files = values.pop(_INCLUDE, None)
        included_from = (*chains.get(statement.origin, ()), chosen.origin)
        for name in one_or_several(files):
            if fits(name, str):
                include(name, included_from)
        chains |= {each.origin: included_from for each, _ in sources.bindings[end:] if is_table(each)}
        for column, value in values.items():
            sources.bindings.append((_binding(column, value, chosen.origin), file_index))
        added = sources.bindings[end:]
        del sources.bindings[end:]
        sources.bindings[index:index] = added


class _Row(NamedTuple):
    values: tuple[Any, ...]
    origin: Origin
    is_open: bool = False


def _tables(sources: GinStatements) -> Iterator[int]:
    return (index for index, (statement, _) in enumerate(sources.bindings) if is_table(statement))


def _chosen_row(table: GinTable, statements: Sequence[BindingStatement]) -> _Row:
    values = {each.name: each for each in statements if not each.parameter and not each.scope}
    choice = values.get(table.key)
    if choice is None or choice.value is REQUIRED:
        return _Row((MacroReference(table.key),) * len(table.columns), table.origin, is_open=True)
    name = str(choice.value)
    if name not in table.rows:
        raise UserError(
            f"{table.key} is {name!r}, and the table in {table.origin} has no such row",
            where=str(choice.origin),
            source=choice.origin.source,
            hint=nearest_or_all(name, table.rows),
        )
    return _Row(table.rows[name], _origin_of_row(table, name))


def _origin_of_row(table: GinTable, name: str) -> Origin:
    """Return the line of a row; that of the table if the row doesn't begin a line."""
    file, first, _ = table.origin
    lines = Path(file).read_text(encoding="utf-8-sig").splitlines() if file else []
    for number, line in enumerate(lines[first:], start=first + 1):
        if line.strip().startswith((f"'{name}':", f'"{name}":')):
            return Origin(file, number, line)
    return table.origin


def _binding(column: str, value: object, origin: Origin) -> BindingStatement:
    scope, _, path = column.rpartition("/")
    name, _, parameter = path.rpartition(".")
    return BindingStatement(scope, name or path, parameter if name else "", value, origin)
