"""Rewards of answers: functions of texts, reward models, and their sums."""

import importlib
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from t5x_like.config_class import changeable, config_class
from t5x_like.evaluation.checkpoint_predictor import checkpoint_predictor
from t5x_like.io.timed_calls import call_in_time
from t5x_like.pretrained.open_checkpoint import open_checkpoint

# Prompts, answers and the rows' own targets, all as texts; returns a number for each answer.
RewardFunction: TypeAlias = Callable[[Sequence[str], Sequence[str], Sequence[str]], Sequence[float]]


@runtime_checkable
class Reward(Protocol):
    """Configuration of a reward: a ``config_class``."""

    @property
    def name(self) -> str:
        """Name for messages."""
        ...

    @property
    def weight(self) -> float:
        """Factor in the sum of all rewards."""
        ...

    def open(self) -> RewardFunction:
        """Return the function that rewards answers.

        Raises:
          ValueError: It can't be opened.
        """
        ...


@config_class
class FunctionReward:
    """A Python function of texts: a rule, a check of the answer, or a call of a judge.

    >>> FunctionReward(function="my_rewards.is_right").name
    'my_rewards.is_right'

    Attributes:
      function: Module and name of a function ``(prompts, answers, targets) -> numbers``. All three are lists of texts,
        of which ``targets`` are the rows' own answers, empty for prompts alone. A number that is not-a-number leaves
        an answer out.
      weight: Factor in the sum of all rewards.
      timeout_seconds: Time that a call may take.
    """

    function: str
    weight: float = 1.0
    timeout_seconds: float = changeable(default=60.0)

    def __post_init__(self) -> None:
        if not self.timeout_seconds > 0:
            raise ValueError(f"timeout_seconds is {self.timeout_seconds}; give a positive number")

    @property
    def name(self) -> str:
        return self.function

    def open(self) -> RewardFunction:
        module, _, name = self.function.rpartition(".")
        advice = (
            "give MODULE.FUNCTION of a module that Python finds, such as one in this folder by module=MODULE"
        )
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(f"the reward {self.function!r} can't be imported ({error}); {advice}") from error
        if not inspect.isroutine(function):
            raise ValueError(f"the reward {self.function!r} is no function; {advice}")

        judge: RewardFunction = function

        def reward(prompts: Sequence[str], answers: Sequence[str], targets: Sequence[str]) -> Sequence[float]:
            what = f"the reward {self.function!r}"
            try:
                return call_in_time(lambda: judge(prompts, answers, targets), self.timeout_seconds)
            except TimeoutError as error:
                raise ValueError(
                    f"{what} took longer than timeout_seconds={self.timeout_seconds:g}; repair it, or give it more time"
                ) from error
            except (Exception, SystemExit) as error:
                raise ValueError(f"{what} failed: {type(error).__name__}: {error}") from error

        return reward


@config_class
class ModelReward:
    """A reward model reads the text of each prompt and answer.

    It may have another vocabulary than the trained model.

    Attributes:
      checkpoint: Run that ``RewardModel`` has trained, or a directory with a sequence classifier of one label.
      step: Step of a run; its newest if not given.
      weight: Factor in the sum of all rewards.
      batch_size: Answers that it reads at once.
    """

    checkpoint: str
    step: int | None = None
    weight: float = 1.0
    batch_size: int = changeable(default=16)

    @property
    def name(self) -> str:
        return self.checkpoint

    def open(self) -> RewardFunction:
        opened = open_checkpoint(self.checkpoint, step=self.step)
        message = (
            f"{self.checkpoint} is no reward model, which predicts a number for a prompt and an answer; give a run of "
            "RewardModel, or the export of one"
        )
        if opened.can_generate:
            raise ValueError(message)
        predictor = checkpoint_predictor(opened, num_texts=2, batch_size=self.batch_size)
        if predictor.has_probabilities:
            raise ValueError(message)
        columns = predictor.input_columns

        def reward(prompts: Sequence[str], answers: Sequence[str], targets: Sequence[str]) -> Sequence[float]:
            del targets
            rows = [
                predictor.read(dict(zip(columns, pair, strict=True)))
                for pair in zip(prompts, answers, strict=True)
            ]
            return [each.prediction for each in predictor.predict(rows)]

        return reward


def summed_rewards(
    rewards: Sequence[tuple[Reward, RewardFunction]],
    prompts: Sequence[str],
    answers: Sequence[str],
    targets: Sequence[str],
) -> np.ndarray:
    """Return the weighted sum of all rewards of each answer, float32 [B]; not-a-number where one of them is.

    Args:
      rewards: Rewards with their opened functions.
      prompts: Text of each answer's prompt.
      answers: Texts of the answers.
      targets: Text of each row's own target.

    Raises:
      ValueError: A reward fails, or returns something else than a number for each answer.
    """
    total = np.zeros(len(answers), np.float32)
    for reward, function in rewards:
        numbers = function(prompts, answers, targets)
        try:
            values = np.asarray([math.nan if each is None else each for each in numbers], np.float32)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the reward {reward.name!r} must return a number for each answer; it returned {numbers!r:.200}"
            ) from error
        if values.shape != total.shape:
            raise ValueError(
                f"the reward {reward.name!r} returned {values.size} numbers for {len(answers)} answers; it must return "
                "one for each"
            )
        total += reward.weight * np.where(np.isfinite(values), values, math.nan)
    return total
