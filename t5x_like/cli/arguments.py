"""Flags shared by several verbs, and the values they configure."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from t5x_like.cli.flag_values import FlagValues
from t5x_like.configuration_names import trust_module
from t5x_like.gin_config.configuration import (
    Configuration,
    Override,
    load,
    load_one,
    required_macros,
)
from t5x_like.gin_config.statements import Setting
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.engine import Engine
from t5x_like.io.engines import cluster_engine
from t5x_like.io.files import PathLike, as_path
from t5x_like.text.seqio_extra import INSTALL, missing_library

# The tasks that come with t5x-like, for verbs that are given neither a gin file nor a module.
SHIPPED_TASKS = "gin/recipes/quickstart/tasks.gin"

# Gives the macros of a run, from its record.
RECORDED_RUN = "gin/runs/recorded.gin"

# The class that a recipe configures, and the verb that runs it.
EXPERIMENT = "t5x_like.training.experiment.Experiment"
EVALUATION = "t5x_like.evaluation.saved_runs.RunEvaluation"
SUITE = "t5x_like.evaluation.suite_settings.SuiteEvaluation"
PREDICTION = "t5x_like.evaluation.saved_runs.RunPrediction"
REPORT = "t5x_like.reports.run_report.RunReport"
CORPUS = "t5x_like.corpora.building.recipe.CorpusRecipe"
# A recipe whose tasks a module registers needs no others.
_DEFAULTS = ("TASKS = ()",)
# Parameters of the macros that verbs take from a run.
_LENGTHS = {"INPUTS_LENGTH": "inputs_length", "TARGETS_LENGTH": "max_new_tokens"}
VERB_OF_CLASS = {
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
    """Add the flags for gin files, values for them, and users' modules.

    Args:
      parser: Parser of the verb.
      file_flag: Name of the flag for gin files.
      required: A gin file must be given.
    """
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
    add_override_arguments(group)
    group.add_argument(
        "--gin_search_paths",
        default="",
        metavar="DIRS",
        help="more places for gin files, separated by commas",
    )
    add_module_argument(group)


def add_override_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the help of ``--set`` and ``--gin.NAME``, which ``cli.main`` reads itself."""
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="NAME=VALUE",
        default=[],
        help="give a macro, or a parameter such as T5Config.num_heads, another value; may be repeated. Text needs "
        "no quotes of gin's: --set BATCH_SIZE=4 --set INITIAL_CHECKPOINT=runs/pretrain",
    )
    parser.add_argument(
        "--gin.NAME",
        dest="overrides",
        metavar="VALUE",
        default=[],
        help="the same in gin's own syntax, where text is quoted: --gin.INITIAL_CHECKPOINT=\"'runs/pretrain'\"",
    )


def add_model_dir_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--model_dir``, short for ``--set MODEL_DIR=``."""
    parser.add_argument(
        "--model_dir",
        metavar="DIR",
        help="the folder of the run, new or one to continue: the macro MODEL_DIR",
    )


def add_checkpoint_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--checkpoint``, and the gin flags that may replace it."""
    parser.add_argument(
        "--checkpoint",
        default="",
        metavar="RUN_DIR",
        help="the run whose newest weights to take; without --gin_file, its own configuration is used",
    )
    add_gin_arguments(parser)


