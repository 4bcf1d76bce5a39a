"""NoisyTune's noise: uniform, in proportion to each layer's deviation, from its seed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.noisy_tune import NoisyTune
from t5x_like.training.state import fine_tuning_state, plan_state
from tests.integration import tiny_run
from tests.training.test_step import MODEL

AXES = {
    "layers": {"kernel": ("layers", "embed", "mlp")},
    "experts": ("experts", "embed", "mlp"),
    "bias": ("mlp",),
    "scale": ("norm",),
}


def weights():
    draw = np.random.default_rng(0)
    kernel = draw.normal(size=(3, 40, 50)) * np.array([0.1, 1.0, 100.0])[:, None, None] + 7.0
    return {
        "layers": {"kernel": jnp.asarray(kernel, jnp.float32)},
        "experts": jnp.asarray(kernel[::-1], jnp.float32),
        "bias": jnp.asarray(draw.normal(size=50), jnp.float32),
        "scale": jnp.ones(40),
    }


def test_noise_is_uniform_and_of_each_layers_own_deviation():
    before = weights()
    after = NoisyTune(intensity=0.4, seed=3).perturb(before, AXES)
    for old, new in (
        (before["layers"]["kernel"], after["layers"]["kernel"]),
        (before["experts"], after["experts"]),
    ):
        for layer in range(3):
            relative = np.asarray(new[layer] - old[layer], np.float64) / np.std(
                np.asarray(old[layer], np.float64)
            )
            assert 0.195 < relative.max() <= 0.2001
            assert -0.2001 <= relative.min() < -0.195
            assert np.std(relative) == pytest.approx(0.4 / 12**0.5, rel=0.05)
            assert abs(np.mean(relative)) < 0.01
    assert np.all(after["bias"] != before["bias"])
    np.testing.assert_array_equal(after["scale"], before["scale"], "equal numbers have no deviation")


def test_the_seed_decides_and_weights_draw_apart():
    same = NoisyTune(seed=1).perturb(weights(), AXES), NoisyTune(seed=1).perturb(weights(), AXES)
    jax.tree.map(np.testing.assert_array_equal, *same)
    other = NoisyTune(seed=2).perturb(weights(), AXES)
    assert not np.any(same[0]["bias"] == other["bias"])
    alone = NoisyTune(seed=1).perturb({"bias": weights()["bias"]}, {"bias": AXES["bias"]})
    np.testing.assert_array_equal(alone["bias"], same[0]["bias"], "whatever else has noise")


@pytest.mark.slow
def test_frozen_weights_keep_their_values_on_any_mesh():
    states = []
    for config, devices in ((MeshConfig(), 1), (MeshConfig(data=2, fsdp=2, model=2), 8)):
        mesh = config.build(jax.devices()[:devices])
        plan = plan_state(MODEL, AdamW(), mesh, num_tasks=1, trainable=("*/layers[-1]/*",))
        params = parameters.split(MODEL.build(jax.random.key(0)))[1]
        states.append(fine_tuning_state(plan, params, NoisyTune()))
    before, after = plan.divide(params), states[0]
    jax.tree.map(np.testing.assert_array_equal, after["frozen"], before["frozen"])
    kernels = [
        tree["encoder"]["layers"]["0"]["feed_forward"]["up"]["kernel"]
        for tree in (after["params"], before["params"])
    ]
    assert np.all(kernels[0] != kernels[1])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        states[0]["params"],
        states[1]["params"],
    )


def test_noise_needs_weights_to_start_from(tmp_path):
    with pytest.raises(
        ValueError, match="noisy_tune adds noise to pretrained weights; say whose by start_from"
    ):
        tiny_run.experiment(tmp_path, model_dir="run", total_steps=2, noisy_tune=NoisyTune())
    with pytest.raises(ValueError, match="intensity is 0; give a positive number"):
        NoisyTune(intensity=0.0)
