"""Questions as a model is asked them: alone, or after solved examples from the training split (few-shot).

Examples in the prompt and nothing learned (Brown et al. 2020, §2, https://arxiv.org/abs/2005.14165): K are drawn at
random for each question, by the seed, the task and the question's place, whatever else is evaluated.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from t5x_like.text.tasks.pairs import TextPair


@dataclass(frozen=True, kw_only=True)
class PromptStyle:
    """The wording of a question, its answer and the examples before it; ``{inputs}`` and ``{targets}`` are filled in.

    An encoder-decoder reads questions as they are; a decoder needs a mark where its answer begins.
    """

    question: str = "{inputs}"
    answer: str = "{targets}"
    between: str = "\n\n"  # solved examples
    joint: str = " "  # between an example's question and its answer

    def __post_init__(self) -> None:
        if "{inputs}" not in self.question or "{targets}" not in self.answer:
            raise ValueError(
                f"the prompt {self.question!r} must contain {{inputs}}, and the answer {self.answer!r} {{targets}}"
            )

    def ask(self, inputs: str) -> str:
        """The question alone."""
        return self.question.replace("{inputs}", inputs)

    def solve(self, inputs: str, targets: str) -> str:
        """A question with its answer."""
        return self.ask(inputs) + self.joint + self.answer.replace("{targets}", targets)


DECODER_STYLE = PromptStyle(question="{inputs}\nanswer:")


class Prompt(NamedTuple):
    """A question and the solved examples that may stand before it, the nearest last."""

    examples: tuple[str, ...]
    question: str


@dataclass(frozen=True, kw_only=True)
class Prompter:
    """Makes the prompts of one task."""

    task: str
    style: PromptStyle
    num_shots: int = 0
    seed: int = 0
    pool: Sequence[TextPair] = ()  # to draw examples from

    def __post_init__(self) -> None:
        if self.num_shots < 0:
            raise ValueError(f"num_shots is {self.num_shots}; give 0 or more")
        if self.num_shots > len(self.pool):
            raise ValueError(
                f"task {self.task!r}: {self.num_shots} examples are to be shown, its training split has "
                f"{len(self.pool)}"
            )

    def prompt(self, number: int, inputs: str) -> Prompt:
        """The prompt of question ``number``. A training row that asks the same is never shown."""
        examples = []
        for drawn in self._order(number):
            row = self.pool[drawn]
            if len(examples) == self.num_shots:
                break
            if row.inputs != inputs:
                examples.append(self.style.solve(row.inputs, row.targets))
        return Prompt(tuple(examples), self.style.ask(inputs))

    def _order(self, number: int) -> Sequence[int]:
        """Numbers of rows to show, none twice; more than are needed, for some may not do."""
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
        """The prompt's text with its last ``num_examples`` examples, or all."""
        count = len(prompt.examples) if num_examples is None else num_examples
        shown = prompt.examples[len(prompt.examples) - count :]
        return self.style.between.join([*shown, prompt.question])
