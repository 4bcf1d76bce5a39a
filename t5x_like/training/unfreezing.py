"""Gradual unfreezing: groups of layers begin to train one after the other, from the top."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import optax
from jaxtyping import PyTree

from t5x_like import weight_patterns
from t5x_like.config_class import config_class
from t5x_like.model import parameters
from t5x_like.optimizers.optimizers import Optimizer, OptimizerConfig
from t5x_like.optimizers.schedule_free import ScheduleFreeTransformation, gradient_weights
from t5x_like.optimizers.schedules import Shifted, as_schedule
from t5x_like.weight_patterns import Selection

# Tables of positions that all layers of a stack use, from the first on.
_TABLES = re.compile(r"[^/]+/(relative|global)_bias/.*")


@config_class
class GradualUnfreezing:
    """Steps or epochs at which groups of weights begin to train, and stay trained (Howard and Ruder 2018, §3.3).

    The first group trains from step 0. Without ``groups`` it has the heads. Then one layer thaws at a time from the
    top, in both stacks of an encoder-decoder together, and last the embeddings. T5's variant (Raffel et al. 2020,
    §3.5.1) trains embeddings and the last layers from the beginning:
    ``throughout=("embedding/*", "*/final_norm/*", "*/layers[-1]/*")``.

    A weight that has not thawed costs no gradient and keeps its optimizer statistics. Averages of Adam and
    Adafactor begin when it thaws, while the learning rate follows the run's steps.

    Attributes:
      every_steps: Steps from one group to the next.
      every_epochs: Epochs of the training data from one group to the next, instead of ``every_steps``; 1 in the paper.
      at_steps: Step at which each group but the first thaws, instead of both.
      throughout: Patterns of weights that train from step 0 with the first group.
      groups: Patterns of each group's weights, in the order in which they thaw; a weight belongs to the first that
        matches it.
    """

    every_steps: int | None = None
    every_epochs: float | None = None
    at_steps: tuple[int, ...] = ()
    throughout: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if [self.every_steps is None, self.every_epochs is None, not self.at_steps].count(False) != 1:
            raise ValueError(
                f"every_steps is {self.every_steps}, every_epochs is {self.every_epochs} and at_steps is "
                f"{self.at_steps}; give one of them, such as every_steps=1000, every_epochs=1 or at_steps=(1000, 2000)"
            )
        if self.every_steps is not None and self.every_steps < 1:
            raise ValueError(f"every_steps is {self.every_steps}; give at least 1 step")
        if self.every_epochs is not None and self.every_epochs <= 0:
            raise ValueError(f"every_epochs is {self.every_epochs}; give a positive number, such as 1")
        if any(later <= earlier for earlier, later in zip((0, *self.at_steps), self.at_steps, strict=False)):
            raise ValueError(
                f"at_steps is {self.at_steps}; give growing numbers of steps, the first at least 1"
            )

    def in_steps(self, steps_per_epoch: Callable[[], float]) -> "GradualUnfreezing":
        """Return the same unfreezing by steps.

        Args:
          steps_per_epoch: Called to count the steps of an epoch, if these are needed.

        Raises:
          ValueError: An epoch of this data has no known number of steps.
        """
        if self.every_epochs is None:
            return self
        try:
            steps = round(self.every_epochs * steps_per_epoch())
        except ValueError as error:
            raise ValueError(f"unfreezing: every_epochs={self.every_epochs:g}, but {error}") from None
        return replace(self, every_epochs=None, every_steps=max(steps, 1))

    def stages(
        self, shapes: parameters.Parameters, trained: Selection, total_steps: int
    ) -> tuple["UnfreezingStage", ...]:
        """Return the stages of a run.

        Args:
          shapes: Shapes of the model's whole weights.
          trained: Weights that the run trains.
          total_steps: Last step of the run.

        Raises:
          ValueError: A pattern that matches nothing, weights in no group, another number of steps than groups, or
            stages past the last step.
        """
        groups = self._groups(shapes, trained)
        starts = self._starts(len(groups))
        if starts[-1] >= total_steps:
            late = ", ".join(str(start) for start in starts if start >= total_steps)
            raise ValueError(
                f"unfreezing: groups of weights thaw at step {late}, but the run ends at step {total_steps}; all "
                f"{len(groups)} groups must thaw before, so let them thaw sooner, or train for longer"
            )
        thawed = accumulate(groups, lambda left, right: weight_patterns.combine(left, right, keep="any"))
        return tuple(map(UnfreezingStage, starts, groups, thawed))

    def _starts(self, num_groups: int) -> tuple[int, ...]:
        if self.every_steps is not None:
            return tuple(range(0, num_groups * self.every_steps, self.every_steps))
        if len(self.at_steps) != num_groups - 1:
            raise ValueError(
                f"unfreezing: at_steps has {len(self.at_steps)} steps, and there are {num_groups} groups of weights; "
                f"give {num_groups - 1} steps, one for each but the first"
            )
        return (0, *self.at_steps)

    def _groups(self, shapes: parameters.Parameters, trained: Selection) -> list[Selection]:
        """Return the trained weights of each group; groups without any are left out."""
        if self.groups:
            named = [parameters.select(shapes, group, option="unfreezing.groups") for group in self.groups]
        else:
            named = _from_the_top(parameters.num_rows(shapes))
        if self.throughout:
            first = parameters.select(shapes, self.throughout, option="unfreezing.throughout")
            named[0] = weight_patterns.combine(first, named[0], keep="any")
        left, groups = trained, []
        for group in named:
            groups.append(weight_patterns.combine(group, left))
            left = weight_patterns.combine(left, weight_patterns.invert(group))
        forgotten = [path for path, rows in left.items() if rows]
        if forgotten:
            raise ValueError(
                f"unfreezing.groups has no pattern for {forgotten[0]} and {len(forgotten) - 1} more trained weights; "
                "add them to a group, or leave them out of trainable"
            )
        return [group for group in groups if any(group.values())]


class UnfreezingStage(NamedTuple):
    """The part of a run between two thaws.

    Attributes:
      start: First step.
      group: Weights that begin to train then.
      thawed: All weights that train.
    """

    start: int
    group: Selection
    thawed: Selection


class StagedOptimizer:
    """An optimizer of weights that thaw in stages: each group of weights has a state of its own.

    Args:
      optimizer: Its options.
      stages: Stages of the run.
      axes: Axis names of the model's whole weights.
      factors: Factors of their rates, from ``Optimizer.rate_factors``.
      trained: Weights that the run trains.

    Raises:
      ValueError: The optimizer is no ``OptimizerConfig``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        stages: Sequence[UnfreezingStage],
        axes: PyTree,
        factors: PyTree,
        trained: Selection,
    ) -> None:
        if not isinstance(optimizer, OptimizerConfig):
            raise ValueError(
                f"unfreezing gives each group of weights an optimizer of its own, and {type(optimizer).__name__} lacks "
                "the options of OptimizerConfig; let it inherit from OptimizerConfig, or leave unfreezing out"
            )
        self._optimizer, self._stages, self._trained = optimizer, stages, trained
        norm = optimizer.max_gradient_norm
        self._clip = None if norm is None else optax.clip_by_global_norm(norm)
        schedule = as_schedule(optimizer.learning_rate)
        self._axes = [parameters.partition(axes, stage.group)[0] for stage in stages]
        self._rules = [
            replace(
                optimizer,
                learning_rate=Shifted(schedule=schedule, start=stage.start) if stage.start else schedule,
                max_gradient_norm=None,
            ).build(stage_axes, parameters.partition(factors, stage.group)[0])
            for stage, stage_axes in zip(stages, self._axes, strict=True)
        ]

    def init(self, trained: parameters.Parameters) -> dict[str, PyTree]:
        """Return the state of all trained weights."""
        return {
            str(index): rule.init(self._part(trained, stage.group, self._trained))
            for index, (stage, rule) in enumerate(zip(self._stages, self._rules, strict=True))
        }

    def state_axes(self, abstract_state: Mapping[str, object]) -> dict[str, PyTree]:
        """Return axis names of every array of the state."""
        return {
            str(index): self._optimizer.state_axes(abstract_state[str(index)], axes)
            for index, axes in enumerate(self._axes)
        }

    def gradient_weights(
        self, state: Mapping[str, PyTree], trained: parameters.Parameters
    ) -> parameters.Parameters:
        """Return the weights at which gradients are computed; see ``schedule_free.gradient_weights``.

        Args:
          state: From ``init``.
          trained: All trained weights; those of groups that wait stay as they are.
        """
        if not any(isinstance(rule, ScheduleFreeTransformation) for rule in self._rules):
            return trained
        groups = [stage.group for stage in self._stages]
        parts = [
            gradient_weights(rule, state[str(index)], self._part(trained, group, self._trained))
            for index, (rule, group) in enumerate(zip(self._rules, groups, strict=True))
        ]
        within = [weight_patterns.within(group, self._trained) for group in groups]
        return parameters.join(*zip(parts, within, strict=True))

    def update(
        self,
        gradients: parameters.Parameters,
        state: dict[str, PyTree],
        params: parameters.Parameters,
        stage: int,
    ) -> tuple[parameters.Parameters, dict[str, PyTree]]:
        """Return the updates of thawed weights, and the new state; that of frozen weights stays.

        Args:
          gradients: Gradients of the weights that are thawed in this stage.
          state: From ``init``.
          params: The thawed weights.
          stage: Number of the stage.
        """
        if self._clip is not None:
            clipped: PyTree = self._clip.update(gradients, self._clip.init(params))[0]
            gradients = clipped
        thawed, updates, new_state = self._stages[stage].thawed, [], dict(state)
        for stage_index in range(stage + 1):
            group = self._stages[stage_index].group
            update, new_state[str(stage_index)] = self._rules[stage_index].update(
                self._part(gradients, group, thawed),
                state[str(stage_index)],
                self._part(params, group, thawed),
            )
            updates.append((update, weight_patterns.within(group, thawed)))
        return parameters.join(*updates), new_state

    @staticmethod
    def _part(params: parameters.Parameters, group: Selection, held: Selection) -> parameters.Parameters:
        """Return a group's part of a tree that holds the weights of ``held``."""
        return parameters.partition(params, weight_patterns.within(group, held))[0]


def _from_the_top(num_rows: Mapping[str, int]) -> list[Selection]:
    """Return the groups of a model: weights outside stacks, one layer after the other, and embeddings.

    A stack's tables of positions belong to its first layer, other weights outside layers to its last.
    """
    numbers = weight_patterns.layer_numbers(num_rows)
    totals = weight_patterns.num_layers(numbers)

    def depths(path: str) -> tuple[int, ...]:
        """Return the number of layers above each row of a weight; -1 outside stacks, the largest for embeddings."""
        if path in numbers:
            return tuple(totals[weight_patterns.stack_of(path)] - 1 - row for row in numbers[path])
        if "embedding" in path.split("/")[0]:
            return (max(totals.values(), default=0),)
        total = totals.get(f"{path.split('/')[0]}/layers", 0)
        return (total - 1 if _TABLES.fullmatch(path) else min(total, 1) - 1,)

    groups = range(-1, max(totals.values(), default=0) + 1)
    return [{path: tuple(each == depth for each in depths(path)) for path in num_rows} for depth in groups]
