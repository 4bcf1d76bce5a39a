"""What tasks and mixtures there are, by name: ours and any that the user registered with seqio.

seqio learns of ours when something that needs it is asked for; training from our own tasks never does.
"""

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from t5x_like.text.tasks.chat import ChatTask
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.text_task import TextTask

if TYPE_CHECKING:
    import seqio

Definition = PairsTask | PretrainingTask | ChatTask | Mixture

_definitions: dict[str, Definition] = {}
_unknown_to_seqio: list[Definition] = []
_counts: dict[str, int] = {}


def register(definitions: Iterable[Definition]) -> None:
    """Registers tasks, then mixtures. The same definition again is fine; another one under its name is not.

    Raises:
      ValueError: a name is taken, or a mixture names a task that does not exist.
    """
    # Mixtures last: they look their tasks up.
    for definition in sorted(definitions, key=lambda each: isinstance(each, Mixture)):
        known = _definitions.get(definition.name)
        if known == definition:
            continue
        if known is not None or (
            sys.modules.get("seqio") and definition.name in (*task_names(), *mixture_names())
        ):
            raise ValueError(
                f"there is already a task or mixture {definition.name!r}, defined otherwise; rename one of them"
            )
        for task in definition.tasks if isinstance(definition, Mixture) else ():
            if _find(task) is None:
                get(task)
        _definitions[definition.name] = definition
        _unknown_to_seqio.append(definition)
    if sys.modules.get("seqio"):
        tell_seqio()


def tell_seqio() -> ModuleType:
    """Makes all of our tasks known to seqio's own functions, and returns seqio."""
    import seqio

    while _unknown_to_seqio:
        _register_with_seqio(_unknown_to_seqio.pop(0))
    return seqio


def _register_with_seqio(definition: Definition) -> None:
    import seqio

    from t5x_like.text.seqio_bridge import data_sources

    if isinstance(definition, Mixture):
        rates = [(task, definition.rate_of(task)) for task in definition.tasks]
        seqio.MixtureRegistry.add(definition.name, rates)
    elif isinstance(definition, TextTask):
        data_sources.register_text_task(definition)
    elif isinstance(definition, ChatTask):
        data_sources.register_chat_task(definition)
    elif isinstance(definition, PretrainingTask):
        data_sources.register_pretraining_task(definition)
    else:
        from t5x_like.text.benchmarks.task import BenchmarkTask
        from t5x_like.text.seqio_bridge.benchmark_tasks import register_benchmark

        assert isinstance(definition, BenchmarkTask), definition
        register_benchmark(definition)


def is_defined(name: str) -> bool:
    """Whether somebody registered the name, here or with seqio; a benchmark is known without that."""
    return name in _definitions or _known_to_seqio(name)


def definition(name: str) -> Definition | None:
    """Our own definition of a registered name or a benchmark's; None for a task registered with seqio directly."""
    return _find(name)


def _find(name: str) -> Definition | None:
    """What is registered under a name. A benchmark registers itself when it is first asked for."""
    if name not in _definitions and not _known_to_seqio(name):
        from t5x_like.text.benchmarks import catalogue

        register(catalogue.definitions(name))
    return _definitions.get(name)


def _known_to_seqio(name: str) -> bool:
    """Whether somebody else registered the name: T5's own modules have benchmarks by the names of ours."""
    seqio = sys.modules.get("seqio")
    return seqio is not None and (name in seqio.TaskRegistry.names() or name in seqio.MixtureRegistry.names())


def task_names() -> list[str]:
    """Names of all registered tasks."""
    return sorted(tell_seqio().TaskRegistry.names())


def mixture_names() -> list[str]:
    """Names of all registered mixtures."""
    return sorted(tell_seqio().MixtureRegistry.names())


def get(name: str) -> "seqio.Task | seqio.Mixture":
    """The task or mixture of that name.

    Raises:
      ValueError: there is none; says which names are near.
    """
    seqio = tell_seqio()
    _find(name)
    if name in seqio.MixtureRegistry.names():
        return seqio.MixtureRegistry.get(name)
    if name in seqio.TaskRegistry.names():
        return seqio.TaskRegistry.get(name)
    from t5x_like.text.benchmarks import catalogue

    names = [*task_names(), *mixture_names()]
    near = difflib.get_close_matches(name, [*names, *catalogue.names()], n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    listed = f"Registered: {', '.join(names)}" if names else "None is registered"
    raise ValueError(
        f"no task or mixture {name!r}; {hint}{listed}. Define it in the gin file, or register it in a Python module "
        "named by --module"
    )


def get_task(name: str) -> "seqio.Task":
    """The task of that name.

    Raises:
      ValueError: there is none, or it is a mixture.
    """
    import seqio

    found = get(name)
    if isinstance(found, seqio.Mixture):
        raise ValueError(f"{name!r} is a mixture of {', '.join(t.name for t in found.tasks)}; name one task")
    return found


def tasks_of(name: str) -> "list[seqio.Task]":
    """The task of that name, or the tasks of the mixture of that name."""
    import seqio

    found = get(name)
    return list(found.tasks) if isinstance(found, seqio.Mixture) else [found]


def names_of_tasks(name: str) -> list[str]:
    """The task of that name, or the tasks of the mixture of that name, by their names.

    Raises:
      ValueError: there is none.
    """
    known = _find(name)
    if known is None:
        return [task.name for task in tasks_of(name)]
    return list(known.tasks) if isinstance(known, Mixture) else [name]


def splits_of(task: str) -> tuple[str, ...]:
    """The splits of a task."""
    known = _find(task)
    if known is None or isinstance(known, Mixture):
        return tuple(get_task(task).splits)
    return known.splits


def rate_of(mixture: str, task: str, count: Callable[[str], int] | None = None) -> float:
    """How often a mixture draws a task. ``count`` says how many examples a task has to train on.

    Raises:
      ValueError: the rate depends on a number of examples that nobody knows.
    """
    known = _find(mixture)
    if not isinstance(known, Mixture) or _find(task) is None:
        found = get(mixture)
        rate = getattr(found, "get_rate", None)
        return 1.0 if rate is None else float(rate(get_task(task)))
    if isinstance(known.rates, Mapping):
        return float(known.rates[task])
    return known.rates.rate((count or num_training_examples)(task))


def num_training_examples(task: str) -> int:
    """Good rows of one of our tasks to train on, counted once by reading them."""
    known = _definitions[task]
    assert not isinstance(known, Mixture)
    if "train" not in known.splits:
        return 0
    if task not in _counts:
        _counts[task] = sum(1 for _ in known.read("train"))
    return _counts[task]


def import_modules(modules: Sequence[str]) -> None:
    """Imports the user's modules, which register tasks as they load; the working directory is searched too.

    Raises:
      ValueError: no module of that name. Errors inside a module come as they are.
    """
    if modules and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not (module + ".").startswith(error.name + "."):
                raise
            raise ValueError(
                f"no Python module {module!r} in {os.getcwd()} or on the Python path; name it without .py"
            ) from error
