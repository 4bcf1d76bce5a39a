"""LAMB (You et al. 2020, https://arxiv.org/abs/1904.00962): Adam's step, scaled to the norm of each layer's weight."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from t5x_like.config_class import config_class
from t5x_like.optimizers.adafactor import Axes, inner_dimensions
from t5x_like.optimizers.optimizers import Adam, decay_mask


@config_class
class Lamb(Adam):
    """LAMB, for very large batches.

    Adam's step with weight decay is scaled to the norm of the weight it changes (algorithm 2, with the identity as
    φ). Each layer of a stacked weight has its own norms; ``optax.lamb`` would take those of the whole stack. Biases
    and norm scales take Adam's step as it is, as in the code of LAMB's BERT and of ALBERT, which also has no
    ``bias_correction``.
    """

    epsilon: float = 1e-6

    def update_rule(self, axes: PyTree) -> optax.GradientTransformation:
        return self.chain(axes, scale_by_trust_ratio(axes))


def scale_by_trust_ratio(axes: PyTree) -> optax.GradientTransformation:
    """Multiply each layer's step by ``norm(weight) / norm(step)``; by 1 where one of them is 0.

    Args:
      axes: Axis names of the parameters; those that ``decay_mask`` leaves out are not scaled.
    """

    def scaled(step: jax.Array, param: jax.Array, scales: bool, names: Axes) -> jax.Array:
        if not scales:
            return step
        norms = [_norm(value.astype(jnp.float32), inner_dimensions(names)) for value in (param, step)]
        known = (norms[0] > 0) & (norms[1] > 0)
        return step * jnp.where(known, norms[0] / jnp.where(known, norms[1], 1.0), 1.0)

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        return jax.tree.map(scaled, updates, params, decay_mask(axes), axes), state

    return optax.GradientTransformation(lambda _: optax.EmptyState(), update)  # pyright: ignore[reportArgumentType]


def _norm(value: jax.Array, dims: tuple[int, ...]) -> jax.Array:
    return jnp.sqrt(jnp.sum(value * value, axis=dims, keepdims=True))
