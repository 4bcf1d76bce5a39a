"""Turn Hugging Face weights (config.json and safetensors) into a run directory, and a run into such weights.

t5x-like convert --from path/to/t5-small --to runs/t5_small
t5x-like convert --from runs/finetune --to path/to/export --export hf
"""

import argparse
import shutil
from pathlib import Path

from t5x_like.cli.mistakes import Mistake


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``t5x-like convert``."""
    parser.add_argument("--from", dest="source", required=True, metavar="DIR", help="what to read")
    parser.add_argument(
        "--to", dest="target", required=True, metavar="DIR", help="what to write; new or empty"
    )
    parser.add_argument(
        "--export", choices=["hf"], help="read a run and write Hugging Face's format (else: the other way)"
    )
    parser.add_argument("--step", type=int, help="the step to export (the newest)")


def run(arguments: argparse.Namespace) -> int:
    """Converts and says what was written."""
    target = Path(arguments.target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Mistake(
            f"--to {target} exists already; nothing was written", hint="give a new or an empty directory"
        )
    if not Path(arguments.source).is_dir():
        raise Mistake(f"--from {arguments.source} is not a directory")
    if not arguments.export and (Path(arguments.source) / "model.json").is_file():
        raise Mistake(
            f"--from {arguments.source} is a run already",
            hint="to write Hugging Face's format add --export hf",
        )
    if arguments.export:
        _export(arguments.source, target, arguments.step)
    else:
        _import(arguments.source, target)
    vocabulary = Path(arguments.source) / "spiece.model"
    if vocabulary.is_file():
        shutil.copyfile(vocabulary, target / "spiece.model")
    print(f"written to {target}")
    return 0


def _import(source: str, target: Path) -> None:
    from t5x_like.checkpoints.checkpoints import Checkpoints
    from t5x_like.checkpoints.model_config import write_model_config
    from t5x_like.checkpoints.pretrained import from_pretrained
    from t5x_like.model.parameters import split

    pretrained = from_pretrained(source)
    with Checkpoints(target) as checkpoints:
        checkpoints.save(0, {"params": split(pretrained.model)[1]})
    write_model_config(target, pretrained.config)


def _export(source: str, target: Path, step: int | None) -> None:
    from t5x_like.checkpoints.model_config import load_run
    from t5x_like.checkpoints.pretrained import export_hugging_face
    from t5x_like.model.parameters import abstract, merge

    config, params = load_run(source, step=step)
    export_hugging_face(merge(abstract(config)[0], params), target, config=config)
