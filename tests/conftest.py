"""What every test shares: eight simulated devices, checked shapes, strict ranks, and the golden references."""

import os
from pathlib import Path

import pytest

from tests.references import GOLDEN, xla_flags

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", xla_flags(num_devices=8))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Modules and subprocesses compile many of the same programs; each is compiled once and kept for the next run too.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parent.parent / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # thousands are small

from jaxtyping import install_import_hook

# Shapes and types in the signatures of these packages are checked at every call while testing.
_hook = install_import_hook(["t5x_like.model", "t5x_like.inference"], "beartype.beartype")

import hypothesis  # noqa: E402
import jax  # noqa: E402 - after its flags are set

hypothesis.settings.register_profile("any machine", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("any machine")

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of reference inputs and outputs."""
    return GOLDEN


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Thousands of compiled programs, kept to the end, would fill memory and the system's list of mapped regions."""
    yield
    jax.clear_caches()
