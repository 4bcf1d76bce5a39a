"""Runs made of weights that were not trained as they are: published ones, averages, and those with a merged adapter.

Also adapters of runs in PEFT's format.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.checkpoints.steps import absolute
from t5x_like.io.files import PathLike, as_path
from t5x_like.model import parameters
from t5x_like.model.adapters import ContrastivePrefixes
from t5x_like.model.adapters.adapter_weights import adapter_of, adapter_paths, merge_adapter
from t5x_like.model.parameters import ModelConfig, Parameters
from t5x_like.pretrained.averaged_weights import open_mean
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.frozen_weights import FrozenRecord, checksums, read_frozen_record
from t5x_like.pretrained.head_classes import write_classes
from t5x_like.pretrained.layer_selection import every_nth, num_layers_of, select_layers
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint, open_initial, open_unread
from t5x_like.pretrained.peft_files import read_peft, require_heads, write_peft
from t5x_like.pretrained.run_weights import steps_of, write_source_fields
from t5x_like.pretrained.sentence_transformers import write_sentence_embedding
from t5x_like.pretrained.weight_sources import find_weights, further_format_of, is_run, read_config

_SEED = 0  # of heads that the adapter replaces


def import_checkpoint(source: PathLike, target: PathLike, *, vocabulary: str = "") -> None:
    """Write published weights as a run, one weight at a time; those of ``further_formats`` at once.

    Args:
      source: Anything that ``open_checkpoint`` opens.
      target: New directory.
      vocabulary: Vocabulary that weights of ``further_formats`` are opened with, if their directory has none.
    """
    if further_format_of(source) is not None:
        opened = open_checkpoint(source, vocabulary=vocabulary)
        _write_run(opened, opened.config, opened.params, target)
        return
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


def take_attribute(source: PathLike, target: PathLike, attribute: str, *, step: int | None = None) -> None:
    """Write a run with one of the prefixes of a run with contrastive prefixes; frozen weights stay where they are.

    Args:
      source: Run with ``ContrastivePrefixes``.
      target: New directory.
      attribute: Name of the prefix.
      step: Step of the run; its newest good one if not given.

    Raises:
      ValueError: The run has no such prefix.
    """
    opened, record = open_checkpoint(source, step=step), read_frozen_record(source)
    adapter = adapter_of(opened.config)
    if not isinstance(adapter, ContrastivePrefixes):
        raise ValueError(f"{source} has no ContrastivePrefixes, of which one could be taken")
    prefix, params = adapter.take(attribute, opened.params)
    frozen = {} if record is None else record.checksums
    if record is not None and record.layers:
        raise ValueError(
            f"{source} trained some layers of {min(record.layers)}; prefixes of all layers can be taken"
        )
    own = {path: leaf for path, leaf in parameters.flatten(params).items() if path not in frozen}
    _write_run(opened, replace(opened.config, adapter=prefix), parameters.unflatten(own), target)
    if record is not None:
        record.write(target)
    _copy_records(source, target, "config.json")


def average_runs(sources: Sequence[PathLike], target: PathLike, *, last: int | None) -> None:
    """Write an average of weights as a run, one weight at a time.

    Args:
      sources: Directories of the runs, as ``averaged_weights.open_mean`` averages them.
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


def import_peft(source: PathLike, base: PathLike, target: PathLike) -> None:
    """Write a run with an adapter that PEFT saved. Its frozen weights stay those of the base, which it refers to.

    Args:
      source: Directory with ``adapter_config.json``.
      base: Model that the adapter was trained on: anything that ``open_checkpoint`` opens.
      target: New directory.

    Raises:
      ValueError: The adapter has a method or an option that we lack, is for another model, or lacks its head.
    """
    config = read_config(base)
    if adapter_of(config) is not None:
        raise ValueError(
            f"{base} has an adapter of its own; merge it first: t5x-like convert --merge --from {base} --to DIR"
        )
    adapter = read_peft(source, config)
    require_heads(source, base, adapter, find_weights(base, config=adapter.config).fresh_heads())
    opened, _ = open_initial(base, config=adapter.config, mesh=None, seed=_SEED)
    flat = parameters.flatten(opened.params)
    frozen = parameters.unflatten({path: leaf for path, leaf in flat.items() if path not in adapter.params})
    same_head = (adapter.config.task, adapter.config.num_labels) == (config.task, config.num_labels)
    names = opened.class_names if same_head else ()
    _write_run(
        replace(opened, step=None, class_names=names),
        adapter.config,
        parameters.unflatten({**adapter.params}),
        target,
    )
    start_from, step = os.fspath(absolute(base)), opened.step
    FrozenRecord(start_from=start_from, step=step, seed=_SEED, checksums=checksums(frozen)).write(target)


def export_peft(source: PathLike, target: PathLike, *, step: int | None = None) -> None:
    """Write a run's adapter, and what was trained with it, as PEFT saves adapters.

    Args:
      source: Run with an adapter.
      target: New directory.
      step: Step of the run; its newest good one if not given.

    Raises:
      ValueError: The run has no adapter, or one that PEFT can't express.
    """
    save_adapter(open_checkpoint(source, step=step), target)


def save_adapter(opened: Checkpoint, target: PathLike, *, base: Checkpoint | None = None) -> None:
    """Write the adapter of an open checkpoint, and what was trained with it, as PEFT saves adapters.

    Args:
      opened: Model with the adapter.
      target: New directory.
      base: Model that an adapter of PEFT was loaded over; ``None`` for a run, whose record says where its frozen
        weights come from.

    Raises:
      ValueError: The checkpoint has no adapter, or one that PEFT can't express.
    """
    flat, own = parameters.flatten(opened.params), adapter_paths(opened.config)
    if own and base is not None:
        shared = parameters.flatten(base.params)
        frozen, name = {path for path, leaf in flat.items() if shared.get(path) is leaf}, base.directory
    elif own and (record := read_frozen_record(opened.directory)) is not None:
        if in_part := record.layers.keys() - own:
            raise ValueError(
                f"{opened.directory} trained some layers of {min(in_part)} with its adapter; PEFT saves modules of all "
                "layers"
            )
        frozen, name = {*record.checksums}, record.start_from or ""
    else:
        raise ValueError(
            f"{opened.directory} has no adapter over frozen weights, which PEFT's files are for; write the whole model "
            "with export_hugging_face (t5x-like convert --export hf)"
        )
    write_peft(opened.config, opened.params, target, trained=flat.keys() - frozen - own, base=name)


def _write_run(opened: Checkpoint, config: ModelConfig, params: Parameters, target: PathLike) -> None:
    with Checkpoints(target) as checkpoints:
        checkpoints.save(opened.step or 0, {"params": params})
    write_model_config(target, config)
    write_classes(target, opened.class_names)
    write_source_fields(target, opened.fields)
    if opened.sentence_embedding is not None:
        write_sentence_embedding(target, opened.sentence_embedding)
