"""The console script ``t5x-like``: runs a verb and turns errors into exit codes.

Only the verb that is run is imported. A verb's file imports at its top what loads quickly; JAX, which takes seconds,
is imported when the verb runs, so that ``t5x-like VERB --help`` answers within a second.
"""

import argparse
import errno
import importlib
import logging
import os
import re
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

import t5x_like
from t5x_like.cli.quiet_tensorflow import quiet_tensorflow
from t5x_like.deprecated_names import present_flags
from t5x_like.gin_config.statements import Setting
from t5x_like.gin_config.user_error import UserError, message_of, nearest
from t5x_like.io.end_process import end_process
from t5x_like.io.terminal import escape_on_terminals
from t5x_like.partitioning.process_watch import LOST_PROCESS
from t5x_like.partitioning.processes import end_if_one_of_several
from t5x_like.partitioning.rendezvous import MissingProcessError

# Verb and its line in --help. ``module_of`` has add_arguments(parser) and run(arguments).
VERBS = {
    "new": "start a project: a recipe, a little data and the commands to run",
    "train": "train a model, or continue a run from its newest checkpoint",
    "evaluate": "score a run's weights on tasks",
    "sweep": "run a recipe over a small grid and seeds; a table of all, and the best",
    "perplexity": "measure what texts cost a decoder",
    "scores": "mean and deviation of the scores of several evaluations",
    "submission": "make and check the files that GLUE's and SuperGLUE's servers score",
    "predict": "answer lines of text with a run's weights",
    "win_rate": "compare the answers of two models by a judge",
    "checkpoint": "list, check, compare, thin out and export a run's checkpoints",
    "analyze": "look inside a model: anisotropy of its vectors, by layer",
    "serve": "serve a model over HTTP: completions, chats, scores, embeddings, a page to try it",
    "index": "search texts by meaning: vectors of texts, questions to them, scores",
    "config": "show or validate a resolved configuration",
    "model": "show a model's weights, and how a mesh would cut them",
    "plan": "compile a recipe's step for devices that aren't here: memory, time, cost",
    "tasks": "list the tasks that are known, or show one's examples",
    "data": "see which benchmarks' data are there, and fetch them",
    "cache": "tokenize tasks once, for training that starts at once anywhere in them",
    "vocabulary": "learn vocabularies from text, compare them, look into one",
    "vectors": "train vectors of words, score them, convert their files",
    "corpus": "build a training corpus from a web crawl; see what its rules do",
    "convert": "turn Hugging Face weights into a run, and back",
    "lm_eval": "run EleutherAI's lm-evaluation-harness on our checkpoints",
    "report": "write a run's curves, scores and predictions as one page",
    "runs": "list runs, show one, compare several: settings, metrics, curves",
    "completion": "print a script for completion in bash or zsh",
}

_ELSEWHERE = {"vectors": "t5x_like.ancestors.vectors_command"}  # verbs of packages that no other imports

USER_ERROR, INTERRUPTED, FAILED = 2, 130, 1
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a write that fails names no file


class VerbParser(argparse.ArgumentParser):
    """An argument parser that raises a ``UserError`` and suggests the nearest valid choice."""

    def error(self, message: str) -> NoReturn:
        """Raise the error of a wrong command line."""
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        known = re.findall(r"[^', ]+", choice[2]) if choice else []
        hint = nearest(choice[1], known) if choice else ""
        raise UserError(f"{self.prog}: {message}", hint=hint or f"see {self.prog} --help")

    def flags(self) -> list[str]:
        """Return every flag of the parser."""
        return [flag for action in self._actions for flag in action.option_strings]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns 0, 2 for a user's error, 130 if interrupted, 75 if another process is missing, or 1 for a failure of ours.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    quiet_tensorflow()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print("t5x-like: interrupted", file=sys.stderr)
        end_if_one_of_several(INTERRUPTED)
        return INTERRUPTED
    except BrokenPipeError:  # `t5x-like tasks list | head` is not a failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        if not _is_for_people(error) or "--traceback" in arguments:
            raise
        print(f"t5x-like: {_with_flags(message_of(error), arguments)}", file=sys.stderr)
        if isinstance(error, MissingProcessError):
            return LOST_PROCESS
        end_if_one_of_several(USER_ERROR)
        return USER_ERROR


def run_and_exit() -> NoReturn:
    """Run one command as ``main``, and end the process with its exit code."""
    escape_on_terminals()
    end_process(main())


def _run(arguments: list[str]) -> int:
    if not arguments:
        print(_overview(), file=sys.stderr)
        return USER_ERROR
    if arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if arguments[0] == "--version":
        print(f"t5x-like {t5x_like.__version__}")
        return 0
    verb, *rest = arguments
    if verb not in VERBS:
        kind = "flag" if verb.startswith("-") else "verb"
        hint = nearest(verb, VERBS) or f"choose from: {', '.join(VERBS)}"
        raise UserError(f"there is no {kind} {verb!r}", hint=hint)
    parsed = _parse(parser_of(verb), present_flags(verb, rest))
    return module_of(verb).run(parsed) or 0


