"""Prompts: an input alone, or after solved examples from the training split (few-shot).

In-context learning as in Brown et al. 2020, §2, https://arxiv.org/abs/2005.14165. Examples are drawn at random for each
input. The draw depends only on the seed, the task and the input's row number.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from t5x_like.text.tasks.pairs import TextPair


@dataclass(frozen=True, kw_only=True)
class PromptStyle:
    """Template of a prompt.

    An encoder-decoder reads inputs as they are; a decoder needs a marker that starts the answer.

    Attributes:
      question: Template with ``{inputs}``.
      answer: Template with ``{targets}``.
      example_separator: Separator of two solved examples.
      answer_separator: Separator of an example's question and answer.
    """

    question: str = "{inputs}"
    answer: str = "{targets}"
    example_separator: str = "\n\n"
    answer_separator: str = " "

    def __post_init__(self) -> None:
        if "{inputs}" not in self.question or "{targets}" not in self.answer:
            raise ValueError(
                f"the prompt {self.question!r} must contain {{inputs}}, and the answer {self.answer!r} {{targets}}"
            )

    def format_question(self, inputs: str) -> str:
        """Return the question alone."""
        return self.question.replace("{inputs}", inputs)

    def format_example(self, inputs: str, targets: str) -> str:
        """Return a question with its answer.

        Args:
          inputs: Input text of the question.
          targets: Its answer.
        """
        return (
            self.format_question(inputs) + self.answer_separator + self.answer.replace("{targets}", targets)
        )


DECODER_STYLE = PromptStyle(question="{inputs}\nanswer:")


class Prompt(NamedTuple):
    """A question and the solved examples that may precede it, the nearest last."""

    examples: tuple[str, ...]
    question: str


@dataclass(frozen=True, kw_only=True)
class Prompter:
    """Maker of one task's prompts.

    Attributes:
      task: Name of the task, which the random draw depends on.
      style: Template.
      num_shots: Solved examples in a prompt.
      seed: Seed of the random draw.
      pool: Training rows to draw examples from.
    """

    task: str
    style: PromptStyle
    num_shots: int = 0
    seed: int = 0
    pool: Sequence[TextPair] = ()

    def __post_init__(self) -> None:
        if self.num_shots < 0:
            raise ValueError(f"num_shots is {self.num_shots}; give 0 or more")
        if self.num_shots > len(self.pool):
            raise ValueError(
                f"task {self.task!r}: {self.num_shots} examples are to be shown, its training split has "
                f"{len(self.pool)}"
            )

    def prompt(self, number: int, inputs: str) -> Prompt:
        """Make the prompt of an input.

        Training rows with the same inputs are never used as examples.

        Args:
          number: Number of the row, which decides on its examples.
          inputs: Input text.
        """
        examples = []
        for drawn in self._order(number):
            row = self.pool[drawn]
            if len(examples) == self.num_shots:
                break
            if row.inputs != inputs:
                examples.append(self.style.format_example(row.inputs, row.targets))
        return Prompt(tuple(examples), self.style.format_question(inputs))

    def _order(self, number: int) -> Sequence[int]:
        """Draw distinct row numbers for examples; more than needed, because some may repeat the input."""
        if not self.num_shots:
            return ()
        digest = hashlib.sha256(f"{self.seed}/{self.task}/{number}".encode()).digest()
        bits = np.random.Philox(key=int.from_bytes(digest[:16], "big"))
        size = np.uint64(len(self.pool))
        drawn: dict[int, None] = {}
        while len(drawn) < min(self.num_shots * 4 + 4, len(self.pool)):
            raw = bits.random_raw(self.num_shots * 4 + 4)
            drawn |= dict.fromkeys(((raw >> np.uint64(32)) * size >> np.uint64(32)).tolist())
        return list(drawn)

    def write(self, prompt: Prompt, num_examples: int | None = None) -> str:
        """Return the prompt's text.

        Args:
          prompt: The prompt.
          num_examples: Number of last examples to show; None for all.
        """
        count = len(prompt.examples) if num_examples is None else num_examples
        shown = prompt.examples[len(prompt.examples) - count :]
        return self.style.example_separator.join([*shown, prompt.question])
