"""Patterns of weights' paths, such as ``"heads/*"`` or ``"encoder/layers[-2:]/*"``.

Weights of equal layers are stacked: ``encoder/layers/0/feed_forward/up/kernel`` has one row for each layer of slot 0. A
pattern without brackets selects whole weights. Brackets after ``layers`` select layers of the whole stack by number,
from 0 on; the path after the brackets then has no slot.
"""

import difflib
import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence

# Modules whose name was another one in earlier versions, as checkpoints, records and users' patterns have it.
_EARLIER = {"heads/lm_head": "heads/words", "generator_heads/lm_head": "generator_heads/words"}
_PRESENT = {earlier: present for present, earlier in _EARLIER.items()}

# Whether each weight is selected, by path; for only some rows of a stacked weight, a bool for each.
Selection = Mapping[str, bool | tuple[bool, ...]]

_LAYERS = "layers"
_NUMBERED = re.compile(rf"(?P<folder>.*{_LAYERS})\[(?P<numbers>-?\d+|(?:-?\d+)?:(?:-?\d+)?)\](?P<rest>/.*)")
_STACKED = re.compile(rf"(?P<folder>(?:.*/)?{_LAYERS})/(?:(?P<slot>\d+)/)?(?P<rest>.*)")
# Recurrent layers may differ in size: they aren't stacked, and each slot is one layer.
_RECURRENT = re.compile(rf"(?:.*/)?{_LAYERS}/\d+/(?:forward|backward)/.*")


def earlier_path(path: str) -> str:
    """Return the path that a weight or module had in earlier versions.

    >>> earlier_path("params/heads/lm_head/bias")
    'params/heads/words/bias'
    """
    return _with_modules(path, _EARLIER)


def present_path(path: str) -> str:
    """Return the path that a weight or module of an earlier version has now."""
    return _with_modules(path, _PRESENT)


def _with_modules(path: str, names: Mapping[str, str]) -> str:
    path = f"/{path}/"
    for before, after in names.items():
        path = path.replace(f"/{before}/", f"/{after}/")
    return path[1:-1]


def matches(path: str, pattern: str) -> bool:
    """Return whether a pattern of ``fnmatch`` matches a path, or the one that it had in earlier versions.

    Args:
      path: Path of a weight.
      pattern: Pattern such as ``*/lora/*``.
    """
    return any(fnmatch.fnmatchcase(name, pattern) for name in (path, earlier_path(path)))


def rows_of(path: str, shape: Sequence[int]) -> int:
    """Return the number of layers that a weight belongs to: its rows if it is stacked, and 0 outside layers.

    >>> rows_of("encoder/layers/0/up/kernel", (6, 8, 32)), rows_of("rnn/layers/2/forward/input/kernel", (8, 32))
    (6, 1)

    Args:
      path: Path of the weight, with slashes.
      shape: Shape of the weight.
    """
    if _RECURRENT.fullmatch(path):
        return 1
    return shape[0] if _STACKED.fullmatch(path) else 0


def stack_of(path: str) -> str:
    """Return the folder of a stacked weight's stack, such as ``"encoder/layers"``; empty for other weights."""
    match = _STACKED.fullmatch(path)
    return match["folder"] if match else ""


def select(patterns: Sequence[str], num_rows: Mapping[str, int], *, option: str) -> Selection:
    """Return the selection of weights that any of ``patterns`` matches.

    >>> rows = {"encoder/layers/0/up/kernel": 3, "heads/bias": 0}
    >>> select(("encoder/layers[-2:]/*",), rows, option="trainable")
    {'encoder/layers/0/up/kernel': (False, True, True), 'heads/bias': False}

    Args:
      patterns: Patterns of ``fnmatch`` for whole paths, in which ``*`` also matches slashes. ``layers[3]``,
        ``layers[-2:]`` and other slices select layers; numbers beyond the last layer are ignored, as in Python.
      num_rows: ``rows_of`` each weight by path.
      option: Name of the option that has the patterns, for messages.

    Raises:
      ValueError: A pattern matches nothing; names the nearest paths.
    """
    numbers = layer_numbers(num_rows)
    matches = [_match(pattern, num_rows, numbers) for pattern in patterns]
    for pattern, matched in zip(patterns, matches, strict=True):
        if not any(any(rows) for rows in matched.values()):
            raise ValueError(
                f"{option}={pattern!r} matches no weight of this model; {_hint(pattern, num_rows)}"
            )
    return {
        path: _plain([any(row) for row in zip(*(matched[path] for matched in matches), strict=True)])
        if matches
        else False
        for path in num_rows
    }