def add_ensemble_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of runs that predict together with ``--checkpoint``."""
    parser.add_argument(
        "--ensemble",
        nargs="+",
        default=[],
        metavar="RUN_DIR",
        help="further runs of the same model, whose predictions are averaged with those of --checkpoint",
    )
    parser.add_argument(
        "--ensemble_mean",
        choices=["probabilities", "logits"],
        default="probabilities",
        help="what is averaged (probabilities); logits as in T5",
    )


def as_ensemble(configured: Any, arguments: argparse.Namespace) -> Any:
    """Return a ``RunEvaluation`` or ``RunPrediction`` of the runs that the flags name.

    Args:
      configured: The gin files' ``RunEvaluation`` or ``RunPrediction``.
      arguments: Parsed command line.
    """
    if not arguments.ensemble:
        return configured
    return replace(configured, ensemble=tuple(arguments.ensemble), ensemble_mean=arguments.ensemble_mean)


def use_saved_run(arguments: argparse.Namespace, template: str, **macros: str | int | None) -> None:
    """Complete the gin flags: values of a run's record, then ``template``, with ``macros`` that are given.

    The run's ``config.gin`` is not read: it is a copy for people.

    Args:
      arguments: The flags, whose ``gin_file`` and ``overrides`` are changed.
      template: Gin file that configures what the verb runs.
      **macros: Values for the template; None where the user gave none.

    Raises:
      UserError: There is neither ``--checkpoint`` nor ``--gin_file``, or no run.
    """
    available: dict[str, Any] = {"CHECKPOINT": arguments.checkpoint, **macros}
    flags, search = FlagValues.of(arguments), list[str]()
    if not arguments.gin_file:
        if not arguments.checkpoint:
            raise UserError("say which weights: --checkpoint RUN_DIR, or a recipe by --gin_file")
        home = as_path(arguments.checkpoint)
        if not (home / "experiment.json").is_file():
            hint = "a run directory has one; pass the directory that train was given as MODEL_DIR"
            raise UserError(
                f"--checkpoint {arguments.checkpoint}: there is no {home / 'experiment.json'}", hint=hint
            )
        arguments.gin_file = [RECORDED_RUN, template]
        available["INPUTS_LENGTH"] = _source_length(home)
        search = flags.own_search(read_experiment_field(home, "evaluations"))
    # A macro of a parameter that a flag gives would be one that nothing uses.
    unused = {macro for macro, parameter in _LENGTHS.items() if parameter in flags.parameters}
    macros = {name: value for name, value in available.items() if name not in unused}
    arguments.overrides = [*gin_macros(**macros), *search, *arguments.overrides]


def _source_length(run: PathLike) -> int | None:
    """Return the longest source of a generative encoder, whose rows have the target too; None for other runs."""
    record = as_path(run) / "experiment.json"
    if not record.is_file() or ":MaskedTargets" not in record.read_bytes().decode("utf-8", errors="replace"):
        return None
    return read_experiment_field(run, "train").source_length


def read_experiment_field(run: PathLike, name: str) -> Any:
    """Return a field of a run's ``Experiment``, such as ``evaluations``.

    Args:
      run: Folder of the run.
      name: Name of the field.
    """
    from t5x_like.training.run_record import read_recorded  # imports JAX

    return read_recorded(run, name)


def gin_macros(**macros: object) -> list[str]:
    """Return bindings in gin's syntax of the macros that are given.

    >>> gin_macros(CHECKPOINT="runs/first", SPLIT=None)
    ["CHECKPOINT='runs/first'"]
    """
    return [f"{name}={value!r}" for name, value in macros.items() if value]


def add_module_argument(parser: argparse._ActionsContainer) -> None:
    """Add ``--module``, for users' own tasks."""
    parser.add_argument(
        "--module",
        action="append",
        default=[],
        metavar="NAME",
        help="import this Python module of yours first, and let configuration name what its package defines; may be "
        "repeated",
    )


def add_runner_arguments(parser: argparse.ArgumentParser, *, note: str = "") -> None:
    """Add ``--runner`` and the flags of its engines.

    Args:
      parser: Parser of the verb.
      note: More help about ``--runner``.
    """
    parser.add_argument(
        "--runner",
        default="",
        metavar="NAME",
        help="run on a cluster instead: ray (the extra t5x-like[ray]), or a runner of Apache Beam, such as "
        f"DataflowRunner (the extra t5x-like[beam]){note}",
    )
    parser.add_argument(
        "--ray_address",
        metavar="HOST:PORT",
        help="address of the Ray cluster (RAY_ADDRESS, else one that is started on this machine)",
    )
    parser.add_argument(
        "--beam_option",
        action="append",
        default=[],
        metavar="FLAG",
        help="hand this flag to Beam: --beam_option=--region=europe-west4; may be repeated",
    )


