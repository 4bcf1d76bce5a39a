"""Tasks of questions and answers in words, wherever their rows come from: what is common to them."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from t5x_like.text.metrics.by_name import MetricFunction
from t5x_like.text.tasks.file_task import FileTask


class Worded(NamedTuple):
    """One example as text, and the row it came from."""

    inputs: str
    targets: str
    row: Mapping[str, Any]
    place: str
    extras: Mapping[str, Any] = {}


@dataclass(frozen=True, kw_only=True)
class PairsTask(FileTask[Worded]):
    """Reads rows as pairs of inputs and targets, and scores answers to them."""

    @property
    @abstractmethod
    def answers(self) -> tuple[str, ...]:
        """Every answer there can be, for metrics and for ranking; empty where answers are open."""

    @property
    @abstractmethod
    def metric_functions(self) -> Sequence[MetricFunction]:
        """The metrics, from true and predicted answers to scores."""

    @abstractmethod
    def word_question(self, line: str) -> str:
        """A user's line as the question that the task would put to a model.

        Raises:
          ValueError: it lacks columns that the wording needs.
        """

    @abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """What decides its text, a line each, beside its files."""


def columns_needed(task: str, columns: Sequence[str], line: str) -> str:
    """What to tell a user whose line lacks columns."""
    example = json.dumps(dict.fromkeys(columns, "…"), ensure_ascii=False)
    return f"task {task!r} words {len(columns)} columns into its input; give each line as {example}, not {line!r}"