def layer_numbers(num_rows: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the layer numbers of each stacked weight's rows.

    Slots of one row lead the stack; the others repeat, one row of each in turn (``model.layers.layer_pattern``).
    Groups of layers that share weights count as layers.

    Args:
      num_rows: ``rows_of`` each weight by path.
    """
    slots: dict[str, dict[int, int]] = {}
    for path, rows in num_rows.items():
        if rows and (match := _STACKED.fullmatch(path)):
            stack = slots.setdefault(match["folder"], {})
            slot = int(match["slot"] or 0)
            stack[slot] = max(rows, stack.get(slot, 0))
    numbers: dict[tuple[str, int], list[int]] = {}
    for folder, stack in slots.items():
        repeats = max(stack.values())
        leading = [slot for slot in sorted(stack) if stack[slot] < repeats]
        repeated = [slot for slot in sorted(stack) if stack[slot] == repeats]
        for index, slot in enumerate(leading):
            numbers[folder, slot] = [index]
        for place, slot in enumerate(repeated):
            numbers[folder, slot] = [len(leading) + turn * len(repeated) + place for turn in range(repeats)]
    return {
        path: tuple(numbers[match["folder"], int(match["slot"] or 0)][:rows])
        for path, rows in num_rows.items()
        if rows and (match := _STACKED.fullmatch(path))
    }


def num_layers(numbers: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return the number of layers of each stack, from ``layer_numbers``."""
    totals: dict[str, int] = {}
    for path, rows in numbers.items():
        totals[stack_of(path)] = max(totals.get(stack_of(path), 0), *(row + 1 for row in rows))
    return totals


def invert(selection: Selection) -> Selection:
    """Return the selection of all weights and rows that ``selection`` leaves out."""
    return {path: _plain([not row for row in _spread(rows, 1)]) for path, rows in selection.items()}


def partial(selection: Selection) -> dict[str, tuple[bool, ...]]:
    """Return the rows of the weights of which only some rows are selected."""
    return {path: rows for path, rows in selection.items() if not isinstance(rows, bool)}


def combine(left: Selection, right: Selection, *, keep: str = "both") -> Selection:
    """Return what both selections of the same weights have, or with ``keep="any"`` what one of them has.

    Args:
      left: Selection of weights.
      right: Another selection of the same weights.
      keep: "both" for weights in both selections, "any" for those in either.
    """
    rule = all if keep == "both" else any
    return {path: _plain([rule(pair) for pair in _pairs(rows, right[path])]) for path, rows in left.items()}


def within(selection: Selection, held: Selection) -> Selection:
    """Return a selection for a tree that holds a part of the weights only; its rows are counted within that part.

    Args:
      selection: Selection of all weights.
      held: Weights and rows in the tree.
    """
    kept = {
        path: [chosen for chosen, is_held in _pairs(selection[path], rows) if is_held]
        for path, rows in held.items()
    }
    return {path: _plain(rows) for path, rows in kept.items() if rows}


def _match(
    pattern: str, num_rows: Mapping[str, int], numbers: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[bool, ...]]:
    """Return for each path whether each of its rows matches; one bool for a weight outside layers."""
    numbered = _NUMBERED.fullmatch(pattern)
    if numbered is None:
        return {path: (matches(path, pattern),) * max(rows, 1) for path, rows in num_rows.items()}
    totals, matched = num_layers(numbers), {}
    for path, rows in num_rows.items():
        matched[path] = (False,) * max(rows, 1)
        parts = _STACKED.fullmatch(path)
        if (
            parts is None
            or path not in numbers
            or not fnmatch.fnmatchcase(parts["folder"], numbered["folder"])
        ):
            continue
        if fnmatch.fnmatchcase(f"/{parts['rest']}", numbered["rest"]):
            chosen = _chosen(numbered["numbers"], totals[parts["folder"]])
            matched[path] = tuple(row in chosen for row in numbers[path])
    return matched


def _chosen(numbers: str, total: int) -> range:
    """Return the layers that the text in brackets selects of ``total``."""
    start, colon, stop = numbers.partition(":")
    if not colon:
        row = int(start) + (total if int(start) < 0 else 0)
        return range(row, row + 1)
    return range(total)[int(start) if start else None : int(stop) if stop else None]


def _hint(pattern: str, num_rows: Mapping[str, int]) -> str:
    """Return what to write in place of a pattern that matches nothing."""
    numbered = _NUMBERED.fullmatch(pattern)
    if numbered is None:
        parts = sorted({"/".join(path.split("/")[:2]) for path in num_rows})
        return (
            f"the nearest are {_nearest(pattern, num_rows)}; patterns such as 'heads/*' are matched with whole paths, "
            f"which begin with {', '.join(parts)}"
        )
    numbers = layer_numbers(num_rows)
    if any(
        any(rows) for rows in _match(f"{numbered['folder']}[:]{numbered['rest']}", num_rows, numbers).values()
    ):
        stacks = [f"{folder} has {total}" for folder, total in num_layers(numbers).items()]
        return f"layers are counted from 0, and {', '.join(stacks)}"
    plain = dict.fromkeys(re.sub(rf"({_LAYERS})/\d+/", r"\1/", path) for path in num_rows)
    nearest = _nearest(numbered["folder"] + numbered["rest"], plain)
    return f"paths in numbered layers have no slot; the nearest are {nearest}, with [...] after 'layers'"


def _nearest(pattern: str, paths: Mapping[str, object]) -> str:
    folders = {
        "/".join(path.split("/")[:depth]) + "/*" for path in paths for depth in range(1, path.count("/") + 1)
    }
    return ", ".join(difflib.get_close_matches(pattern, [*sorted(folders), *paths], n=3, cutoff=0.0))


def _pairs(left: bool | tuple[bool, ...], right: bool | tuple[bool, ...]) -> Iterator[tuple[bool, bool]]:
    size = max(len(_spread(left, 1)), len(_spread(right, 1)))
    return zip(_spread(left, size), _spread(right, size), strict=True)


def _spread(rows: bool | tuple[bool, ...], size: int) -> tuple[bool, ...]:
    return (rows,) * size if isinstance(rows, bool) else rows


def _plain(rows: Sequence[bool]) -> bool | tuple[bool, ...]:
    """Return a single bool for rows that agree."""
    return rows[0] if len(set(rows)) == 1 else tuple(rows)
