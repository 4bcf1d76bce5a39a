"""A run's ``metrics.jsonl``, also where lines of it are damaged."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from t5x_like.io.files import PathLike, as_path
from t5x_like.value_types import fits

METRICS = "metrics.jsonl"


class MetricsLog(NamedTuple):
    """Logged lines of a run.

    Attributes:
      lines: Objects with a ``step``, a ``split`` and numbers, in order.
      num_damaged: Number of other lines, which were skipped.
    """

    lines: list[dict[str, Any]]
    num_damaged: int


def read_log(directory: PathLike) -> MetricsLog:
    """Read the log of a run; without a file it is empty. An incomplete last line is still being written: no damage."""
    path = as_path(directory) / METRICS
    *lines, last = path.read_bytes().split(b"\n") if path.exists() else [b""]
    read = [_line(line) for line in lines]
    whole = [line for line in [*read, _line(last)] if line is not None]
    return MetricsLog(whole, read.count(None))


def _line(text: bytes) -> dict[str, object] | None:
    try:
        line = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not fits(line, dict) or not fits(line.get("split"), str):
        return None
    if type(line.get("step")) is not int or not _is_number(line["step"]):
        return None
    return {name: value for name, value in line.items() if name == "split" or _is_number(value)}


def _is_number(value: object) -> bool:
    # Integers may have any length in JSON; no counter needs more than 63 bits.
    return type(value) is float or (type(value) is int and value.bit_length() < 64)


def held_out_scores(lines: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, float]]:
    """Return numbers of held-out data by step, under names such as ``task/metric`` and ``validation/mixture/loss``."""
    by_step: dict[int, dict[str, float]] = {}
    for line in lines:
        kind, _, name = line["split"].partition("/")
        prefix = {"evaluation": name, "validation": line["split"]}.get(kind)
        if prefix is None:
            continue
        values = {key: value for key, value in line.items() if key not in ("split", "step")}
        by_step.setdefault(line["step"], {}).update(
            {f"{prefix}/{key}": float(value) for key, value in values.items()}
        )
    return dict(sorted(by_step.items()))
