"""kill -9 at any moment of saving: some step restores to the bit, and the run goes on in the same folder."""

import multiprocessing
import random
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints

_SHAPE = (400, 300)
LIKE = {"weights": jax.ShapeDtypeStruct(_SHAPE, jnp.float32), "step": jax.ShapeDtypeStruct((), jnp.int32)}


def _weights(step):
    return np.random.default_rng(step).normal(size=_SHAPE).astype(np.float32)


def _train(directory, ready):
    """Resumes, then saves every step until killed."""
    with Checkpoints(directory, keep=2) as checkpoints:
        step = 0 if checkpoints.latest_step() is None else checkpoints.restore(LIKE).step
        while True:
            step += 1
            state = {"weights": jnp.asarray(_weights(step)), "step": jnp.int32(step)}
            checkpoints.save(step, state, loader_state={"index": step})
            ready.set()


def _kill_again_and_again(directory, *, kills, seed):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["jax", "orbax.checkpoint"])
    delays = random.Random(seed)
    reached = [0]
    for _ in range(kills):
        ready = context.Event()
        child = context.Process(target=_train, args=(directory, ready))
        child.start()
        assert ready.wait(60)
        time.sleep(delays.uniform(0, 0.15))
        child.kill()
        child.join()
        with Checkpoints(directory) as checkpoints:
            if checkpoints.latest_step() is None:
                continue
            restored = checkpoints.restore(LIKE)
        np.testing.assert_array_equal(restored.state["weights"], _weights(restored.step))
        assert restored.loader_state == {"index": restored.step} == {"index": int(restored.state["step"])}
        assert restored.step >= reached[-1]
        reached.append(restored.step)
    return reached


def test_a_killed_run_restores_to_the_bit_and_goes_on(tmp_path):
    assert _kill_again_and_again(tmp_path, kills=4, seed=0)[-1] > 0


@pytest.mark.slow
def test_many_kills(tmp_path):
    assert _kill_again_and_again(tmp_path, kills=60, seed=1)[-1] > 60
