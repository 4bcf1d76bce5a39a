"""Starting tiny_run.py as a program of its own, on devices of its own."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from t5x_like.io.files import read_jsonl
from tests.integration import tiny_run
from tests.references import free_port, xla_flags


def start(
    model_dir: Path, total_steps: int, *, num_devices: int = 1, mesh: Sequence[str] = (), **environment: str
) -> subprocess.Popen:
    """Programs that write beside each other compile a step once, without XLA's slow optimizations."""
    compilation = {
        "JAX_COMPILATION_CACHE_DIR": str(model_dir.parent / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    return subprocess.Popen(
        [sys.executable, tiny_run.__file__, str(model_dir), str(total_steps), *mesh],
        env=os.environ | {"XLA_FLAGS": xla_flags(num_devices)} | compilation | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def command(script: Path, *flags: str) -> list[str]:
    """The command that runs a user's script; threads of libraries can abort one that ends by itself."""
    program = (
        "import runpy, sys; from t5x_like.io.end_process import end_process; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__'); end_process()"
    )
    return [sys.executable, "-c", program, str(script), *flags]


def start_several(
    model_dir: Path, total_steps: int, count: int, *, mesh: Sequence[str] = ()
) -> list[subprocess.Popen]:
    """Processes of one run, of one device each."""
    coordinator = f"localhost:{free_port()}"
    return [
        start(
            model_dir,
            total_steps,
            mesh=mesh,
            T5X_LIKE_COORDINATOR=coordinator,
            T5X_LIKE_NUM_PROCESSES=str(count),
            T5X_LIKE_PROCESS_ID=str(index),
        )
        for index in range(count)
    ]


def finish(process: subprocess.Popen) -> None:
    """Waits for it to end well."""
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def losses(model_dir: Path) -> dict[int, float]:
    """The training loss of every step logged so far."""
    return {
        line["step"]: line["loss"]
        for line in read_jsonl(model_dir / "metrics.jsonl")
        if line["split"] == "train"
    }
