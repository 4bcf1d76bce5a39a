"""The loader's data fingerprint, saved with each position so that a resumed run cannot silently switch data."""

import logging
from collections.abc import Mapping
from typing import Any

from t5x_like.text.batches.example_sources import OpenedTasks
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.objective import Objective

_log = logging.getLogger(__name__)

_MAY_CHANGE = {"rates", "objectives"}  # during a run
_OTHER_TOKENS = (
    "checksums differ for other texts, another vocabulary, or a cache with other quarantined examples. For a seqio "
    "task, or a cache of an earlier version, they also differ between a cache and tokenizing at the start. Restore the "
    "data that the run began with, or start a new run"
)


def describe(
    config: LoaderConfig, opened: OpenedTasks, objectives: Mapping[str, Objective], *, pack: bool
) -> dict[str, object]:
    """Return everything that determines the sequence of rows.

    Workers and the number of processes don't. The batch size does only where examples are
    put into batches by it: rows that continue, similar lengths, tasks in turn.

    Args:
      config: Configuration of the loader.
      opened: Its tasks.
      objectives: Objectives of pretraining tasks by name.
      pack: Whether rows are packed.
    """
    some: dict[str, Any] = {"batch_size": config.batch_size} if opened.spec.contiguous else {}
    if config.prefix_attention != "bidirectional":
        some["prefix_attention"] = config.prefix_attention
    if config.masked_targets is not None:
        some["masked_targets"] = repr(config.masked_targets)
    if config.group_by_length:
        some["groups"] = config.batch_size
    if config.alternate_tasks:
        some["alternate_tasks"] = config.batch_size
    if not config.loss_on_targets_only:
        some["loss_on_targets_only"] = False
    return some | {
        "tasks": opened.names,
        "rates": [round(share, 9) for share in opened.shares],
        "objectives": [repr(objectives.get(name)) for name in opened.names],
        "checksums": [source.checksum for source in opened.sources],
        "vocab_size": opened.ids.vocab_size,
        "split": config.split,
        "inputs_length": config.inputs_length,
        "targets_length": config.targets_length,
        "pack": pack,
        "layout": opened.spec.layout,
        "shuffle": config.shuffle,
        "repeat": config.repeat,
        "seed": config.seed,
    }


def compare(saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Check that a run may continue from a saved position, and log changes of the mixture.

    Args:
      saved: Fingerprint saved with the position.
      now: Fingerprint of the loader.

    Raises:
      ValueError: The position belongs to other data; shows the difference.
    """
    differing = [key for key in {**saved, **now} if saved.get(key) != now.get(key)]
    lines = [f"{key}: {saved.get(key)!r} before, {now.get(key)!r} now" for key in differing]
    if set(differing) <= _MAY_CHANGE:
        for line in lines:
            _log.warning("the mixture of %s has changed: %s", ", ".join(now["tasks"]), line)
        return
    if "checksums" in differing:
        lines += [f"task {name} has other examples than before" for name in _changed_tasks(saved, now)]
        lines.append(_OTHER_TOKENS)
    raise ValueError("the place in the data belongs to other data:\n  " + "\n  ".join(lines))


def _changed_tasks(saved: dict[str, Any], now: dict[str, Any]) -> list[str]:
    if saved.get("tasks") != now["tasks"]:
        return []
    pairs = zip(now["tasks"], saved.get("checksums", ()), now["checksums"], strict=False)
    return [name for name, before, after in pairs if before != after]