def engine_of(arguments: argparse.Namespace) -> Engine | None:
    """Return the engine of ``--runner``, or None for this machine's processes."""
    if not arguments.runner:
        for flag in ("ray_address", "beam_option"):
            if getattr(arguments, flag):
                raise UserError(f"--{flag} needs --runner")
        return None
    return cluster_engine(
        arguments.runner, ray_address=arguments.ray_address, beam_options=arguments.beam_option
    )


def import_users_modules(arguments: argparse.Namespace) -> list[str]:
    """Import the modules of ``--module``, and return their dotted names. Configuration may then name them.

    The working directory is on their path, as with ``python -m``.
    """
    from t5x_like.text.seqio_bridge import registration  # imports what the loader needs

    registration.connect()
    names = [name.removesuffix(".py").replace("/", ".") for name in arguments.module]
    here = str(Path.cwd())
    if names and here not in sys.path:
        sys.path.append(here)
    for name in names:
        trust_module(name)
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(f"{error.name}.")):
                raise UserError(f"--module {name}: there is no such module in {here} or installed") from error
            if library := missing_library(error):
                raise UserError(
                    f"--module {name} needs {library}, which isn't installed", hint=INSTALL
                ) from error
            raise
    return names


def load_part(
    arguments: argparse.Namespace, root: str, parameter: str, macro: str, *, defaults: Sequence[str] = ()
) -> Any:
    """Build ``macro`` alone or, if no gin file defines it, the value bound to ``parameter`` of ``root``.

    Args:
      defaults: Macros that gin files may leave out, ``"NAME = value"``.
    """
    import_users_modules(arguments)
    return load_one(
        arguments.gin_file,
        _overrides(arguments),
        root=root,
        parameter=parameter,
        macro=macro,
        search_paths=_search_paths(arguments),
        defaults=(*_DEFAULTS, *defaults),
    )


def load_configuration(arguments: argparse.Namespace, *roots: str) -> Configuration:
    """Build the first of some objects that the gin flags configure.

    Args:
      arguments: Parsed command line.
      *roots: Dotted names of classes or functions, in order of preference.

    Raises:
      UserError: No gin file was given, or the configuration can't be built.
    """
    if not arguments.gin_file:
        raise UserError(
            "no gin file given",
            hint="pass --gin_file=…; recipes are in gin/recipes, and t5x-like new writes one",
        )
    modules = import_users_modules(arguments)
    return load(
        arguments.gin_file,
        _overrides(arguments),
        roots=roots,
        search_paths=_search_paths(arguments),
        verbs=VERB_OF_CLASS,
        defaults=_DEFAULTS,
        modules=modules,
    )


def undefined_macros(arguments: argparse.Namespace) -> list[str]:
    """Return the macros that the gin files require and neither they nor the flags define."""
    return required_macros(arguments.gin_file, _overrides(arguments), search_paths=_search_paths(arguments))


def override_flags(overrides: Sequence[Override]) -> list[str]:
    """Return the arguments that give another command the same values."""
    return [
        f"--set={each.name}={each.text}" if isinstance(each, Setting) else f"--gin.{each}"
        for each in overrides
    ]


def _overrides(arguments: argparse.Namespace) -> list[Override]:
    """Return the values of ``--set`` and ``--gin.``, and of ``--model_dir`` where a verb has it."""
    model_dir = getattr(arguments, "model_dir", None)
    return [
        *arguments.overrides,
        *([Setting("MODEL_DIR", model_dir, f"--model_dir {model_dir}")] if model_dir is not None else []),
    ]


def _search_paths(arguments: argparse.Namespace) -> list[str]:
    return [path for path in arguments.gin_search_paths.split(",") if path]
