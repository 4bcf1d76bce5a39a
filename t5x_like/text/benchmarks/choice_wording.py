"""Questions with several answers to choose from, worded as T5 words COPA: ``choice1: … choice2: …``."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from t5x_like.text.benchmarks.benchmark import GoldenExample, WordedRow
from t5x_like.text.benchmarks.keyed_wording import keyed_text, label_word
from t5x_like.text.metrics import accuracy
from t5x_like.text.postprocessing import string_label_to_class_id
from t5x_like.text.tasks.rows import RowValues


@dataclass(frozen=True, kw_only=True)
class ChoiceWording:
    """``swag sentence: … choice1: … choice2: …``, answered by ``choice2``.

    ``choices`` are columns, or one that holds a list with ``count`` of them.
    """

    word: str
    columns: Mapping[str, str]  # the name written, and the row's column
    choices: tuple[str, ...] | str
    count: int

    @property
    def labels(self) -> tuple[str, ...]:
        """What there is to answer."""
        return tuple(f"choice{number}" for number in range(1, self.count + 1))

    def __call__(self, row: RowValues) -> list[WordedRow]:
        """The one example of a row.

        Raises:
          ValueError: the label is outside the set, or there are more or fewer choices.
        """
        choices = row[self.choices] if isinstance(self.choices, str) else [row[name] for name in self.choices]
        if choices and len(choices) != self.count:
            raise ValueError(f"{len(choices)} choices where {self.count} are expected: {list(choices)}")
        listed = dict(zip(self.labels, choices, strict=False))
        asked = keyed_text(self.word, self.columns, row)
        inputs = " ".join([asked, *(f"{name}: {choice}" for name, choice in listed.items())])
        return [{"inputs": inputs, "targets": label_word(row, self.labels)}]

    @property
    def scored(self) -> dict[str, Any]:
        """The rest of such a benchmark: its labels, and how answers are read and scored."""
        read = partial(string_label_to_class_id, label_classes=self.labels)
        return {"word": self, "labels": self.labels, "postprocess": read, "metrics": (accuracy,)}


def chosen_example(row: RowValues, inputs: str, targets: str) -> GoldenExample:
    """A row that becomes one example."""
    return GoldenExample(row, ({"inputs": inputs, "targets": targets},))
