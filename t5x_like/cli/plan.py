"""Compile a recipe's train step for devices that aren't here: memory, communication and time before any is rented.

t5x-like plan --gin_file=gin/recipes/t5_1_1/pretrain_xxl_pod.gin --topology v5e:16x16
t5x-like plan --gin_file=… --topology v5p:4x4x4 --mesh fsdp=16,model=4 --search
t5x-like plan --gin_file=… --topology 2xv5e:16x16 --mesh data=2,fsdp=256
t5x-like plan --gin_file=… --topology cpu:8 --json

TPUs (v4, v5e, v5p, v6e, tpu7x), also several slices of them, need the extra t5x-like[plan] and no TPU. GPUs (a100,
h100, h200, b200) need the extra t5x-like[gpu] and no GPU; without it the counts of a program for CPUs meet the data
sheet. cpu:N simulates N devices. No data and no weights are read. Where a recipe leaves files, a run directory or the
vocabulary open, they are not needed; the model then has the published vocabulary's size.
"""

import argparse
from typing import Any

from t5x_like.cli.arguments import (
    EXPERIMENT,
    add_gin_arguments,
    gin_macros,
    load_configuration,
    undefined_macros,
)
from t5x_like.cli.model import mesh_sizes
from t5x_like.cli.number_types import positive
from t5x_like.gin_config.user_error import UserError

# Values of macros that a step doesn't depend on.
_NOT_READ = {"MODEL_DIR": "not-written", "TRAIN_FILES": "not-read", "VALIDATION_FILES": "not-read"}
_MAX_PROGRAMS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like plan``."""
    parser.add_argument(
        "--topology",
        required=True,
        metavar="CHIP:SHAPE",
        help="the devices: v5p:4x4x4, v5e:16x16, v4:4x4x8, v6e:8x8, 2xv5e:16x16, cpu:8, h100:8 …",
    )
    parser.add_argument(
        "--mesh",
        default="",
        metavar="AXIS=N,…",
        help="devices along data, fsdp, expert, context and model (1 where not given) instead of the recipe's",
    )
    parser.add_argument(
        "--search",
        action="store_true",
        help="compile other meshes, remat policies and numbers of microbatches too, and rank them",
    )
    parser.add_argument(
        "--max_programs",
        type=positive,
        default=_MAX_PROGRAMS,
        metavar="N",
        help=f"the most programs that --search compiles ({_MAX_PROGRAMS}); one of a large model takes minutes",
    )
    parser.add_argument(
        "--decode",
        type=positive,
        default=0,
        metavar="TOKENS",
        help="plan greedy generation of so many tokens for batches of the recipe's rows and inputs, not training",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_gin_arguments(parser, required=True)


def run(arguments: argparse.Namespace) -> int:
    """Print the plan.

    Raises:
      UserError: The recipe, the topology or the mesh can't be used.
    """
    if arguments.max_programs < 1:
        raise UserError(f"--max_programs {arguments.max_programs}: compile at least 1")
    if arguments.decode < 0:
        raise UserError(f"--decode {arguments.decode}: give a number of new tokens, such as 64")
    if arguments.decode and arguments.search:
        raise UserError(
            "--search compares train steps; leave --decode out, or plan each mesh of generation by --mesh"
        )
    from t5x_like.planning.recipe_plan import recipe_plan  # imports JAX

    text = recipe_plan(
        lambda: _experiment(arguments),
        files=arguments.gin_file,
        topology_name=arguments.topology,
        mesh=mesh_sizes(arguments.mesh) if arguments.mesh else None,
        num_new_tokens=arguments.decode,
        max_programs=arguments.max_programs if arguments.search else 0,
        as_json=arguments.json,
    )
    print(text)
    return 0


def _experiment(arguments: argparse.Namespace) -> Any:
    """Return the experiment of a recipe, whose files need not exist."""
    missing = undefined_macros(arguments)
    macros = {name: value for name, value in _NOT_READ.items() if name in missing}
    placeholders = gin_macros(**macros)
    if "VOCABULARY" in missing:
        placeholders += ["VOCABULARY='bytes'"]
        if not any(
            str(override).startswith(("VOCAB_SIZE", "--set VOCAB_SIZE")) for override in arguments.overrides
        ):
            placeholders += ["VOCAB_SIZE=%PUBLISHED_VOCAB"]
    arguments.overrides = [*placeholders, *arguments.overrides]
    return load_configuration(arguments, EXPERIMENT).value
