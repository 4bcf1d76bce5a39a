"""The shipped conversations, and a rule that judges answers to them."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.on_policy.runs import Answers
from t5x_like.training.rollouts.rewards import RewardFunction

DATA = Path("data/conversations")
CATEGORIES = ("animal", "artifact", "food", "person", "place", "plant")
ONE_WORD = "Answer in one word."
_LONGEST = 80  # characters of a prompt, so that steps are short


def rule(prompt: str, answer: str, target: str) -> float:
    """Return 1 for one category in the form that was asked for, and 0.5 more for the right one, in any form.

    Args:
      prompt: Prompt with its system instruction.
      answer: Answer of a model.
      target: Right answer.
    """
    named = [word for word in re.findall(r"\w+", answer) if word in CATEGORIES]
    form = r"\w+" if prompt.startswith(ONE_WORD) else r"It is (an? )?\w+\."
    has_form = len(named) == 1 and bool(re.fullmatch(form, answer.strip()))
    return has_form + 0.5 * (named == re.findall(r"\w+", target)[-1:])


def read_rows(split: str) -> list[dict[str, str]]:
    """Return both questions of each conversation as prompts, and their answers, without long ones.

    Args:
      split: ``"train"`` or ``"validation"``.
    """
    rows = []
    for line in (DATA / f"{split}.jsonl").read_text(encoding="utf-8").splitlines():
        system, *turns = (each["content"] for each in json.loads(line)["messages"])
        for question, answer in zip(turns[::2], turns[1::2], strict=True):
            question = question.replace("And this:", "What is this:")
            rows.append({"prompt": f"{system} {question}", "answer": answer})
    return [row for row in rows if len(row["prompt"]) <= _LONGEST]


def in_other_form(row: Mapping[str, str]) -> dict[str, str]:
    """Return a row whose answer is a sentence where one word is asked for, and one word for a sentence.

    Args:
      row: Row of ``read_rows``.
    """
    word = re.findall(r"\w+", row["answer"])[-1]
    article = "an" if word[0] in "aeiou" else "a"
    sentence = word if word == "food" else f"{article} {word}"
    return {**row, "answer": f"It is {sentence}." if row["prompt"].startswith(ONE_WORD) else word}


class Scores:
    """Scores of sampled answers.

    Args:
      answers: Prompts and targets.
      written: Answers to each prompt.
      reward: Reward model.
    """

    def __init__(self, answers: Answers, written: Sequence[Sequence[str]], reward: RewardFunction) -> None:
        rows = [
            (prompt, text, target)
            for prompt, target, texts in zip(answers.prompts, answers.targets, written, strict=True)
            for text in texts
        ]
        self.texts = [text for _, text, _ in rows]
        self.rule = np.array([rule(*row) for row in rows])
        columns = ([row[0] for row in rows], self.texts, [row[2] for row in rows])
        self.proxy = np.array(reward(*columns))
        self.lengths = np.array([len(text) for text in self.texts])
        self.asks_for_word = np.array([prompt.startswith(ONE_WORD) for prompt, _, _ in rows])

    @property
    def summary(self) -> dict[str, float]:
        """Means, and how much of the rewards is explained by length among answers of which the same form is asked."""
        asks_for_word = self.asks_for_word
        return {
            "rule": round(float(self.rule.mean()), 3),
            "right_form": round(float(np.mean(self.rule >= 1)), 3),
            "right_category": round(float(np.mean(self.rule % 1 == 0.5)), 3),
            "reward_model": round(float(self.proxy.mean()), 3),
            "characters": round(float(self.lengths.mean()), 1),
            "characters_where_a_word_is_asked_for": round(float(self.lengths[asks_for_word].mean()), 1),
            "characters_where_a_sentence_is_asked_for": round(float(self.lengths[~asks_for_word].mean()), 1),
            "correlation_of_length_and_rule": correlation(*map(self._centered, (self.lengths, self.rule))),
            "correlation_of_length_and_reward_model": correlation(
                *map(self._centered, (self.lengths, self.proxy))
            ),
        }

    def _centered(self, values: np.ndarray) -> np.ndarray:
        """Return values less their mean among answers of which the same form is asked."""
        means = [values[self.asks_for_word == asks].mean() for asks in (False, True)]
        return values - np.array(means)[self.asks_for_word.astype(int)]


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Return Pearson's correlation of two arrays; 0 if one of them is constant."""
    if not (first.std() and second.std()):
        return 0.0
    return round(float(np.corrcoef(first, second)[0, 1]), 3)


def win_rate(first: np.ndarray, second: np.ndarray) -> float:
    """Return the share of prompts whose first answer is better, times 100; ties count half."""
    return round(float(100 * np.mean((first > second) + 0.5 * (first == second))), 1)
