"""Flags that several verbs share, and what they stand for."""

import argparse
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t5x_like.gin_config.user_error import Mistake

if TYPE_CHECKING:
    from t5x_like.gin_config.configuration import Loaded


# What a recipe can be about: one for each verb that runs recipes.
EXPERIMENT = "t5x_like.training.experiment.Experiment"
EVALUATION = "t5x_like.evaluation.run.EvaluationRun"
SUITE = "t5x_like.evaluation.suite_settings.SuiteRun"
PREDICTION = "t5x_like.evaluation.run.PredictionRun"
REPORT = "t5x_like.cli.report_page.ReportPage"
CORPUS = "t5x_like.corpora.building.recipe.CorpusRecipe"
VERBS = {
    EXPERIMENT: "train",
    EVALUATION: "evaluate",
    SUITE: "evaluate --recipe",
    PREDICTION: "predict",
    REPORT: "report",
    CORPUS: "corpus build",
}


def add_gin_arguments(
    parser: argparse.ArgumentParser, *, file_flag: str = "--gin_file", required: bool = False
) -> None:
    """``--gin_file`` (or as the verb calls it), ``--gin.NAME=value``, ``--gin_search_paths`` and ``--module``."""
    group = parser.add_argument_group("configuration")
    group.add_argument(
        file_flag,
        dest="gin_file",
        action="append",
        default=[],
        required=required,
        metavar="FILE",
        help="a gin file; may be given several times, the last overrules. Looked for in the current folder, "
        "in --gin_search_paths, then among the configurations that come with t5x-like",
    )
    group.add_argument(
        "--gin.NAME",
        dest="gin_bindings",
        metavar="VALUE",
        default=[],
        help="overrules one value; text needs quotes inside the shell's: --gin.MODEL_DIR=\"'runs/first'\"",
    )
    group.add_argument(
        "--gin_search_paths",
        default="",
        metavar="DIRS",
        help="more places for gin files, separated by commas",
    )
    add_module_argument(group)


def add_module_argument(parser: Any) -> None:
    """``--module``, for users' own tasks."""
    parser.add_argument(
        "--module",
        action="append",
        default=[],
        metavar="NAME",
        help="import this Python module first, for instance one that registers seqio tasks; may be repeated",
    )


def add_runner_arguments(parser: Any, *, note: str = "") -> None:
    """``--runner`` and ``--beam_option``."""
    parser.add_argument(
        "--runner",
        default="",
        metavar="NAME",
        help="run on Apache Beam instead: DirectRunner, FlinkRunner, SparkRunner, DataflowRunner …; needs the extra "
        f"t5x-like[beam]{note}",
    )
    parser.add_argument(
        "--beam_option",
        action="append",
        default=[],
        metavar="FLAG",
        help="hand this flag to Beam: --beam_option=--region=europe-west4; may be repeated",
    )


def import_users_modules(arguments: argparse.Namespace) -> None:
    """Imports what ``--module`` names; the working directory is on the path, as it is for ``python -m``."""
    from t5x_like.text.seqio_bridge import registration

    registration.connect()
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    for name in arguments.module:
        name = name.removesuffix(".py").replace("/", ".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(f"{error.name}.")):
                raise Mistake(f"--module {name}: there is no such module in {here} or installed") from error
            raise


def load_part(arguments: argparse.Namespace, root: str, parameter: str, knob: str) -> Any:
    """One parameter of ``root`` alone, or the knob that stands for it where no gin file configures the root."""
    from t5x_like.gin_config.configuration import load_one

    return load_one(
        arguments.gin_file,
        arguments.gin_bindings,
        root=root,
        parameter=parameter,
        knob=knob,
        search_paths=_search_paths(arguments),
    )


def load_configuration(arguments: argparse.Namespace, *roots: str) -> "Loaded":
    """Builds the first of ``roots`` (dotted names) that the gin flags configure.

    Raises:
      Mistake: no gin file was given, or the configuration can't be built.
    """
    from t5x_like.gin_config.configuration import load

    if not arguments.gin_file:
        raise Mistake("no gin file given", hint="pass --gin_file=…; recipes are in gin/recipes")
    import_users_modules(arguments)
    return load(
        arguments.gin_file,
        arguments.gin_bindings,
        roots=roots,
        search_paths=_search_paths(arguments),
        verbs=VERBS,
    )


def _search_paths(arguments: argparse.Namespace) -> list[str]:
    return [path for path in arguments.gin_search_paths.split(",") if path]
