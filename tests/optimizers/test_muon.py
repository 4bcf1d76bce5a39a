"""Muon: matrices by orthogonal updates, layer by layer, all other weights by Adam."""

import jax
import numpy as np
import pytest

from t5x_like.optimizers.muon import Muon
from t5x_like.optimizers.optimizers import AdamW

AXES = {
    "wi": ("layers", "embed", "mlp"),
    "table": ("vocab", "embed"),
    "scale": ("layers", "norm"),
    "bias": ("mlp",),
}
SHAPES = {"wi": (2, 8, 16), "table": (24, 8), "scale": (2, 8), "bias": (16,)}


def draw(seed):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def updates_of(optimizer, gradients, params):
    rule = optimizer.build(AXES)
    state = rule.init(params)
    for each in gradients:
        updates, state = rule.update(each, state, params)
    return updates


def orthogonalized(matrix):
    """Newton-Schulz in numpy, with Jordan's coefficients."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = wide / np.linalg.norm(wide)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T


def test_each_layer_of_a_matrix_moves_by_its_own_orthogonal_update():
    params, gradients = draw(0), draw(1)
    muon = Muon(learning_rate=0.1, weight_decay_rate=0.05, nesterov=False, max_gradient_norm=None)
    updates = updates_of(muon, [gradients], params)["wi"]
    for layer in range(2):
        wanted = 0.2 * np.sqrt(16) * orthogonalized(gradients["wi"][layer].astype(np.float64))
        wanted = -0.1 * (wanted + 0.05 * params["wi"][layer])
        np.testing.assert_allclose(updates[layer], wanted, rtol=2e-3, atol=2e-4)
    rms = np.sqrt(np.mean(np.square(updates[0] + 0.005 * params["wi"][0])))
    assert rms == pytest.approx(0.1 * 0.2, rel=0.35)  # singular values are between 0.7 and 1.2


def test_tables_norms_and_biases_have_the_updates_of_adam_and_no_decay():
    params, gradients = draw(0), [draw(seed) for seed in (1, 2, 3)]
    muon = Muon(learning_rate=0.1, nesterov=False, max_gradient_norm=None)
    adam = AdamW(learning_rate=0.1, beta2=0.95, weight_decay_rate=0.0, epsilon=1e-8, max_gradient_norm=None)
    result, wanted = (updates_of(each, gradients, params) for each in (muon, adam))
    for name in ("table", "scale", "bias"):
        np.testing.assert_allclose(result[name], wanted[name], rtol=1e-5, atol=1e-7)
    slower = updates_of(Muon(adam_learning_rate=0.01, learning_rate=0.1, nesterov=False), gradients, params)
    assert np.abs(slower["bias"]).max() < 0.2 * np.abs(result["bias"]).max()


def test_statistics_have_the_axes_of_their_weights():
    muon = Muon()
    state = jax.eval_shape(muon.build(AXES).init, draw(0))
    named = set()
    jax.tree.map(lambda leaf, axes: named.add((leaf.shape, axes)), state, muon.state_axes(state, AXES))
    for name in SHAPES:
        assert (SHAPES[name], AXES[name]) in named


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": 1.0}, "beta is 1.0; it averages over updates"),
        ({"consistent_rms": 0.0}, "consistent_rms is 0.0; give a positive number, or None"),
        ({"num_iterations": 0}, "num_iterations is 0; give at least 1"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Muon(**options)
