"""What decides the sequence of a loader's rows: kept with every place in it, so that no run goes on in other data."""

import logging
from typing import TYPE_CHECKING, Any

from t5x_like.text import registry
from t5x_like.text.batches.task_source import OpenedTasks

if TYPE_CHECKING:
    from t5x_like.text.batches.loader import LoaderConfig

_log = logging.getLogger(__name__)

_MAY_CHANGE = {"rates", "objectives"}  # on the way
_OTHER_TOKENS = (
    "other checksums are other texts, another vocabulary, or a cache in which other examples are quarantined; and of a "
    "seqio task, or where an earlier version wrote the cache, a cache and tokenising at the start differ; give back "
    "what the run began with, or start a new one"
)


def describe(config: "LoaderConfig", opened: OpenedTasks, *, pack: bool) -> dict[str, Any]:
    """What decides the sequence of rows; the workers and the number of processes do not.

    Nor does the batch size, but for rows that go on from batch to batch.
    """
    some: dict[str, Any] = {"batch_size": config.batch_size} if opened.traits.contiguous else {}
    if config.prompts != "prefix":
        some["prompts"] = config.prompts
    if config.group_by_length:
        some["groups"] = config.batch_size
    if config.learn != "targets":
        some["learn"] = config.learn
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
        "layout": opened.traits.layout,
        "shuffle": config.shuffle,
        "repeat": config.repeat,
        "seed": config.seed,
    }


def compare(saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Whether a place in the data may be gone on from; what may change on the way is said.

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
