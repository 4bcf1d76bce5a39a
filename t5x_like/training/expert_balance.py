"""Experts kept equally busy without a loss: a bias of each is moved after every step (DeepSeek-V3, §2.1.2).

The rule is of Wang et al. 2024, https://arxiv.org/abs/2408.15664, algorithm 1, over all tokens of a batch.
"""

from collections.abc import Mapping

import jax.numpy as jnp
from flax import nnx
from jaxtyping import PyTree

from t5x_like.model import parameters
from t5x_like.model.layers.mixture_of_experts import MixtureOfExperts
from t5x_like.model.layers.modules import modules_of


class ExpertBalance:
    """Changes of the biases by which experts are chosen. No optimizer's rule, rate or clipping concerns them.

    Their gradients are choices beyond the fair share (see ``excess_as_gradient``).

    Args:
      rates: Change of each bias by a step, by the bias' path.
    """

    def __init__(self, rates: Mapping[str, float]) -> None:
        self._rates = rates

    @classmethod
    def of(cls, graphdef: nnx.GraphDef, params: parameters.Parameters) -> "ExpertBalance":
        """Return the rule for a model.

        Args:
          graphdef: Structure of the model.
          params: Weights, or their shapes.
        """
        layers = modules_of(parameters.merge(graphdef, params), MixtureOfExperts)
        rates = {f"{path}/correction_bias": layer.config.router.bias_update_rate for path, layer in layers}
        return cls({path: rate for path, rate in rates.items() if rate})

    def keep(self, trained: PyTree, weights: PyTree) -> PyTree:
        """Return trained weights with the biases of other weights: schedule-free averages don't concern them.

        Args:
          trained: Weights at which gradients are computed.
          weights: Weights of the run.
        """
        biases = {path: each for path, each in parameters.flatten(weights).items() if path in self._rates}
        return parameters.unflatten(parameters.flatten(trained) | biases) if biases else trained

    def divide(self, gradients: PyTree) -> tuple[PyTree, dict[str, PyTree]]:
        """Return the gradients with 0 for biases, and the excess choices of experts by the bias' path.

        Args:
          gradients: Gradients of the weights that train.
        """
        flat = parameters.flatten(gradients)
        excess = {path: flat[path] for path in self._rates if path in flat}
        if not excess:
            return gradients, {}
        return parameters.unflatten(
            flat | {path: jnp.zeros_like(each) for path, each in excess.items()}
        ), excess

    def update(self, updates: PyTree, excess: Mapping[str, PyTree]) -> PyTree:
        """Return updates that move each bias against the excess of its expert.

        Args:
          updates: Updates of the weights that train.
          excess: Excess choices, from ``divide``.
        """
        if not excess:
            return updates
        moves = {path: -self._rates[path] * jnp.sign(each) for path, each in excess.items()}
        return parameters.unflatten(parameters.flatten(updates) | moves)
