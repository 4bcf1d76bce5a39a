"""Predictions on disk as they are made, so that an interrupted evaluation can continue."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from t5x_like.evaluation.scores_file import PREDICTIONS, SCORES, Row
from t5x_like.io.files import as_path, read_json, read_jsonl, write_json, write_jsonl
from t5x_like.nested_values import json_number, parts_of

IDENTITY = "evaluation.json"


def check_results_directory(directory: str, identity: Mapping[str, object]) -> None:
    """Check that a directory is empty or holds results of the same evaluation.

    Args:
      directory: Output directory.
      identity: Checkpoint, tasks and settings that the results depend on.

    Raises:
      ValueError: It holds results of another checkpoint, task set or setting, or other files.
    """
    path = as_path(directory) / IDENTITY
    results = (SCORES, PREDICTIONS, f"*/{PREDICTIONS}")
    present = sorted(file.name for pattern in results for file in as_path(directory).glob(pattern))
    if present and not path.exists():
        raise ValueError(
            f"{directory} holds {present[0]} of an evaluation that this one can't continue; nothing was overwritten. "
            "Give another output_dir"
        )
    known = read_json(path) if path.exists() else {}
    differing = [name for name in {**known, **identity} if known.get(name) != identity.get(name)]
    if present and differing:
        listed = "; ".join(
            f"{name} {_shown(known.get(name))}, now {_shown(identity.get(name))}"
            for name in differing
            if name != "settings_hash"
        )
        raise ValueError(
            f"{directory} holds the results of another evaluation ({listed}); nothing was overwritten. Give another "
            "output_dir, or remove that folder"
        )


def claim_results_directory(directory: str, identity: Mapping[str, object]) -> None:
    """Record in a directory that it holds the results of this evaluation.

    Args:
      directory: Output directory.
      identity: Checkpoint, tasks and settings that the results depend on.

    Raises:
      ValueError: See ``check_results_directory``.
    """
    check_results_directory(directory, identity)
    if jax.process_index() == 0:
        write_json(as_path(directory) / IDENTITY, identity)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 80 else f"{text[:77]}…"


class PredictionLog:
    """Predictions for one task's inputs, including those of an interrupted evaluation.

    Attributes:
      path: The ``predictions.jsonl``.
      rows: Rows by number.
    """

    def __init__(self, directory: str, task: str, inputs: Mapping[int, str]):
        """Read the predictions that exist.

        Args:
          directory: Output directory of the evaluation.
          task: Name of the task.
          inputs: All inputs by row number; rows have them under "input" or "text".

        Raises:
          ValueError: The existing predictions belong to other inputs.
        """
        self.path = as_path(directory) / task / PREDICTIONS
        self._inputs = inputs
        self.rows: dict[int, Row] = {}
        if self.path.exists():
            self.rows = {row["number"]: row for row in read_jsonl(self.path)}
            self._check_same_inputs()
            if jax.process_index() == 0:
                write_jsonl(self.path, self.rows.values())  # drops an incomplete last line

    def add(self, rows: Iterable[Row]) -> int:
        """Append the predictions of a batch to the file; return how many of them are new."""
        new = [_to_json(row) for row in rows if row["number"] not in self.rows]
        self.rows |= {row["number"]: row for row in new}
        if jax.process_index() != 0 or not new:
            return len(new)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in new))
            file.flush()
            if "://" not in os.fspath(self.path):
                os.fsync(file.fileno())
        return len(new)

    def finish(self) -> list[Row]:
        """Write all predictions in the order of their inputs and return them.

        Raises:
          ValueError: An input has no prediction.
        """
        missing = [number for number in self._inputs if number not in self.rows]
        if missing:
            raise ValueError(
                f"{self.path}: {len(missing)} questions have no answer, the first is {missing[0]}"
            )
        rows = [self.rows[number] for number in self._inputs]
        if jax.process_index() == 0:
            write_jsonl(self.path, rows)
        return rows

    def _check_same_inputs(self) -> None:
        for number, row in self.rows.items():
            if self._inputs.get(number) != row.get("input", row.get("text")):
                raise ValueError(
                    f"{self.path} has an answer to question {number}, which is another one now: the data, or the "
                    "limit, have changed. Nothing was overwritten; give another output_dir"
                )


def replace_rows(directory: str, task: str, rows: Sequence[Row]) -> None:
    """Write all predictions of a task, replacing an existing file.

    Args:
      directory: Output directory of the evaluation.
      task: Name of the task.
      rows: Rows of ``predictions.jsonl``.
    """
    write_jsonl(as_path(directory) / task / PREDICTIONS, map(_to_json, rows))


def _to_json(value: Any) -> Any:
    """Convert a value to JSON's types; NaN and infinity become ``None``."""
    value = dict(value) if isinstance(value, Mapping) else value
    if (parts := parts_of(value)) is not None:
        items = {str(key): _to_json(part) for key, part in parts.items()}
        return items if parts is value else list(items.values())
    if hasattr(value, "tolist"):
        return _to_json(value.tolist())
    return value.decode("utf-8", "replace") if type(value) is bytes else json_number(value)
