"""Runs made of weights that were not trained as they are: published ones, averages, and those with a merged adapter."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.io.files import PathLike, as_path
from t5x_like.model.adapters.adapter_weights import adapter_of, merge_adapter
from t5x_like.pretrained.averaged_weights import open_mean
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.head_classes import write_classes
from t5x_like.pretrained.layer_selection import every_nth, num_layers_of, select_layers
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint, open_unread
from t5x_like.pretrained.run_weights import steps_of, write_source_fields
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
    _write_run(opened, *merge_adapter(opened.config, opened.params), target)
    _copy_records(source, target, "config.json")


def average_runs(sources: Sequence[PathLike], target: PathLike, *, last: int | None) -> None:
    """Write an average of weights as a run, one weight at a time.

    Args:
      sources: Runs, as ``averaged_weights.open_mean`` averages them.
      target: New directory.
      last: Number of each run's newest checkpoints; ``None`` for the moving average that a single run has kept.

    Raises:
      ValueError: The run has no moving average, runs have fewer checkpoints, or models differ.
    """
    if last is None:
        opening = open_unread(sources[0], step=max(steps_of(sources[0]), default=None), average=True)
    else:
        opening = open_mean(sources, last=last)
    with opening as opened:
        _write_run(opened, opened.config, opened.params, target)
    _copy_records(sources[0], target, "config.json", "experiment.json")


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
        config, params = select_layers(opened.config, opened.params, chosen)
        _write_run(replace(opened, step=0), config, params, target)
    if is_run(source):
        _copy_records(source, target, "config.json")
    return chosen


def _copy_records(source: PathLike, target: PathLike, *names: str) -> None:
    """Copy records of a run's training, which say its tasks and special ids."""
    for name in names:
        if (as_path(source) / name).exists():
            shutil.copyfile(as_path(source) / name, as_path(target) / name)


def _write_run(opened: Checkpoint, config: Any, params: Any, target: PathLike) -> None:
    with Checkpoints(target) as checkpoints:
        checkpoints.save(opened.step or 0, {"params": params})
    write_model_config(target, config)
    write_classes(target, opened.class_names)
    write_source_fields(target, opened.fields)
