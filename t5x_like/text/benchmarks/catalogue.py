"""All benchmarks and their mixtures by name. Modules are imported when they are first asked for."""

import functools
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from t5x_like.text.tasks.mixtures import Mixture

if TYPE_CHECKING:
    from t5x_like.text.benchmarks.benchmark import Benchmark

# Each has BENCHMARKS, and may have MIXTURES: names of benchmarks with their rates, by the mixture's name.
MODULES: tuple[str, ...] = (
    "glue", "super_glue", "dpr", "squad", "summarization", "translation", "choices", "race", "story_cloze",
    "entailment", "reviews", "cloze", "tagging", "language_modelling",
)  # fmt: skip


@functools.cache
def benchmarks() -> "Mapping[str, Benchmark]":
    """Every benchmark."""
    return {each.name: each for module in _modules() for each in module.BENCHMARKS}


@functools.cache
def mixtures() -> Mapping[str, Mixture]:
    """Every mixture of benchmarks, as T5 has it."""
    return {
        name: Mixture(name=name, tasks=tuple(rates), rates=rates)
        for module in _modules()
        for name, rates in getattr(module, "MIXTURES", {}).items()
    }


def family(module: str) -> "tuple[Benchmark, ...]":
    """The benchmarks of one module, such as ``glue``."""
    return tuple(dict(zip(MODULES, _modules(), strict=True))[module].BENCHMARKS)


def names() -> tuple[str, ...]:
    """Of benchmarks, then of mixtures."""
    return *benchmarks(), *mixtures()


def benchmark(name: str) -> "Benchmark":
    """The benchmark of that name.

    Raises:
      ValueError: there is none; says which are near.
    """
    if name not in benchmarks():
        import difflib

        near = difflib.get_close_matches(name, benchmarks(), n=3, cutoff=0.4)
        hint = (
            f"did you mean {' or '.join(map(repr, near))}?"
            if near
            else f"there are {', '.join(benchmarks())}"
        )
        raise ValueError(f"no benchmark {name!r}; {hint}")
    return benchmarks()[name]


def definitions(name: str, **settings: Any) -> list[Any]:
    """What to register for a name: a benchmark's task, or a mixture's tasks and the mixture; nothing for others.

    ``settings`` are those of ``BenchmarkTask``: ``vocabulary``, ``data_dir``, ``on_bad_row``, ``num_sentinels``.
    """
    from t5x_like.text.benchmarks.task import BenchmarkTask

    if name in mixtures():
        mixture = mixtures()[name]
        return [*(BenchmarkTask(name=task, **settings) for task in mixture.tasks), mixture]
    return [BenchmarkTask(name=name, **settings)] if name in benchmarks() else []


@functools.cache
def _modules() -> tuple[Any, ...]:
    return tuple(importlib.import_module(f"t5x_like.text.benchmarks.{name}") for name in MODULES)