def module_of(verb: str) -> ModuleType:
    """Import the module that runs a verb."""
    return importlib.import_module(_ELSEWHERE.get(verb, f"t5x_like.cli.{verb}"))


def parser_of(verb: str) -> VerbParser:
    """Return the argument parser of a verb."""
    module = module_of(verb)
    parser = VerbParser(
        prog=f"t5x-like {verb}",
        description=module.__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    parser.add_argument(
        "--traceback", action="store_true", help="on a mistake, show where in the code it was noticed"
    )
    return parser


def _parse(parser: VerbParser, arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments; ``--set`` and ``--gin.NAME=value`` are kept apart and in order, for any name is theirs."""
    overrides, plain = split_overrides(arguments)
    parsed, unknown = parser.parse_known_args(plain)
    if overrides and not hasattr(parsed, "gin_file"):
        flag = overrides[0].flag if isinstance(overrides[0], Setting) else f"--gin.{overrides[0]}"
        raise UserError(f"{parser.prog} reads no gin configuration, so it can't use {flag}")
    if unknown:
        known = [*_innermost(parser, plain).flags()]
        name = unknown[0].split("=")[0]
        what = "flag" if name.startswith("-") else "argument"
        raise UserError(
            f"{parser.prog} has no {what} {name!r}",
            hint=nearest(name, known) if what == "flag" else f"see {parser.prog} --help",
        )
    parsed.overrides = overrides
    return parsed


def split_overrides(arguments: Sequence[str]) -> tuple[list[str | Setting], list[str]]:
    """Return the values that flags give to a configuration, and the other arguments.

    Args:
      arguments: ``--set NAME=text`` becomes a ``Setting``, ``--gin.NAME=value`` (or ``--gin.NAME value``) a
        binding in gin's syntax.

    Raises:
      UserError: ``--set`` has no name or no value.
    """
    overrides: list[str | Setting] = []
    plain: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        flag, equals, rest = argument.partition("=")
        if flag == "--set":
            setting = rest if equals else next(waiting, "")
            name, equals, text = setting.partition("=")
            if not (name.strip() and equals):
                raise UserError(f"--set {setting}: give a name and a value", hint="write --set NAME=value")
            overrides.append(Setting(name.strip(), text, f"--set {setting}"))
        elif argument.startswith("--gin."):
            binding = argument.removeprefix("--gin.")
            overrides.append(binding if "=" in binding else f"{binding}={next(waiting, '')}")
        else:
            plain.append(argument)
    return overrides, plain


def _with_flags(message: str, arguments: Sequence[str]) -> str:
    """Return a message in which arguments of Python that are flags of the verb are written as flags.

    Args:
      message: ``name=value`` names the argument ``name``.
      arguments: The command line.
    """
    if not arguments or arguments[0] not in VERBS:
        return message
    parser = parser_of(arguments[0])
    parsers = {id(each): each for each in (parser, _innermost(parser, list(arguments[1:])))}
    takes_value = {
        flag.removeprefix("--"): action.nargs != 0
        for each in parsers.values()
        for action in each._actions
        for flag in action.option_strings
    }

    def as_flag(argument: re.Match[str]) -> str:
        if takes_value.get(argument["name"], True):
            return f"--{argument[0]}" if argument["name"] in takes_value else argument[0]
        return f"--{argument['name']}" if argument["value"] == "True" else argument[0]

    return re.sub(r"(?<![^\s(])(?P<name>[a-z_]+)=(?P<value>\w*)", as_flag, message)


def _innermost(parser: VerbParser, arguments: list[str]) -> VerbParser:
    """Return the parser of the given sub-verb, if there is one."""
    for action in parser._actions:
        for name, inner in (action.choices or {}).items() if isinstance(action.choices, dict) else ():
            if name in arguments:
                return inner
    return parser


def _overview() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {verb:<{width}}  {line}" for verb, line in VERBS.items()]
    return "\n".join(
        [
            "usage: t5x-like VERB [flags]",
            "",
            "Train, fine-tune, evaluate and use Transformers, from gin recipes.",
            "",
            *lines,
            "",
            "t5x-like VERB --help lists a verb's flags. A first run, on data that is shipped:",
            "  t5x-like train --gin_file=gin/recipes/quickstart/pretrain.gin --model_dir runs/pretrain",
        ]
    )


def _is_for_people(error: Exception) -> bool:
    """Return whether an error is a message to the user: our own, or the system's about a file."""
    if isinstance(error, UserError):
        return True
    if isinstance(error, OSError) and (error.filename is not None or error.errno in _NO_SPACE):
        return True
    frames = list(traceback.walk_tb(error.__traceback__))
    raised_in = frames[-1][0].f_globals.get("__name__", "") if frames else ""
    return raised_in.split(".")[0] == "t5x_like"
