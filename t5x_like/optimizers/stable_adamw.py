"""StableAdamW (Wortsman et al. 2023, https://arxiv.org/abs/2304.13013): AdamW with the update clipping of Adafactor."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import PyTree

from t5x_like.config_class import config_class
from t5x_like.optimizers.adafactor import Axes, inner_dimensions
from t5x_like.optimizers.optimizers import Adam


@config_class
class StableAdamW(Adam):
    """AdamW that takes smaller steps while gradients are larger than their average says (algorithm 2).

    The learning rate of each weight is divided by ``max(1, RMS)``, where ``RMS = sqrt(mean(gradient**2 / max(v,
    epsilon**2)))`` and ``v`` is Adam's averaged square. Weight decay has the divided rate, too. Each layer of a stacked
    weight has its own RMS. It replaces the clipping of gradients: ModernBERT is trained so (Warner et al. 2024, §2.2,
    https://arxiv.org/abs/2412.13663).

    Attributes:
      beta2: Part of the averaged squared gradient that an update keeps.
      epsilon: Added to the root of the averaged square, and its smallest value in the RMS.
      max_gradient_norm: Gradients are scaled down together to this global norm; ``None`` leaves them.
    """

    beta2: float = 0.99
    epsilon: float = 1e-6
    max_gradient_norm: float | None = None

    def update_rule(self, axes: PyTree) -> optax.GradientTransformation:
        rule = self.chain(axes)

        def divided(update: jax.Array, gradient: jax.Array, square: jax.Array, names: Axes) -> jax.Array:
            ratio = jnp.square(gradient.astype(jnp.float32)) / jnp.maximum(square, self.epsilon**2)
            mean = jnp.mean(ratio, axis=inner_dimensions(names), keepdims=True)
            return update / jnp.maximum(1.0, jnp.sqrt(mean))

        def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
            gradients = updates
            updates, state = rule.update(gradients, state, params)
            squares = state[0].nu
            if self.bias_correction:
                correction = 1.0 - self.beta2 ** state[0].count
                squares = jax.tree.map(lambda square: square / correction, squares)
            return jax.tree.map(divided, updates, gradients, squares, axes), state

        return optax.GradientTransformation(rule.init, update)  # pyright: ignore[reportArgumentType]
