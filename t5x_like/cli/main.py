"""The console script ``t5x-like``: finds the verb, runs it, and turns what goes wrong into an exit code.

Nothing heavy is imported here nor by a verb's file: a verb imports what it needs when it runs.
"""

import argparse
import importlib
import logging
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import t5x_like
from t5x_like.cli.quiet import hush_tensorflow
from t5x_like.gin_config.user_error import UserError, nearest

# Verb: the module of this package that has add_arguments(parser) and run(arguments), and its line in --help.
VERBS = {
    "train": ("train", "train a model, or continue a run where it stands"),
    "evaluate": ("evaluate", "score a run's weights on tasks"),
    "sweep": ("sweep", "run a recipe over a small grid and seeds; a table of all, and the best"),
    "predict": ("predict", "answer lines of text with a run's weights"),
    "config": ("config", "show or validate a resolved configuration"),
    "model": ("model", "show a model's weights, and how a mesh would cut them"),
    "tasks": ("tasks", "list the tasks that are known, or show one's examples"),
    "data": ("data", "see which benchmarks' data are there, and fetch them"),
    "cache": ("cache", "tokenise tasks once, for training that starts at once anywhere in them"),
    "vocabulary": ("vocabulary", "learn vocabularies from text, compare them, look into one"),
    "corpus": ("corpus", "build a training corpus from a web crawl; see what its rules do"),
    "convert": ("convert", "turn Hugging Face weights into a run, and back"),
    "lm_eval": ("lm_eval", "run EleutherAI's lm-evaluation-harness on our checkpoints"),
    "report": ("report", "write a run's curves, scores and predictions as one page"),
}

MISTAKE, INTERRUPTED, FAILED = 2, 130, 1


class Parser(argparse.ArgumentParser):
    """argparse that suggests the nearest flag and ends with one clear message."""

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        known = re.findall(r"[^', ]+", choice[2]) if choice else []
        hint = nearest(choice[1], known) if choice else ""
        raise UserError(f"{self.prog}: {message}", hint=hint or f"see {self.prog} --help")

    def flags(self) -> list[str]:
        """Every flag it knows."""
        return [flag for action in self._actions for flag in action.option_strings]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0, 2 for a user's mistake, 130 when interrupted, 1 for a failure of ours."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    hush_tensorflow()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print("t5x-like: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `t5x-like tasks list | head` is not a failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        if not _is_for_people(error) or "--traceback" in arguments:
            raise
        print(f"t5x-like: {_words(error)}", file=sys.stderr)
        return MISTAKE


def _run(arguments: list[str]) -> int:
    if not arguments:
        print(_overview(), file=sys.stderr)
        return MISTAKE
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
    module = importlib.import_module(f"t5x_like.cli.{VERBS[verb][0]}")
    parser = Parser(
        prog=f"t5x-like {verb}",
        description=module.__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    parser.add_argument(
        "--traceback", action="store_true", help="on a mistake, show where in the code it was noticed"
    )
    return module.run(_parse(parser, rest)) or 0


def _parse(parser: Parser, arguments: list[str]) -> argparse.Namespace:
    """argparse, with ``--gin.NAME=value`` kept apart: no parser can know those names."""
    bindings, plain = split_gin_bindings(arguments)
    parsed, unknown = parser.parse_known_args(plain)
    if bindings and not hasattr(parsed, "gin_file"):
        raise UserError(f"{parser.prog} reads no gin configuration, so it can't use --gin.{bindings[0]}")
    if unknown:
        known = [*_innermost(parser, plain).flags()]
        name = unknown[0].split("=")[0]
        what = "flag" if name.startswith("-") else "argument"
        raise UserError(
            f"{parser.prog} has no {what} {name!r}",
            hint=nearest(name, known) if what == "flag" else f"see {parser.prog} --help",
        )
    parsed.gin_bindings = bindings
    return parsed


def split_gin_bindings(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Takes ``NAME=value`` out of ``--gin.NAME=value`` and ``--gin.NAME value``."""
    bindings, plain = [], []
    waiting = iter(arguments)
    for argument in waiting:
        if not argument.startswith("--gin."):
            plain.append(argument)
            continue
        binding = argument.removeprefix("--gin.")
        bindings.append(binding if "=" in binding else f"{binding}={next(waiting, '')}")
    return bindings, plain


def _innermost(parser: Parser, arguments: list[str]) -> Parser:
    """The parser of the sub-verb that was given, if there is one."""
    for action in parser._actions:
        for name, inner in (action.choices or {}).items() if isinstance(action.choices, dict) else ():
            if name in arguments:
                return inner
    return parser


def _overview() -> str:
    width = max(map(len, VERBS))
    lines = [f"  {verb:<{width}}  {line}" for verb, (_, line) in VERBS.items()]
    return "\n".join(
        [
            "usage: t5x-like VERB [flags]",
            "",
            "Train, fine-tune, evaluate and use Transformers, from gin recipes.",
            "",
            *lines,
            "",
            "t5x-like VERB --help tells a verb's flags. A first run, on data that is shipped:",
            "  t5x-like train --gin_file=gin/recipes/quickstart/pretrain.gin "
            "--gin.MODEL_DIR=\"'runs/pretrain'\"",
        ]
    )


def _is_for_people(error: Exception) -> bool:
    """Our own ValueErrors and the system's word on a file are messages; another library's is a failure."""
    if isinstance(error, UserError):
        return True
    if isinstance(error, OSError) and error.filename is not None:
        return True
    frames = list(traceback.walk_tb(error.__traceback__))
    raised_in = frames[-1][0].f_globals.get("__name__", "") if frames else ""
    return raised_in.split(".")[0] == "t5x_like"


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or str(error)).lower()}"
    return str(error)
