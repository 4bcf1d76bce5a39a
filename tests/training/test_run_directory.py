"""A run's folder keeps its compiled programs."""

import os
import subprocess
import sys

PROGRAM = """
import sys
import jax
from t5x_like.training.run_directory import keep_compiled_programs
keep_compiled_programs(sys.argv[1])
jax.jit(lambda x: x * 2 + 1)(1.0)
"""


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
