"""Multiple-choice template in the style of T5's COPA: ``choice1: … choice2: …``."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from t5x_like.text.benchmarks.benchmark import FormattedRow, GoldenExample
from t5x_like.text.benchmarks.keyed_template import keyed_text, label_word
from t5x_like.text.metrics import accuracy
from t5x_like.text.postprocessing import string_label_to_class_id
from t5x_like.text.templates import RowValues


@dataclass(frozen=True, kw_only=True)
class ChoiceTemplate:
    """Prompt template ``swag sentence: … choice1: … choice2: …`` with targets like ``choice2``.

    Attributes:
      word: First word of the inputs.
      columns: Row columns by the names that the template writes.
      choices: Columns of the choices, or one column with a list of ``count`` choices.
      count: Number of choices.
    """

    word: str
    columns: Mapping[str, str]
    choices: tuple[str, ...] | str
    count: int

    @property
    def labels(self) -> tuple[str, ...]:
        """Possible targets."""
        return tuple(f"choice{choice}" for choice in range(1, self.count + 1))

    def __call__(self, row: RowValues) -> list[FormattedRow]:
        """Return the single example of a row.

        Raises:
          ValueError: The label is outside the set, or the number of choices differs.
        """
        choices = row[self.choices] if isinstance(self.choices, str) else [row[name] for name in self.choices]
        if choices and len(choices) != self.count:
            raise ValueError(f"{len(choices)} choices where {self.count} are expected: {list(choices)}")
        listed = dict(zip(self.labels, choices, strict=False))
        question = keyed_text(self.word, self.columns, row)
        inputs = " ".join([question, *(f"{name}: {choice}" for name, choice in listed.items())])
        return [{"inputs": inputs, "targets": label_word(row, self.labels)}]

    @property
    def scored(self) -> dict[str, Any]:
        """Fields of a ``Benchmark`` with this template: template, labels, postprocessing and metrics."""
        read = partial(string_label_to_class_id, label_classes=self.labels)
        return {"word": self, "labels": self.labels, "postprocess": read, "metrics": (accuracy,)}


def choice_example(row: RowValues, inputs: str, targets: str) -> GoldenExample:
    """Return a golden example for a row that becomes one example.

    Args:
      row: Raw row.
      inputs: Input text that the row should become.
      targets: Target text that it should become.
    """
    return GoldenExample(row, ({"inputs": inputs, "targets": targets},))
