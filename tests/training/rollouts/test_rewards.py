"""Rewards of answers: functions of users, and what they do wrong."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from t5x_like.training.rollouts.rewards import FunctionReward, summed_rewards

Texts = Sequence[str]


def lengths(prompts: Texts, answers: Texts, targets: Texts) -> list[float]:
    return [float(len(answer)) for answer in answers]


def is_right(prompts: Texts, answers: Texts, targets: Texts) -> list[float | None]:
    return [
        None if answer == "?" else float(answer == target)
        for answer, target in zip(answers, targets, strict=True)
    ]


def fails(prompts: Texts, answers: Texts, targets: Texts) -> list[float]:
    raise RuntimeError("the judge is away")


def hangs(prompts: Texts, answers: Texts, targets: Texts) -> list[float]:
    time.sleep(30)
    return []


def too_few(prompts: Texts, answers: Texts, targets: Texts) -> list[float]:
    return [1.0]


def words(prompts: Texts, answers: Texts, targets: Texts) -> list[str]:
    return ["good"] * len(answers)


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = ModuleType("rewards_of_a_user")
    vars(functions).update(
        {each.__name__: each for each in (lengths, is_right, fails, hangs, too_few, words)}
    )
    monkeypatch.setitem(sys.modules, functions.__name__, functions)


def rewards_of(*names: str, weight: float = 1.0, timeout_seconds: float = 60.0) -> np.ndarray:
    configs = [
        FunctionReward(function=f"rewards_of_a_user.{name}", weight=weight, timeout_seconds=timeout_seconds)
        for name in names
    ]
    rewards = [(config, config.open()) for config in configs]
    return summed_rewards(rewards, ["p"] * 3, ["a", "bb", "?"], ["a", "b", "c"])


def test_rewards_are_added_and_one_without_a_number_leaves_an_answer_out() -> None:
    np.testing.assert_array_equal(rewards_of("lengths", weight=2.0), [2.0, 4.0, 2.0])
    np.testing.assert_array_equal(rewards_of("lengths", "is_right"), [2.0, 2.0, np.nan])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "'rewards_of_a_user.fails' failed: RuntimeError: the judge is away"),
        ("hangs", "took longer than timeout_seconds=0.2"),
        ("too_few", "returned 1 numbers for 3 answers"),
        ("words", "must return a number for each answer; it returned"),
        ("absent", "can't be imported"),
        ("sys.version", "can't be imported"),
    ],
)
def test_a_function_that_is_no_reward_is_named(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rewards_of(name, timeout_seconds=0.2)


def test_a_path_is_no_module(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"give MODULE\.FUNCTION"):
        FunctionReward(function=str(tmp_path)).open()
