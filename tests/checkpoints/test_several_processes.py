"""Two real processes save and restore one checkpoint together."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.checkpoints.checkpoints import Checkpoints
from tests.references import free_port, xla_flags

_CHILD = textwrap.dedent("""
    import pathlib
    import sys

    import jax
    import jax.numpy as jnp
    import numpy as np

    from t5x_like.checkpoints.checkpoints import Checkpoints, restore_step
    from t5x_like.io.end_process import end_process
    from t5x_like.partitioning.mesh import MeshConfig
    from t5x_like.partitioning.processes import initialize_processes
    from t5x_like.partitioning.rules import sharding_for

    initialize_processes()
    directory = pathlib.Path(sys.argv[1])
    sharding = sharding_for(("embed", "mlp"), (8, 16), MeshConfig(data=1, fsdp=4).build())
    whole = np.arange(128, dtype=np.float32).reshape(8, 16)
    like = {"params": {"w": jax.ShapeDtypeStruct((8, 16), jnp.float32, sharding=sharding)}}

    def state(step):
        w = jax.make_array_from_callback((8, 16), sharding, lambda index: step * whole[index])
        return {"params": {"w": w}}

    def check(params, step):
        for shard in params["w"].addressable_shards:
            np.testing.assert_array_equal(shard.data, step * whole[shard.index])

    with Checkpoints(directory, keep=2) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(step, state(step), loader_state={"index": step})
        restored = checkpoints.restore(like)
        check(restored.state["params"], 3)
        assert (restored.step, restored.loader_state) == (3, {"index": 3})
    if jax.process_index() == 0:
        (directory / "3" / "state" / "manifest.ocdbt").write_bytes(b"")
    check(restore_step(directory, like["params"])[1], 2)
    jax.distributed.shutdown()
    end_process()
""")


def test_two_processes_save_and_agree_on_what_to_restore(tmp_path):
    port = free_port()
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD, tmp_path],
            env=os.environ
            | {
                "XLA_FLAGS": xla_flags(num_devices=2),
                "T5X_LIKE_COORDINATOR": f"localhost:{port}",
                "T5X_LIKE_NUM_PROCESSES": "2",
                "T5X_LIKE_PROCESS_ID": str(index),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(2)
    ]
    for child in children:
        output = child.communicate(timeout=120)[0]
        assert child.returncode == 0, output
    with Checkpoints(tmp_path) as checkpoints:
        restored = checkpoints.restore({"params": {"w": jax.ShapeDtypeStruct((8, 16), jnp.float32)}})
    np.testing.assert_array_equal(restored.state["params"]["w"], 2 * np.arange(128).reshape(8, 16))
