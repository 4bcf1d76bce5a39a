"""Gradient descent against its formula."""

import jax.numpy as jnp
import numpy as np

from t5x_like.optimizers.schedules import Constant
from t5x_like.optimizers.sgd import Sgd


def test_a_step_is_the_rate_times_gradient_and_decay():
    sgd = Sgd(learning_rate=Constant(value=0.5), weight_decay_rate=0.1, max_gradient_norm=1.0)
    params = {"kernel": jnp.full((1, 2), 2.0), "bias": jnp.full((2,), 2.0)}
    gradients = {"kernel": jnp.asarray([[3.0, 0.0]]), "bias": jnp.asarray([0.0, 4.0])}  # of norm 5
    built = sgd.build({"kernel": ("embed", "mlp"), "bias": ("mlp",)})
    updates, _ = built.update(gradients, built.init(params), params)
    np.testing.assert_allclose(updates["kernel"], [[-0.5 * (0.6 + 0.2), -0.5 * 0.2]], rtol=1e-6)
    np.testing.assert_allclose(updates["bias"], [0.0, -0.5 * 0.8], rtol=1e-6)
