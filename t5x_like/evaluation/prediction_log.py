"""Answers on disk as they are given, so that an evaluation that was killed goes on where it was."""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from t5x_like.evaluation.scores_file import PREDICTIONS, SCORES, Row
from t5x_like.io.files import as_path, read_json, read_jsonl, write_json, write_jsonl

IDENTITY = "evaluation.json"


def refuse_others(directory: str, identity: Mapping[str, Any]) -> None:
    """Checks that results can go into ``directory``: into a new one, or after those of the same evaluation.

    Raises:
      ValueError: it holds another evaluation's results, of another checkpoint, task set or setting, or other files.
    """
    path = as_path(directory) / IDENTITY
    results = (SCORES, PREDICTIONS, f"*/{PREDICTIONS}")
    found = sorted(file.name for pattern in results for file in as_path(directory).glob(pattern))
    if found and not path.exists():
        raise ValueError(
            f"{directory} holds {found[0]} of an evaluation that this one can't go on with; nothing was overwritten. "
            "Give another --output_dir"
        )
    known = read_json(path) if path.exists() else {}
    differing = [name for name in {**known, **identity} if known.get(name) != identity.get(name)]
    if found and differing:
        listed = "; ".join(
            f"{name} {_shown(known.get(name))}, now {_shown(identity.get(name))}"
            for name in differing
            if name != "settings_hash"
        )
        raise ValueError(
            f"{directory} holds the results of another evaluation ({listed}); nothing was overwritten. Give another "
            "--output_dir, or remove that folder"
        )


def claim(directory: str, identity: Mapping[str, Any]) -> None:
    """Makes ``directory`` this evaluation's own, or goes on with it if it is already.

    Raises:
      ValueError: as ``refuse_others``.
    """
    refuse_others(directory, identity)
    if jax.process_index() == 0:
        write_json(as_path(directory) / IDENTITY, identity)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 80 else f"{text[:77]}…"


class PredictionLog:
    """The answers to one task's questions, of which some may have been given before."""

    def __init__(self, directory: str, task: str, asked: Mapping[int, str]):
        """Reads what there is. ``asked`` are all questions by their numbers, as rows have them under "input".

        Raises:
          ValueError: those are answers to other questions.
        """
        self.path = as_path(directory) / task / PREDICTIONS
        self._asked = asked
        self.rows: dict[int, Row] = {}
        if self.path.exists():
            self.rows = {row["number"]: row for row in read_jsonl(self.path)}
            self._refuse_others()
            if jax.process_index() == 0:
                write_jsonl(self.path, self.rows.values())  # without a line that was cut short

    def add(self, rows: Iterable[Row]) -> int:
        """Writes the answers of a batch, after those before it, and returns the number of new ones."""
        new = [_of_json(row) for row in rows if row["number"] not in self.rows]
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
        """All answers in the order of their questions, written so.

        Raises:
          ValueError: some question has none.
        """
        missing = [number for number in self._asked if number not in self.rows]
        if missing:
            raise ValueError(
                f"{self.path}: {len(missing)} questions have no answer, the first is {missing[0]}"
            )
        rows = [self.rows[number] for number in self._asked]
        if jax.process_index() == 0:
            write_jsonl(self.path, rows)
        return rows

    def _refuse_others(self) -> None:
        for number, row in self.rows.items():
            if self._asked.get(number) != row.get("input", row.get("text")):
                raise ValueError(
                    f"{self.path} has an answer to question {number}, which is another one now: the data, or the "
                    "limit, have changed. Nothing was overwritten; give another --output_dir"
                )


def replace_rows(directory: str, task: str, rows: Sequence[Row]) -> None:
    """Writes all answers to a task's questions at once, in place of any before."""
    write_jsonl(as_path(directory) / task / PREDICTIONS, map(_of_json, rows))


def _of_json(value: Any) -> Any:
    """As JSON can have it: no NaN, no NumPy."""
    if isinstance(value, Mapping):
        return {str(key): _of_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_of_json(item) for item in value]
    if hasattr(value, "tolist"):
        return _of_json(value.tolist())
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if isinstance(value, float) and not math.isfinite(value) else value
