"""Catalogue of all benchmarks and their mixtures by name. Modules are imported on first use."""

import difflib
import functools
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, Literal

from t5x_like.configuration_names import config_function
from t5x_like.nested_values import one_or_several
from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.task import BenchmarkTask
from t5x_like.text.heads import HeadFormat
from t5x_like.text.heads.input_format import InputFraming
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.mixtures import Mixture

# Each has BENCHMARKS, and may have MIXTURES: names of benchmarks with their rates, by the mixture's name.
MODULES: tuple[str, ...] = (
    "glue", "super_glue", "dpr", "squad", "coqa", "closed_book", "summarization", "translation", "choices", "race",
    "story_cloze", "entailment", "reviews", "cloze", "tagging", "ontonotes", "semantic_roles", "language_modeling",
    "paws", "chinese", "xnli", "decathlon", "flan", "mrqa", "tacred", "minimal_pairs", "super_natural_instructions",
    "xtreme",
)  # fmt: skip


@functools.cache
def benchmarks() -> Mapping[str, Benchmark]:
    """Return every benchmark by name."""
    return {each.name: each for module in _modules() for each in module.BENCHMARKS}


@functools.cache
def mixtures() -> Mapping[str, Mixture]:
    """Return every mixture of benchmarks by name, as T5 has it."""
    return {
        name: Mixture(name=name, tasks=tuple(rates), rates=rates)
        for module in _modules()
        for name, rates in getattr(module, "MIXTURES", {}).items()
    }


def family(module: str) -> tuple[Benchmark, ...]:
    """Return the benchmarks of one module, such as ``glue``."""
    return tuple(dict(zip(MODULES, _modules(), strict=True))[module].BENCHMARKS)


def all_names() -> tuple[str, ...]:
    """Return the names of all benchmarks, then of all mixtures."""
    return *benchmarks(), *mixtures()


def benchmark(name: str) -> Benchmark:
    """Return the benchmark of that name.

    Raises:
      ValueError: There is none; the message suggests similar names.
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


@config_function
def benchmark_task(
    name: str,
    *,
    vocabulary: str = "",
    data_dir: str | None = None,
    on_bad_row: Literal["fail", "skip"] = "fail",
    num_sentinels: int = 100,
    files: Mapping[str, str | Sequence[str]] | None = None,
    framing: InputFraming | None = None,
    streams: Mapping[str, str] | None = None,
    max_examples: int | None = None,
    head: HeadFormat | None = None,
) -> BenchmarkTask:
    """Return the task of a benchmark by its name.

    >>> benchmark_task("glue_rte_v002", vocabulary="bytes").answers
    ('entailment', 'not_entailment')

    Args:
      name: Name of the benchmark.
      vocabulary: See ``BenchmarkTask``, as for the other arguments.
      data_dir: Folder of the files.
      on_bad_row: "fail" or "skip".
      num_sentinels: Sentinel ids that are added to the vocabulary.
      files: Files in another place.
      framing: Special tokens around the texts that a head reads; None for those of the vocabulary.
      streams: Numbers of each row that a training method reads: name of the stream, and column.
      max_examples: Train on the first so many rows; None for all.
      head: Another head format than the benchmark's, such as ``ReferentRanking``.

    Raises:
      ValueError: There is no such benchmark; the message suggests similar names.
    """
    return BenchmarkTask(
        name=name,
        benchmark=benchmark(name),
        vocabulary=vocabulary,
        data_dir=data_dir,
        on_bad_row=on_bad_row,
        num_sentinels=num_sentinels,
        files=files or {},
        framing=framing,
        streams=streams or {},
        max_examples=max_examples,
        head=head,
        remake=benchmark_task,
    )


@config_function
def benchmark_tasks(
    names: str | Sequence[str] = (),
    *,
    vocabulary: str = "",
    data_dir: str | None = None,
    on_bad_row: Literal["fail", "skip"] = "fail",
    num_sentinels: int = 100,
    max_examples: int | None = None,
    left_out: Sequence[str] = (),
    others: Sequence[FileTask[Any] | Mixture] = (),
) -> tuple[FileTask[object] | Mixture, ...]:
    """Return the tasks of benchmarks and mixtures by name: a recipe's ``TASKS``. A mixture comes with its tasks.

    Args:
      names: Names of benchmarks and mixtures; all by default.
      vocabulary: See ``BenchmarkTask``, as for the other arguments.
      data_dir: Folder of the files.
      on_bad_row: "fail" or "skip".
      num_sentinels: Sentinel ids that are added to the vocabulary.
      max_examples: Train on the first so many rows of each task; None for all.
      left_out: Tasks to leave out of the mixtures. They are returned, and can be evaluated.
      others: Definitions to return, too, such as a corpus and a mixture of it with benchmarks.

    Raises:
      ValueError: There is no such name, or no mixture has a task of ``left_out``.
    """
    tasks: dict[str, BenchmarkTask | Mixture] = {}
    for name in one_or_several(names or all_names()):
        made = definitions(
            name,
            vocabulary=vocabulary,
            data_dir=data_dir,
            on_bad_row=on_bad_row,
            num_sentinels=num_sentinels,
            max_examples=max_examples,
        )
        if not made:
            benchmark(name)  # raises, and suggests similar names
        tasks |= {each.name: each for each in made}
    if left_out:
        tasks |= {name: replace(tasks[name], left_out=left_out) for name in mixtures() if name in tasks}
    return (*tasks.values(), *others)


def definitions(name: str, **settings: Any) -> list[BenchmarkTask | Mixture]:
    """Return the definitions to register for a name: a benchmark's task, or a mixture's tasks and the mixture.

    Unknown names give an empty list.

    Args:
      name: Name of a benchmark or mixture.
      **settings: Arguments of ``benchmark_task``, such as ``vocabulary`` and ``data_dir``.
    """
    if name in mixtures():
        mixture = mixtures()[name]
        return [*(benchmark_task(task, **settings) for task in mixture.tasks), mixture]
    return [benchmark_task(name, **settings)] if name in benchmarks() else []


@functools.cache
def _modules() -> tuple[ModuleType, ...]:
    return tuple(importlib.import_module(f"t5x_like.text.benchmarks.{name}") for name in MODULES)
