"""Public names of earlier versions: each still works until the next major version, and names its successor.

A public name that changes gets an entry in a table below, and a line in ``docs/whats_new.md``.
"""

import functools
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

# Macros of gin files, by their earlier names.
MACROS = {
    "MEAN_NOISE_SPAN": "MEAN_NOISE_SPAN_LENGTH",
    "ON_DAMAGE": "ON_CORRUPTION",
    "REMATERIALISATION": "REMAT",
    "START_FROM": "INITIAL_CHECKPOINT",
    "TOTAL_STEPS": "TRAIN_STEPS",
}

# Flags by verb and earlier name.
FLAGS = {
    "evaluate --normalisation": "--normalization",
}

# Arguments of functions, by ``function.argument``.
ARGUMENTS = {
    "Pretrained.embed.takes": "pooling",
}

_P = ParamSpec("_P")
_R = TypeVar("_R")


def renamed_arguments(function_name: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator of a function whose arguments ``ARGUMENTS`` renames.

    The signature, which help and type checkers read, has the present names alone. A ``FutureWarning`` names both.

    Args:
      function_name: Public name of the function, such as ``Pretrained.embed``.
    """
    successors = {
        name.rpartition(".")[2]: successor
        for name, successor in ARGUMENTS.items()
        if name.rpartition(".")[0] == function_name
    }

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            for earlier in [name for name in kwargs if name in successors]:
                successor = successors[earlier]
                if successor in kwargs:
                    raise TypeError(
                        f"{function_name}: {earlier}= is the earlier name of {successor}=; give one"
                    )
                warnings.warn(_message(f"{function_name}({earlier}=…)", f"{successor}=…"), FutureWarning, 2)
                kwargs[successor] = kwargs.pop(earlier)
            return function(*args, **kwargs)

        return call

    return decorate


def present_flags(verb: str, arguments: Sequence[str]) -> list[str]:
    """Return a verb's arguments with the present names of its flags, and log a warning for each earlier one.

    Args:
      verb: Verb of ``t5x-like``.
      arguments: Flags and values as they were typed, ``--flag=value`` too.
    """
    present = []
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        successor = FLAGS.get(f"{verb} {flag}")
        if successor:
            log_successor(f"t5x-like {verb} {flag}", successor)
        present.append(f"{successor}{equals}{value}" if successor else argument)
    return present


def successors_of_macros(known: Mapping[str, object] | set[str]) -> dict[str, str]:
    """Return the present names of earlier macros that a configuration has no use for.

    Args:
      known: Macros that its files read, as ``%NAME``. A file's own macro may have any name.
    """
    return {
        earlier: successor
        for earlier, successor in MACROS.items()
        if successor in known and earlier not in known
    }


def log_successor(earlier: str, successor: str) -> None:
    """Log a warning that a name of gin or of the command line has a successor.

    Args:
      earlier: Name that was given, with its kind.
      successor: Present name.
    """
    logging.getLogger(__name__).warning(_message(earlier, successor))


def _message(earlier: str, successor: str) -> str:
    return f"{earlier} is now {successor}; the earlier name works until version 2.0.0"
