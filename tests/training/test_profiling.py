"""Chosen steps are recorded, others are not."""

import jax.numpy as jnp

from t5x_like.training.profiling import Profiler


def test_the_chosen_steps_are_recorded_for_tensorboard(tmp_path):
    profiler = Profiler(str(tmp_path / "profile"), (2, 3))
    for step in range(1, 5):
        with profiler.at(step):
            jnp.ones(3).sum().block_until_ready()
        recorded = list((tmp_path / "profile").rglob("*.xplane.pb"))
        assert bool(recorded) == (step >= 3)


def test_without_steps_nothing_is_recorded(tmp_path):
    with Profiler(str(tmp_path / "profile"), None).at(1):
        pass
    assert not (tmp_path / "profile").exists()
