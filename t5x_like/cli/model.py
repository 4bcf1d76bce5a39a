"""Show a model's weights from shapes alone: no memory is used, whatever its size.

t5x-like model show gin/models/llama/7b.gin                  weights, their shapes and the names of their axes
t5x-like model show path/to/t5-small --mesh data=2,fsdp=4    also the part that each of these 8 devices would hold

A model is given by a gin file (a size or a recipe), a Hugging Face directory or a run directory. Where a gin file names
no vocabulary, the model has the published one's size: --set VOCAB_SIZE=4096 gives another.
"""

import argparse
from typing import Any

from t5x_like.cli.arguments import EXPERIMENT, add_gin_arguments, load_part
from t5x_like.gin_config.user_error import UserError, nearest_or_all
from t5x_like.io.files import as_path

# What a recipe adds to a model's size; the size files give the size of the published vocabulary.
_DEFAULTS = ("COMPUTE_DTYPE = 'float32'", "REMAT = 'none'", "VOCAB_SIZE = %PUBLISHED_VOCAB")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of ``t5x-like model``."""
    verbs = parser.add_subparsers(dest="what", required=True, metavar="show")
    show = verbs.add_parser("show", help="its weights, and how a mesh would cut them", allow_abbrev=False)
    show.add_argument(
        "model", nargs="?", metavar="FILE|DIR", help="a gin file, a Hugging Face directory or a run directory"
    )
    show.add_argument(
        "--mesh",
        default="",
        metavar="AXIS=N,…",
        help="the devices along data, fsdp, expert, context and model (1 where not given), which need not be here",
    )
    add_gin_arguments(show)


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    import jax

    from t5x_like.reports.weight_table import weight_table  # imports JAX

    sizes = mesh_sizes(arguments.mesh)
    mesh = jax.sharding.AbstractMesh(tuple(sizes.values()), tuple(sizes)) if arguments.mesh else None
    print(weight_table(_config(arguments), mesh))
    return 0


def mesh_sizes(text: str) -> dict[str, int]:
    """Return the number of devices along each axis of the mesh.

    >>> mesh_sizes("fsdp=4")
    {'data': 1, 'fsdp': 4, 'expert': 1, 'context': 1, 'model': 1}

    Raises:
      UserError: An axis is unknown or given twice, or a size is no number.
    """
    sizes = {"data": 1, "fsdp": 1, "expert": 1, "context": 1, "model": 1}
    pairs = [part.partition("=")[::2] for part in text.replace(" ", "").split(",") if part]
    for axis, size in pairs:
        if axis not in sizes:
            raise UserError(
                f"--mesh {text}: there is no mesh axis {axis!r}", hint=nearest_or_all(axis, sizes)
            )
        if not size.isdecimal() or int(size) < 1:
            hint = f"give a number of devices, at least 1: --mesh {axis}=8"
            raise UserError(f"--mesh {text}: {axis} is {size or 'not given'}", hint=hint)
        sizes[axis] = int(size)
    if len({axis for axis, _ in pairs}) < len(pairs):
        raise UserError(f"--mesh {text}: an axis is given twice")
    return sizes


def _config(arguments: argparse.Namespace) -> Any:
    """Return the model's configuration from a gin file or a directory."""
    if arguments.model and as_path(arguments.model).is_dir():
        if arguments.gin_file or arguments.overrides:
            raise UserError(
                f"{arguments.model} is a directory: gin files, --set and --gin. flags don't change its model"
            )
        from t5x_like.pretrained.weight_sources import read_config  # imports JAX

        return read_config(arguments.model)
    if arguments.model and not arguments.model.endswith(".gin"):
        raise UserError(f"there is no directory {arguments.model!r}", hint="a gin file's name ends in .gin")
    arguments.gin_file = [*([arguments.model] if arguments.model else []), *arguments.gin_file]
    if not arguments.gin_file:
        raise UserError("say which model: a gin file, a Hugging Face directory or a run directory")
    try:
        return load_part(arguments, EXPERIMENT, "model", "MODEL", defaults=_DEFAULTS)
    except UserError as error:
        if "--set VOCABULARY=" not in str(error):
            raise
        arguments.overrides = [*arguments.overrides, "VOCAB_SIZE = %PUBLISHED_VOCAB"]
        return load_part(arguments, EXPERIMENT, "model", "MODEL", defaults=_DEFAULTS)
