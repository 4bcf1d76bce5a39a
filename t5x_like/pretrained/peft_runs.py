"""Runs with an adapter, to and from PEFT's directories."""

import os

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.checkpoints.steps import absolute
from t5x_like.io.files import PathLike
from t5x_like.model import parameters
from t5x_like.model.adapters.adapter_weights import adapter_of, adapter_paths
from t5x_like.pretrained.frozen_weights import FrozenRecord, checksums, read_frozen_record
from t5x_like.pretrained.head_classes import write_classes
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint, open_initial
from t5x_like.pretrained.peft_files import read_peft, write_peft
from t5x_like.pretrained.weight_sources import read_config

_SEED = 0  # of heads that neither the base nor the adapter has


def peft_to_run(directory: PathLike, base: PathLike, run: PathLike) -> None:
    """Write a run with the adapter of a PEFT directory. Its other weights stay those of the base, which it refers to.

    Args:
      directory: PEFT's.
      base: Checkpoint that the adapter was trained on; any that ``open_checkpoint`` opens.
      run: New.

    Raises:
      ValueError: The adapter is not supported, or is for another model.
    """
    config = read_config(base)
    if adapter_of(config) is not None:
        raise ValueError(
            f"{base} has an adapter of its own; merge it first: t5x-like convert --merge --from {base} --to DIR"
        )
    adapter = read_peft(directory, config)
    opened, _ = open_initial(base, config=adapter.config, mesh=None, seed=_SEED)
    flat = parameters.flatten(opened.params)
    frozen = parameters.unflatten({path: leaf for path, leaf in flat.items() if path not in adapter.params})
    with Checkpoints(run) as checkpoints:
        checkpoints.save(0, {"params": parameters.unflatten({**adapter.params})})
    write_model_config(run, adapter.config)
    if adapter.config.task == config.task and len(opened.class_names) == adapter.config.num_labels:
        write_classes(run, opened.class_names)
    start_from = os.fspath(absolute(base))
    FrozenRecord(start_from=start_from, step=opened.step, seed=_SEED, checksums=checksums(frozen)).write(run)


def run_to_peft(run: PathLike, directory: PathLike, *, step: int | None = None) -> None:
    """Write the adapter of a run, and what was trained with it, as PEFT saves adapters.

    Args:
      run: With an adapter.
      directory: New or empty.
      step: Of the run; its newest good one if not given.

    Raises:
      ValueError: It has no adapter, or one that PEFT can't express.
    """
    record = read_frozen_record(run)
    opened = open_checkpoint(run, step=step)
    if adapter_of(opened.config) is None or record is None:
        raise ValueError(
            f"{run} has no adapter over frozen weights, which PEFT's files are for; to write the whole model give "
            "--export hf"
        )
    trained = (
        parameters.flatten(opened.params).keys() - record.checksums.keys() - adapter_paths(opened.config)
    )
    write_peft(opened.config, opened.params, directory, trained=trained, base=record.start_from or "")
