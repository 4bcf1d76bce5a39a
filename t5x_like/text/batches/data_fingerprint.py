"""The loader's data fingerprint, saved with each position so that a resumed run cannot silently switch data."""

import logging
from typing import Any

from t5x_like.text import registry
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.task_source import OpenedTasks

_log = logging.getLogger(__name__)

_MAY_CHANGE = {"rates", "objectives"}  # on the way
_OTHER_TOKENS = (
    "other checksums are other texts, another vocabulary, or a cache in which other examples are quarantined; and of a "
    "seqio task, or where an earlier version wrote the cache, a cache and tokenising at the start differ; give back "
    "what the run began with, or start a new one"
)


def describe(config: LoaderConfig, opened: OpenedTasks, *, pack: bool) -> dict[str, Any]:
    """Returns everything that decides the sequence of rows.

    Workers and the number of processes do not. The batch size does only for rows that continue from batch to batch.
    """
    some: dict[str, Any] = {"batch_size": config.batch_size} if opened.spec.contiguous else {}
    if config.prefix_attention != "bidirectional":
        some["prefix_attention"] = config.prefix_attention
    if config.group_by_length:
        some["groups"] = config.batch_size
    if not config.loss_on_targets_only:
        some["loss_on_targets_only"] = False
    return some | {
        "tasks": opened.names,
        "rates": [round(share, 9) for share in opened.shares],
        "objectives": [repr(getattr(registry.definition(name), "objective", None)) for name in opened.names],
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
    """Checks that a run may continue from a saved position, and logs changes of the mixture.

    Raises:
      ValueError: it belongs to other data; shows the difference.
    """
    differing = [key for key in {**saved, **now} if saved.get(key) != now.get(key)]
    lines = [f"{key}: {saved.get(key)!r} before, {now.get(key)!r} now" for key in differing]
    if set(differing) <= _MAY_CHANGE:
        for line in lines:
            _log.warning("the mixture of %s has changed: %s", ", ".join(now["tasks"]), line)
        return
    if "checksums" in differing:
        lines.append(_OTHER_TOKENS)
    raise ValueError("the place in the data belongs to other data:\n  " + "\n  ".join(lines))
