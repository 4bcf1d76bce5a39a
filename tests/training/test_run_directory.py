"""A run's folder has one run, and keeps its compiled programs."""

import os
import subprocess
import sys

import pytest

from t5x_like.io.writer_lock import exclusive_writer
from tests.integration import tiny_run

PROGRAM = """
import sys
import jax
from t5x_like.training.run_directory import keep_compiled_programs
keep_compiled_programs(sys.argv[1])
jax.jit(lambda x: x * 2 + 1)(1.0)
"""


@pytest.mark.slow
def test_compiled_programs_lie_in_the_run_unless_jax_has_a_cache(tmp_path):
    def run(name, **variables):
        environment = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
        environment |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PLATFORMS": "cpu"}
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / name)], check=True, env=environment | variables
        )

    run("alone")
    assert any((tmp_path / "alone" / "compilation_cache").iterdir())
    run("beside", JAX_COMPILATION_CACHE_DIR=str(tmp_path / "shared"))
    assert any((tmp_path / "shared").iterdir())
    assert not (tmp_path / "beside").exists()


def test_a_second_run_in_the_folder_is_refused_and_changes_nothing(tmp_path):
    tiny_run.write_data(tmp_path)
    home = tmp_path / "run"
    with exclusive_writer(str(home), "run", signed=True):
        before = {path.name: path.read_bytes() for path in home.iterdir()}
        with pytest.raises(ValueError, match=rf"pid {os.getpid()}\) is writing the run {home}"):
            tiny_run.run(tmp_path, model_dir=str(home), total_steps=1)
        after = {path.name: path.read_bytes() for path in home.iterdir() if path.name != "compilation_cache"}
        assert after == before
    assert not home.exists()
