"""Runs made of weights that were not trained as they are: published ones, and those with a merged adapter."""

import shutil
from collections.abc import Mapping
from typing import Any

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.io.files import PathLike, as_path
from t5x_like.model.adapters.adapter_weights import adapter_of, merge_adapter
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.head_classes import write_classes
from t5x_like.pretrained.layer_selection import every_nth, num_layers_of, select_layers
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint, open_unread
from t5x_like.pretrained.run_weights import write_source_fields
from t5x_like.pretrained.weight_sources import is_run


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
    _write_run(opened, *merge_adapter(opened.config, opened.params), target, step=opened.step)
    _copy_record(source, target)


def make_student(
    source: PathLike, target: PathLike, keeps: Mapping[str, Any], *, step: int | None = None
) -> dict[str, tuple[int, ...]]:
    """Write a run that has some layers of another model; returns them by stack.

    Args:
      source: Anything that ``open_checkpoint`` opens.
      target: New directory.
      keeps: ``every`` n-th layer; or numbers of ``layers``, of each stack; or of ``encoder_layers`` and
        ``decoder_layers``.
      step: Step of a run; its newest good one if not given.

    Raises:
      ValueError: There are no such layers, or the student would use them in another way.
    """
    with open_unread(source, step=step) as opened:
        chosen = {
            name.removesuffix("_layers"): tuple(each) for name, each in keeps.items() if name != "every"
        }
        if "every" in keeps:
            chosen = every_nth(opened.config, keeps["every"])
        elif "layers" in keeps:
            chosen = dict.fromkeys(num_layers_of(opened.config), tuple(keeps["layers"]))
        _write_run(opened, *select_layers(opened.config, opened.params, chosen), target)
    if is_run(source):
        _copy_record(source, target)
    return chosen


def _copy_record(source: PathLike, target: PathLike) -> None:
    record = as_path(source) / "config.json"
    if record.exists():  # the special ids of its training follow from it
        shutil.copyfile(record, as_path(target) / "config.json")


def _write_run(
    opened: Checkpoint, config: Any, params: Any, target: PathLike, *, step: int | None = None
) -> None:
    with Checkpoints(target) as checkpoints:
        checkpoints.save(step or 0, {"params": params})
    write_model_config(target, config)
    write_classes(target, opened.class_names)
    write_source_fields(target, opened.fields)
