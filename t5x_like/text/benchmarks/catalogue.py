"""All benchmarks and their mixtures by name. Modules are imported when they are first asked for."""

import difflib
import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.tasks.mixtures import Mixture

# Each has BENCHMARKS, and may have MIXTURES: names of benchmarks with their rates, by the mixture's name.
MODULES: tuple[str, ...] = (
    "glue", "super_glue", "dpr", "squad", "summarization", "translation", "choices", "race", "story_cloze",
    "entailment", "reviews", "cloze", "tagging", "language_modelling", "paws",
)  # fmt: skip


@functools.cache
def benchmarks() -> Mapping[str, Benchmark]:
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


def family(module: str) -> tuple[Benchmark, ...]:
    """The benchmarks of one module, such as ``glue``."""
    return tuple(dict(zip(MODULES, _modules(), strict=True))[module].BENCHMARKS)


def all_names() -> tuple[str, ...]:
    """Of benchmarks, then of mixtures."""
    return *benchmarks(), *mixtures()


def benchmark(name: str) -> Benchmark:
    """The benchmark of that name.

    Raises:
      ValueError: there is none; says which are near.
    """
    if name not in benchmarks():
        near = difflib.get_close_matches(name, benchmarks(), n=3, cutoff=0.4)
        hint = (
            f"did you mean {' or '.join(map(repr, near))}?"
            if near
            else f"there are {', '.join(benchmarks())}"
        )
        raise ValueError(f"no benchmark {name!r}; {hint}")
    return benchmarks()[name]


def benchmark_task(
    name: str,
    *,
    vocabulary: str = "",
    data_dir: str | None = None,
    on_bad_row: Literal["fail", "skip"] = "fail",
    num_sentinels: int = 100,
    files: Mapping[str, str | Sequence[str]] | None = None,
) -> BenchmarkTask:
    """The task of a benchmark, by its name; for the other arguments see ``BenchmarkTask``.

    >>> benchmark_task("glue_rte_v002", vocabulary="bytes").answers
    ('entailment', 'not_entailment')

    Raises:
      ValueError: there is no such benchmark; says which are near.
    """
    return BenchmarkTask(
        name=name,
        benchmark=benchmark(name),
        vocabulary=vocabulary,
        data_dir=data_dir,
        on_bad_row=on_bad_row,
        num_sentinels=num_sentinels,
        files=files or {},
        remake=benchmark_task,
    )


def benchmark_tasks(
    names: str | Sequence[str] = (),
    *,
    vocabulary: str = "",
    data_dir: str | None = None,
    on_bad_row: Literal["fail", "skip"] = "fail",
    num_sentinels: int = 100,
) -> tuple[BenchmarkTask | Mixture, ...]:
    """The tasks of benchmarks and mixtures by name, of all where none is named: a recipe's ``TASKS``.

    See ``BenchmarkTask`` for what is not given. A mixture comes with its tasks.

    Raises:
      ValueError: no such name.
    """
    found: dict[str, BenchmarkTask | Mixture] = {}
    for name in [names] if isinstance(names, str) else names or all_names():
        made = definitions(
            name, vocabulary=vocabulary, data_dir=data_dir, on_bad_row=on_bad_row, num_sentinels=num_sentinels
        )
        if not made:
            benchmark(name)  # says that there is none, and which are near
        found |= {each.name: each for each in made}
    return tuple(found.values())


def definitions(name: str, **settings: Any) -> list[BenchmarkTask | Mixture]:
    """What to register for a name: a benchmark's task, or a mixture's tasks and the mixture; nothing for others.

    ``settings`` are those of ``benchmark_task``: ``vocabulary``, ``data_dir``, ``on_bad_row``, ``num_sentinels``.
    """
    if name in mixtures():
        mixture = mixtures()[name]
        return [*(benchmark_task(task, **settings) for task in mixture.tasks), mixture]
    return [benchmark_task(name, **settings)] if name in benchmarks() else []


@functools.cache
def _modules() -> tuple[Any, ...]:
    return tuple(importlib.import_module(f"t5x_like.text.benchmarks.{name}") for name in MODULES)
