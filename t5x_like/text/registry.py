"""Tasks and mixtures by name: those that were registered, benchmarks, and those of another library.

Another library (seqio) is connected by ``seqio_bridge.registration.connect``; nothing here knows it. Training from our
own tasks never needs it.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.mixtures import Mixture

Definition = FileTask[Any] | Mixture


class ForeignTasks(Protocol):
    """The tasks of another library, which may refer to ours."""

    def add(self, definition: Definition) -> None:
        """Takes note of a task or mixture of ours."""
        ...

    def knows(self, name: str) -> bool:
        """Whether a name is registered there by somebody else."""
        ...

    def names(self) -> tuple[Sequence[str], Sequence[str]]:
        """Names of the tasks and of the mixtures that are registered there, ours among them."""
        ...

    def names_of_tasks(self, name: str) -> list[str]:
        """The name of a task, or those of a mixture's tasks."""
        ...

    def splits_of(self, task: str) -> tuple[str, ...]:
        """The splits of a task."""
        ...

    def rate_of(self, mixture: str, task: str) -> float:
        """How often a mixture draws a task."""
        ...

    def open_task(self, name: str, config: Any) -> Any:
        """The ``OpenedTask`` of a ``LoaderConfig``; its tokens are held in memory where they fit."""
        ...

    def open_stream(self, name: str, config: Any) -> Any:
        """The ``OpenedTask`` of a ``LoaderConfig``, read in order."""
        ...

    def fingerprint(self, task: str, split: str) -> dict[str, str]:
        """What decides the tokens that a cache of the task holds."""
        ...

    def vocabulary(self, task: str) -> Any:
        """The vocabulary of a task's targets."""
        ...


_tasks: dict[str, FileTask[Any]] = {}
_mixtures: dict[str, Mixture] = {}
_counts: dict[str, int] = {}
_foreign: ForeignTasks | None = None


def connect(tasks: ForeignTasks) -> None:
    """Makes the tasks of another library known here, and ours known there."""
    global _foreign  # one process has one registry
    if _foreign is not tasks:
        _foreign = tasks
        for definition in (*_tasks.values(), *_mixtures.values()):
            tasks.add(definition)


def foreign(what: str = "") -> ForeignTasks:
    """The connected library.

    Raises:
      ValueError: none is connected; says ``what`` needs it.
    """
    if _foreign is None:
        raise ValueError(
            f"{what or 'this'} needs seqio; connect it first: t5x_like.text.seqio_bridge.registration.connect()"
        )
    return _foreign


def register(definitions: Iterable[Definition]) -> None:
    """Registers tasks, then mixtures. The same definition again is fine; another one under its name is not.

    Raises:
      ValueError: a name is taken, or a mixture names a task that does not exist.
    """
    given = list(definitions)
    mixtures = [each for each in given if isinstance(each, Mixture)]
    for each in given:
        if not isinstance(each, Mixture) and _is_new(each):
            _tasks[each.name] = each
            _tell(each)
    for mixture in mixtures:  # last: they look their tasks up
        if _is_new(mixture):
            for name in mixture.tasks:
                if definition(name) is None and not _is_foreign(name):
                    raise unknown(name)
            _mixtures[mixture.name] = mixture
            _tell(mixture)


def _is_new(given: Definition) -> bool:
    """Whether a definition isn't registered yet.

    Raises:
      ValueError: its name is taken by another one.
    """
    known = _tasks.get(given.name) or _mixtures.get(given.name)
    if known is None and not _is_foreign(given.name):
        return True
    if known == given:
        return False
    raise ValueError(
        f"there is already a task or mixture {given.name!r}, defined otherwise; rename one of them"
    )


def _tell(given: Definition) -> None:
    if _foreign is not None:
        _foreign.add(given)


def is_defined(name: str) -> bool:
    """Whether somebody registered the name, here or elsewhere; a benchmark is known without that."""
    return name in _tasks or name in _mixtures or _is_foreign(name)


def definition(name: str) -> Definition | None:
    """Our own definition of a registered name or a benchmark's; None for others' tasks.

    A benchmark is registered when it is first asked for, unless somebody else registered its name: T5's own modules
    have benchmarks by the names of ours.
    """
    if not is_defined(name):
        register(catalogue.definitions(name))
    return _tasks.get(name) or _mixtures.get(name)


def task(name: str) -> FileTask[Any] | None:
    """Our own task of that name; None for others' tasks and for mixtures.

    Raises:
      ValueError: there is no such name.
    """
    if definition(name) is None and not _is_foreign(name):
        raise unknown(name)
    return _tasks.get(name)


def _is_foreign(name: str) -> bool:
    return _foreign is not None and _foreign.knows(name)


def task_names() -> list[str]:
    """Names of all registered tasks."""
    return sorted({*_tasks, *(_foreign.names()[0] if _foreign else ())})


def mixture_names() -> list[str]:
    """Names of all registered mixtures."""
    return sorted({*_mixtures, *(_foreign.names()[1] if _foreign else ())})


def unknown(name: str) -> ValueError:
    """What to raise where there is no such name: says which names are near."""
    names = [*task_names(), *mixture_names()]
    near = difflib.get_close_matches(name, [*names, *catalogue.all_names()], n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    listed = f"Registered: {', '.join(names)}" if names else "None is registered"
    return ValueError(
        f"no task or mixture {name!r}; {hint}{listed}. Define it in the gin file, or register it in a Python module "
        "named by --module"
    )


def names_of_tasks(name: str) -> list[str]:
    """The task of that name, or the tasks of the mixture of that name, by their names.

    Raises:
      ValueError: there is none.
    """
    if task(name) is not None:
        return [name]
    return list(_mixtures[name].tasks) if name in _mixtures else foreign().names_of_tasks(name)


def splits_of(name: str) -> tuple[str, ...]:
    """The splits of a task.

    Raises:
      ValueError: there is none.
    """
    known = task(name)
    return foreign().splits_of(name) if known is None else known.splits


def rate_of(mixture: str, name: str, count: Callable[[str], int] | None = None) -> float:
    """How often a mixture draws a task. ``count`` says how many examples a task has to train on.

    Raises:
      ValueError: the rate depends on a number of examples that nobody knows.
    """
    if definition(mixture) is None or definition(name) is None:
        return foreign().rate_of(mixture, name)
    if mixture not in _mixtures:
        return 1.0
    rates = _mixtures[mixture].rates
    if isinstance(rates, Mapping):
        return float(rates[name])
    return rates.rate((count or num_training_examples)(name))


def num_training_examples(name: str) -> int:
    """Good rows of one of our tasks to train on, counted once by reading them."""
    known = task(name)
    assert known is not None
    if "train" not in known.splits:
        return 0
    if name not in _counts:
        _counts[name] = sum(1 for _ in known.read("train"))
    return _counts[name]
