"""The weights that a step changes: all trained weights, or those that have thawed in a stage of gradual unfreezing."""

from typing import Any

from jaxtyping import PyTree

from t5x_like.model import parameters
from t5x_like.training.expert_balance import ExpertBalance
from t5x_like.training.state import State, StateLayout
from t5x_like.training.unfreezing import StagedOptimizer


class LearnedWeights:
    """Divides a state into the weights that a step changes and all others, and updates the first.

    Args:
      plan: Structure of the state, and the optimizer.
      stage: Number of the stage of gradual unfreezing; ignored without stages.

    Attributes:
      balance: Rule that keeps experts equally busy.
    """

    def __init__(self, plan: StateLayout, stage: int) -> None:
        self._plan, self._stage = plan, range(len(plan.stages))[stage] if plan.stages else None
        self._selection = plan.trained if self._stage is None else plan.stages[self._stage].thawed
        shapes = plan.weights(plan.abstract)
        self._graphdef = parameters.mark_trained(plan.graphdef, shapes, self._selection)
        self.balance = ExpertBalance.of(plan.graphdef, shapes)

    def divide(self, state: State) -> tuple[parameters.Parameters, parameters.Parameters]:
        """Return the weights that the step changes, and all others."""
        if self._stage is None:
            return state["params"], state["frozen"]
        return parameters.partition(self._plan.weights(state), self._selection)

    def model(self, trained: parameters.Parameters, others: parameters.Parameters) -> Any:
        """Return the model, which computes no gradient of weights that don't train.

        Args:
          trained: Weights that train.
          others: All other weights.
        """
        return parameters.merge(self._graphdef, parameters.combine(trained, others, self._selection))

    def update(self, gradients: PyTree, opt_state: PyTree, trained: PyTree) -> tuple[PyTree, PyTree]:
        """Return the updates and the new state of the optimizer.

        Args:
          gradients: Gradients of the weights that train.
          opt_state: State of the optimizer.
          trained: Weights that train.
        """
        transformation = self._plan.transformation
        if isinstance(transformation, StagedOptimizer):
            assert self._stage is not None
            return transformation.update(gradients, opt_state, trained, self._stage)
        return transformation.update(gradients, opt_state, trained)

    def params(self, trained: parameters.Parameters, others: parameters.Parameters) -> parameters.Parameters:
        """Return the entry of the state that holds the trained weights.

        Args:
          trained: Weights that train in this stage.
          others: All other weights.
        """
        if self._stage is None:
            return trained
        weights = parameters.combine(trained, others, self._selection)
        return parameters.partition(weights, self._plan.trained)[0]
