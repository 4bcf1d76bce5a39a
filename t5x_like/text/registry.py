"""Registry of tasks and mixtures: own definitions, benchmarks, and those of another library.

Another library (seqio) is connected by ``seqio_bridge.registration.connect``; this module doesn't know it. Training on
our own tasks never needs it.
"""

import difflib
from collections.abc import Iterable
from typing import Any

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.foreign_tasks import Definition, ForeignTasks, require_connected
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.task_set import Task, TaskSet

_tasks: dict[str, FileTask[Any]] = {}
_mixtures: dict[str, Mixture] = {}
_foreign: ForeignTasks | None = None


def connect(tasks: ForeignTasks) -> None:
    """Connect another library, so that each side knows the tasks of the other."""
    global _foreign  # one process has one registry
    if _foreign is not tasks:
        _foreign = tasks
        for definition in (*_tasks.values(), *_mixtures.values()):
            tasks.add(definition)


def register(definitions: Iterable[Definition]) -> None:
    """Register tasks, then mixtures; repeating the same definition is allowed.

    Raises:
      ValueError: A name is taken by another definition, or a mixture names an unknown task.
    """
    added = list(definitions)
    mixtures = [each for each in added if isinstance(each, Mixture)]
    for each in added:
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


def _is_new(definition: Definition) -> bool:
    """Return whether a definition isn't registered yet.

    Raises:
      ValueError: Its name is taken by another one.
    """
    known = _tasks.get(definition.name) or _mixtures.get(definition.name)
    if known is None and not _is_foreign(definition.name):
        return True
    if known == definition:
        return False
    raise ValueError(f"there is already another task or mixture {definition.name!r}; rename one of them")


def _add_to_foreign(definition: Definition) -> None:
    if _foreign is not None:
        _foreign.add(definition)


def definition(name: str) -> Definition | None:
    """Return our own definition of a task, mixture or benchmark; None for others' tasks.

    A benchmark is registered on first use, unless its name is taken: T5's own modules have benchmarks of the same
    names.
    """
    if name not in _tasks and name not in _mixtures and not _is_foreign(name):
        register(catalogue.definitions(name))
    return _tasks.get(name) or _mixtures.get(name)


def require(name: str) -> Definition | None:
    """Return our own definition of a task, mixture or benchmark; None for others' tasks.

    Raises:
      ValueError: There is no such name.
    """
    own = definition(name)
    if own is None and not _is_foreign(name):
        raise unknown(name)
    return own


def _is_foreign(name: str) -> bool:
    return _foreign is not None and _foreign.knows(name)


def names() -> list[str]:
    """Return the names of all registered tasks, then those of all mixtures, in both libraries."""
    tasks, mixtures = _foreign.names() if _foreign else ((), ())
    return [*sorted({*_tasks, *tasks}), *sorted({*_mixtures, *mixtures})]


def unknown(name: str) -> ValueError:
    """Return an error for an unknown name, which suggests similar names."""
    registered = names()
    near = difflib.get_close_matches(name, [*registered, *catalogue.all_names()], n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    listed = f"Registered: {', '.join(registered)}" if registered else "None is registered"
    return ValueError(
        f"no task or mixture {name!r}; {hint}{listed}. Define it in the gin file, or register it "
        "in a Python module that is imported before (module=NAME)"
    )


def resolve(name: str, definitions: Iterable[Definition] = ()) -> TaskSet:
    """Return the task of that name, or the tasks of the mixture of that name.

    Args:
      name: Name of a task, mixture or benchmark.
      definitions: Definitions to register before.

    Raises:
      ValueError: There is no such name, or a definition can't be registered.
    """
    register(definitions)
    own = require(name)
    mixture = _mixtures.get(name)
    if own is None:
        tasks = require_connected(_foreign).names_of_tasks(name)
    else:
        tasks = [name] if mixture is None else mixture.tasks
    return TaskSet(name=name, tasks={each: _task(each) for each in tasks}, mixture=mixture, library=_foreign)


def _task(name: str) -> Task:
    require(name)  # registers a benchmark on first use
    return _tasks.get(name) or require_connected(_foreign).task(name)
