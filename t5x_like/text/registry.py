"""Registry of tasks and mixtures: own definitions, benchmarks, and those of another library.

Another library (seqio) is connected by ``seqio_bridge.registration.connect``; this module doesn't know it. Training on
our own tasks never needs it.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.mixtures import Mixture

Definition = FileTask[Any] | Mixture


class ForeignTasks(Protocol):
    """Tasks of another library, which may refer to ours."""

    def add(self, definition: Definition) -> None:
        """Register a task or mixture of ours."""
        ...

    def knows(self, name: str) -> bool:
        """Return whether a name was registered there by others."""
        ...

    def names(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of all tasks and of all mixtures registered there, ours included."""
        ...

    def names_of_tasks(self, name: str) -> list[str]:
        """Return the name of a task, or those of a mixture's tasks."""
        ...

    def splits_of(self, task: str) -> tuple[str, ...]:
        """Return the splits of a task."""
        ...

    def rate_of(self, mixture: str, task: str) -> float:
        """Return the rate of a task in a mixture."""
        ...

    def open_task(self, name: str, config: Any) -> Any:
        """Return the ``OpenedTask`` of a ``LoaderConfig``, in memory if it fits."""
        ...

    def open_stream(self, name: str, config: Any) -> Any:
        """Return the ``OpenedTask`` of a ``LoaderConfig``, read as a stream."""
        ...

    def fingerprint(self, task: str, split: str) -> dict[str, str]:
        """Return everything that determines the tokens in a cache of the task."""
        ...

    def vocabulary(self, task: str) -> Any:
        """Return the vocabulary of a task's targets."""
        ...


_tasks: dict[str, FileTask[Any]] = {}
_mixtures: dict[str, Mixture] = {}
_counts: dict[str, int] = {}
_foreign: ForeignTasks | None = None


def connect(tasks: ForeignTasks) -> None:
    """Connect another library, so that each side knows the tasks of the other."""
    global _foreign  # one process has one registry
    if _foreign is not tasks:
        _foreign = tasks
        for definition in (*_tasks.values(), *_mixtures.values()):
            tasks.add(definition)


def foreign(what: str = "") -> ForeignTasks:
    """Return the connected library.

    Args:
      what: Subject of the error message, which needs the library.

    Raises:
      ValueError: None is connected.
    """
    if _foreign is None:
        raise ValueError(
            f"{what or 'this'} needs seqio; connect it first: t5x_like.text.seqio_bridge.registration.connect()"
        )
    return _foreign


def register(definitions: Iterable[Definition]) -> None:
    """Register tasks, then mixtures; repeating the same definition is allowed.

    Raises:
      ValueError: A name is taken by another definition, or a mixture names an unknown task.
    """
    given = list(definitions)
    mixtures = [each for each in given if isinstance(each, Mixture)]
    for each in given:
        if not isinstance(each, Mixture) and _is_new(each):
            _tasks[each.name] = each
            _add_to_foreign(each)
    for mixture in mixtures:  # last, because their tasks must be known
        if _is_new(mixture):
            for name in mixture.tasks:
                if definition(name) is None and not _is_foreign(name):
                    raise unknown(name)
            _mixtures[mixture.name] = mixture
            _add_to_foreign(mixture)


def _is_new(given: Definition) -> bool:
    """Return whether a definition isn't registered yet.

    Raises:
      ValueError: Its name is taken by another one.
    """
    known = _tasks.get(given.name) or _mixtures.get(given.name)
    if known is None and not _is_foreign(given.name):
        return True
    if known == given:
        return False
    raise ValueError(f"there is already another task or mixture {given.name!r}; rename one of them")


def _add_to_foreign(given: Definition) -> None:
    if _foreign is not None:
        _foreign.add(given)


def is_defined(name: str) -> bool:
    """Return whether a name is registered, here or in the connected library; benchmarks count only once they are."""
    return name in _tasks or name in _mixtures or _is_foreign(name)


def definition(name: str) -> Definition | None:
    """Return our own definition of a task, mixture or benchmark; None for others' tasks.

    A benchmark is registered on first use, unless its name is taken: T5's own modules have benchmarks of the same
    names.
    """
    if not is_defined(name):
        register(catalogue.definitions(name))
    return _tasks.get(name) or _mixtures.get(name)


def task(name: str) -> FileTask[Any] | None:
    """Return our own task of that name; None for others' tasks and for mixtures.

    Raises:
      ValueError: There is no such name.
    """
    if definition(name) is None and not _is_foreign(name):
        raise unknown(name)
    return _tasks.get(name)


def _is_foreign(name: str) -> bool:
    return _foreign is not None and _foreign.knows(name)


def task_names() -> list[str]:
    """Return the names of all registered tasks."""
    return sorted({*_tasks, *(_foreign.names()[0] if _foreign else ())})


def mixture_names() -> list[str]:
    """Return the names of all registered mixtures."""
    return sorted({*_mixtures, *(_foreign.names()[1] if _foreign else ())})


def unknown(name: str) -> ValueError:
    """Return an error for an unknown name, which suggests similar names."""
    names = [*task_names(), *mixture_names()]
    near = difflib.get_close_matches(name, [*names, *catalogue.all_names()], n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    listed = f"Registered: {', '.join(names)}" if names else "None is registered"
    return ValueError(
        f"no task or mixture {name!r}; {hint}{listed}. Define it in the gin file, or register it "
        "in a Python module that is imported before (module=NAME)"
    )


def names_of_tasks(name: str) -> list[str]:
    """Return the name of a task, or the names of a mixture's tasks.

    Raises:
      ValueError: There is no such name.
    """
    if task(name) is not None:
        return [name]
    return list(_mixtures[name].tasks) if name in _mixtures else foreign().names_of_tasks(name)


def splits_of(name: str) -> tuple[str, ...]:
    """Return the splits of a task.

    Raises:
      ValueError: There is no such name.
    """
    known = task(name)
    return foreign().splits_of(name) if known is None else known.splits


def rate_of(mixture: str, name: str, count: Callable[[str], int] | None = None) -> float:
    """Return the rate of a task in a mixture.

    Args:
      mixture: Name of the mixture.
      name: Name of the task.
      count: Returns the number of training examples of a task; the default counts them by reading.

    Raises:
      ValueError: The rate depends on an unknown number of examples.
    """
    if definition(mixture) is None or definition(name) is None:
        return foreign().rate_of(mixture, name)
    if mixture not in _mixtures:
        return 1.0
    rates = _mixtures[mixture].rates
    if isinstance(rates, Mapping):
        return float(rates[name])
    known = task(name)
    limit = None if known is None else known.limit_of("train")
    number = (count or num_training_examples)(name)
    return rates.rate(number if limit is None else min(number, limit))


def num_training_examples(name: str) -> int:
    """Return the number of valid training rows of one of our tasks, counted once by reading them."""
    known = task(name)
    assert known is not None
    if "train" not in known.splits:
        return 0
    if name not in _counts:
        _counts[name] = sum(1 for _ in known.read("train"))
    return _counts[name]
