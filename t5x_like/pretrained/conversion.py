"""Runs made of weights that were not trained as they are: published ones, and those with a merged adapter."""

import shutil
from typing import Any

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.io.files import PathLike, as_path
from t5x_like.model.adapters.adapter_weights import adapter_of, merge_adapter
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.head_classes import write_classes
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint, open_unread
from t5x_like.pretrained.run_weights import write_source_fields


def import_checkpoint(source: PathLike, target: PathLike) -> None:
    """Write published weights as a run, one weight at a time.

    Args:
      source: Anything that ``open_checkpoint`` opens.
      target: New directory.
    """
    with open_unread(source) as opened:
        _write_run(opened, opened.config, opened.params, target)


def merge_run(source: PathLike, target: PathLike, *, step: int | None = None) -> None:
    """Write a run without adapter that computes the same as a run with one.

    Args:
      source: Run with an adapter.
      target: New directory.
      step: Step of the run; its newest good one if not given.

    Raises:
      ValueError: The run has no adapter, or one that can't be merged.
    """
    opened = open_checkpoint(source, step=step)
    if adapter_of(opened.config) is None:
        raise ValueError(f"{source} has no adapter to merge; use the run as it is")
    _write_run(opened, *merge_adapter(opened.config, opened.params), target)
    record = as_path(source) / "config.json"
    if record.exists():  # the special ids of its training follow from it
        shutil.copyfile(record, as_path(target) / "config.json")


def _write_run(opened: Checkpoint, config: Any, params: Any, target: PathLike) -> None:
    with Checkpoints(target) as checkpoints:
        checkpoints.save(opened.step or 0, {"params": params})
    write_model_config(target, config)
    write_classes(target, opened.class_names)
    write_source_fields(target, opened.fields)
