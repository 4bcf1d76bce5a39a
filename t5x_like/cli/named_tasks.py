"""Tasks that verbs name: benchmarks, those of a gin file, and those of users' modules."""

import argparse
from collections.abc import Iterable

from t5x_like.cli.arguments import EXPERIMENT, import_users_modules, load_part
from t5x_like.text import registry
from t5x_like.text.tasks.foreign_tasks import Definition
from t5x_like.text.tasks.task_set import TaskSet


def register_tasks(arguments: argparse.Namespace) -> list[str]:
    """Register the tasks of gin file and modules, and return the names of all registered tasks and mixtures.

    Args:
      arguments: The gin flags.

    Raises:
      UserError: A definition can't be built.
    """
    import_users_modules(arguments)
    if arguments.gin_file:
        registry.register(load_part(arguments, EXPERIMENT, "tasks", "TASKS"))
    return registry.names()


def tasks_of(names: Iterable[str], definitions: Iterable[Definition] = ()) -> list[TaskSet]:
    """Return tasks, and the tasks of mixtures, by name.

    Args:
      names: Names of tasks, mixtures and benchmarks.
      definitions: Definitions to register before.

    Raises:
      ValueError: There is no such name.
    """
    registry.register(definitions)
    return [registry.resolve(name) for name in names]
