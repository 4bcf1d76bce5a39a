"""Shared by all tests: eight simulated devices, checked shapes of models, strict ranks, the golden references."""

import gc
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.references import GOLDEN, xla_flags

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", xla_flags(num_devices=8))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Threads of XLA, one for each simulated device if not given: where each waits in another collective operation than its
# partners, the process hangs and ends after 40 seconds.
os.environ.setdefault("NPROC", "32")
# Modules and subprocesses compile many of the same programs; each is compiled once and kept for the next run too.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).resolve().parent.parent / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # thousands are small

from jaxtyping import install_import_hook

# Shapes and types in the signatures of these packages are checked at every call while models are tested.
_hook = install_import_hook(["t5x_like.model", "t5x_like.inference"], "beartype.beartype")

import hypothesis  # noqa: E402
import jax  # noqa: E402 - after its flags are set
import jaxtyping  # noqa: E402

_jaxtyped = jaxtyping.jaxtyped


def _jaxtyped_once(*, typechecker: Any) -> Callable[[Any], Any]:
    """Leave functions inside functions unchecked: they would be decorated at every call, a tenth of all time."""
    decorate = _jaxtyped(typechecker=typechecker)
    return lambda each: each if "<locals>" in getattr(each, "__qualname__", "") else decorate(each)


jaxtyping.jaxtyped = _jaxtyped_once

from t5x_like.text import registry  # noqa: E402

# A busy machine is no failure, and a run repeats the one before.
hypothesis.settings.register_profile("any machine", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("any machine")

jax.config.update("jax_numpy_rank_promotion", "raise")


_HAS_SEQIO = importlib.util.find_spec("seqio") is not None
_BRIDGE = (
    "(cache_tasks|data_sources|evaluation_rows|literal_vocabulary|(objective_)?preprocessors|seqio_tasks)"
)
_IMPORTS_SEQIO = re.compile(
    r"^(import|from) (seqio|tensorflow|benchmarks\.references\.objective)"
    rf"|^from t5x_like\.text\.seqio_bridge(\.| import .*\b){_BRIDGE}\b",
    re.MULTILINE,
)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that import seqio or TensorFlow where the extra ``seqio`` isn't installed."""
    if _HAS_SEQIO or not collection_path.name.startswith("test_"):
        return None
    return True if _IMPORTS_SEQIO.search(collection_path.read_text(encoding="utf-8")) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that are marked as needing the extra ``seqio``, or read its package, where it isn't installed."""
    if _HAS_SEQIO:
        return
    absent = [
        item
        for item in items
        if item.get_closest_marker("seqio") or "pieces_path" in getattr(item, "fixturenames", ())
    ]
    if absent:
        config.hook.pytest_deselected(items=absent)
        left_out = set(absent)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Garbage collections take a twentieth of the time: they visit all that the libraries made when imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument. Gzip writes the time of day, and all workers must collect the same names."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of reference inputs and outputs."""
    return GOLDEN


_tasks_of_runs: dict[str, registry.Definition] = {}


@pytest.fixture(autouse=True, scope="module")
def _forget_tasks(request: pytest.FixtureRequest):
    """A module may use the names of another's tasks. Whole runs share theirs among themselves."""
    before = registry._tasks.keys() | registry._mixtures.keys()
    whole_runs = "integration" in request.path.parts
    if whole_runs:
        registry.register(_tasks_of_runs.values())
    yield
    for name in (registry._tasks.keys() | registry._mixtures.keys()) - before:
        definition = registry._tasks.pop(name, None) or registry._mixtures.pop(name)
        if whole_runs:
            _tasks_of_runs[name] = definition
        if seqio := sys.modules.get("seqio"):
            seqio.TaskRegistry._REGISTRY.pop(name, None)
            seqio.MixtureRegistry._REGISTRY.pop(name, None)
    if registry._foreign is not None:  # whose list of tasks to add may have several of one name
        waiting = registry._foreign._waiting
        waiting[:] = [
            each for each in waiting if each in (*registry._tasks.values(), *registry._mixtures.values())
        ]


@pytest.fixture(autouse=True, scope="module")
def _check_shapes(request: pytest.FixtureRequest):
    """Checks take a sixth of the time of a training test; those of models cover the same code."""
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    jaxtyping.config.update("jaxtyping_disable", folder not in ("inference", "model", "parity"))


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Thousands of compiled programs, kept to the end, would fill memory and the system's list of mapped regions."""
    yield
    jax.clear_caches()
