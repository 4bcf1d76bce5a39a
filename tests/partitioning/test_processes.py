"""Two real processes on this machine see one mesh."""

import os
import subprocess
import sys
import textwrap

import pytest

from t5x_like.cli.main import main
from t5x_like.partitioning.processes import initialize_processes
from tests.references import ROOT, free_port, xla_flags

_CHILD = textwrap.dedent("""
    import sys

    import jax
    import numpy as np

    from t5x_like.batch import Batch
    from t5x_like.io.end_process import end_process
    from t5x_like.partitioning.mesh import MeshConfig
    from t5x_like.partitioning.processes import initialize_processes
    from t5x_like.partitioning.shard import place, replicated, row_share

    initialize_processes()
    whole = Batch(target_tokens=np.arange(48, dtype=np.int32).reshape(8, 6))
    for sizes in (
        {"data": 2, "fsdp": 2},
        {"data": 1, "fsdp": 2, "model": 2},
        {"data": 1, "model": 4},
        {"data": 2, "context": 2},
        {"data": 1, "context": 2, "model": 2},
    ):
        mesh = MeshConfig(**sizes).build()
        index, count = row_share(mesh)
        rows = len(whole.target_tokens) // count
        mine = jax.tree.map(lambda leaf: leaf[index * rows : (index + 1) * rows], whole)
        placed = place(mine, mesh)
        everywhere = jax.jit(lambda batch: batch, out_shardings=replicated(mesh))(placed)
        np.testing.assert_array_equal(everywhere.target_tokens, whole.target_tokens)
        parts = {shard.data.shape for shard in placed.target_tokens.addressable_shards}
        assert parts == {(8 // (mesh.shape["data"] * mesh.shape["fsdp"]), 6 // mesh.shape["context"])}
        total = jax.jit(lambda batch: batch.target_tokens.sum())(placed)
        print("saw", jax.process_index(), len(jax.devices()), count, int(total), flush=True)
    jax.distributed.shutdown()
    end_process()
""")


def _described(index: int, port: int) -> dict[str, str]:
    return {
        "T5X_LIKE_COORDINATOR": f"localhost:{port}",
        "T5X_LIKE_NUM_PROCESSES": "2",
        "T5X_LIKE_PROCESS_ID": str(index),
    }


def _as_slurm_describes(index: int, port: int) -> dict[str, str]:
    return {
        "T5X_LIKE_DISTRIBUTED": "auto",
        "JAX_COORDINATOR_PORT": str(port),
        "SLURM_JOB_ID": "1",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": str(index),
        "SLURM_LOCALID": str(index),
    }


@pytest.mark.parametrize(
    "description", [_described, pytest.param(_as_slurm_describes, marks=pytest.mark.slow)]
)
def test_two_processes_assemble_the_batch_of_one(description):
    port = free_port()
    two_devices = {"XLA_FLAGS": xla_flags(num_devices=2)}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            env=os.environ | two_devices | description(index, port),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(2)
    ]
    for index, child in enumerate(children):
        output = child.communicate(timeout=120)[0]
        assert child.returncode == 0, output
        seen = [line for line in output.splitlines() if line.startswith("saw")]
        assert seen == [f"saw {index} 4 {count} 1128" for count in (2, 2, 1, 2, 1)]


def test_nothing_set_means_one_process(monkeypatch):
    for name in list(os.environ):
        if name.startswith("T5X_LIKE_"):
            monkeypatch.delenv(name)
    initialize_processes()


def test_a_command_that_finds_no_coordinator_may_be_started_again(monkeypatch, capsys, tmp_path):
    settings = {
        "COORDINATOR": f"localhost:{free_port()}",
        "NUM_PROCESSES": "2",
        "PROCESS_ID": "1",
        "INITIALIZATION_TIMEOUT_SECONDS": "1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"T5X_LIKE_{name}", value)
    recipe = f"--gin_file={ROOT}/gin/recipes/quickstart/pretrain.gin"
    assert main(["train", recipe, "--model_dir", str(tmp_path / "run")]) == 75
    said = capsys.readouterr().err
    assert f"could not reach process 0 at {settings['COORDINATOR']} for 1 s" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"COORDINATOR": "a:1"}, "COORDINATOR set without T5X_LIKE_NUM_PROCESSES, T5X_LIKE_PROCESS_ID"),
        ({"COORDINATOR": "a", "NUM_PROCESSES": "2", "PROCESS_ID": "0"}, "'a'; write host:port"),
        ({"COORDINATOR": "a:1", "NUM_PROCESSES": "two", "PROCESS_ID": "0"}, "'two' is not a whole number"),
        ({"COORDINATOR": "a:1", "NUM_PROCESSES": "2", "PROCESS_ID": "2"}, "PROCESS_ID=2 must lie in 0 … 1"),
        (
            {"COORDINATOR": "a:1", "NUM_PROCESSES": "2", "PROCESS_ID": "0", "HEARTBEAT_TIMEOUT_SECONDS": "0"},
            "HEARTBEAT_TIMEOUT_SECONDS=0; give a number of seconds above 0",
        ),
        ({"DISTRIBUTED": "auto"}, "JAX finds no TPU pod, SLURM job"),
        ({"DISTRIBUTED": "yes"}, "the only mode is 'auto'"),
        ({"DISTRIBUTED": "auto", "PROCESS_ID": "2"}, "auto and T5X_LIKE_PROCESS_ID are both set"),
    ],
)
def test_a_wrong_description_is_explained(monkeypatch, settings, message):
    for name, value in settings.items():
        monkeypatch.setenv(f"T5X_LIKE_{name}", value)
    with pytest.raises(ValueError, match=message):
        initialize_processes()
