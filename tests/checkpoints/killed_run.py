"""A run that is killed again and again while it saves: ``killed_run.py DIRECTORY KILLS SEED``.

Each life is forked from this process, which has the imports but no devices; it resumes, checks what it found
and saves at every step until it is killed. Prints the step each life resumed from. The last life is killed once a
whole step is on disk, however slow the machine is.
"""

import itertools
import os
import random
import signal
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint  # noqa: F401 — imported once, here, rather than in each life

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.checkpoints.steps import absolute, finished_steps
from t5x_like.io.end_process import end_process

_SHAPE = (400, 300)
_LIKE = {"weights": jax.ShapeDtypeStruct(_SHAPE, jnp.float32), "step": jax.ShapeDtypeStruct((), jnp.int32)}


def _weights(step: int) -> np.ndarray:
    return np.random.default_rng(step).normal(size=_SHAPE).astype(np.float32)


def _resume(checkpoints: Checkpoints) -> int:
    if checkpoints.latest_step() is None:
        return 0
    restored = checkpoints.restore(_LIKE)
    np.testing.assert_array_equal(restored.state["weights"], _weights(restored.step))
    assert restored.loader_state == {"index": restored.step} == {"index": int(restored.state["step"])}
    return restored.step


def _live(directory: str, say: int) -> None:
    with Checkpoints(directory, keep=2) as checkpoints:
        resumed = _resume(checkpoints)
        for step in itertools.count(resumed + 1):
            state = {"weights": jnp.asarray(_weights(step)), "step": jnp.int32(step)}
            checkpoints.save(step, state, loader_state={"index": step})
            if step == resumed + 1:
                os.write(say, f"{resumed}\n".encode())


def _wait_for_a_step(directory: str) -> None:
    while not finished_steps(absolute(directory)):
        time.sleep(0.01)


def main(directory: str, kills: int, seed: int) -> None:
    delays = random.Random(seed)
    for life in range(kills):
        listen, say = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(listen)
            _live(directory, say)
        os.close(say)
        with os.fdopen(listen) as pipe:
            print(pipe.readline().strip(), flush=True)  # noqa: T201
        if life == kills - 1:
            _wait_for_a_step(directory)
        time.sleep(delays.uniform(0, 0.15))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with Checkpoints(directory) as checkpoints:
        print(_resume(checkpoints), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    end_process()
