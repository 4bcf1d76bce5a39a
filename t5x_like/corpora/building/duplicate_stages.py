"""The stages of a rule for duplicates: keys travel to partitions of hashes, and removals travel back."""

import itertools
from collections.abc import Iterable

import numpy as np

from t5x_like.corpora.building.blocks import BlockWriter, read_blocks
from t5x_like.corpora.building.build_plan import GATHERED, PARTITIONS_A_RANGE, BuildPlan, gathering
from t5x_like.corpora.building.group_stages import read_later_pages, write_links
from t5x_like.corpora.duplicates.duplicate_rule import KEY, DuplicateRule, all_but_first
from t5x_like.corpora.duplicates.page_groups import links_of


def stage_name(kind: str, step: int) -> str:
    """Return the name of a stage such as ``pages-3``.

    Args:
      kind: ``pages``, ``match`` or ``resolve``.
      step: Index of the step, from 0; names count from 1.
    """
    return f"{kind}-{step + 1}"


def is_by_hash_alone(rule: DuplicateRule) -> bool:
    """Return True if each hash can be resolved without the others, so hashes can be processed a part at a time."""
    return bool(getattr(rule, "BY_HASH_ALONE", False))


def write_keys(plan: BuildPlan, partition: int, step: int, keys: np.ndarray) -> int:
    """Write the keys of a partition's pages for the match stage.

    Args:
      plan: The build.
      partition: Partition of the pages.
      step: Index of the rule for duplicates.
      keys: ``KEY`` [keys].

    Returns:
      The number of keys that the match stage reads.
    """
    rule: DuplicateRule = plan.recipe.steps[step]
    own = np.zeros(0, KEY)
    if is_by_hash_alone(rule):
        # Only the first key of each hash and partition can stay; the others needn't be sent.
        own = all_but_first(keys)
        keys = keys[~np.isin(_address(keys), _address(own))]
    readers = (keys["hash_high"] >> np.uint64(32)) * np.uint64(plan.num_partitions) >> np.uint64(32)
    path = plan.path(stage_name("pages", step), partition, "keys")
    with BlockWriter.open(path, num_readers=plan.num_partitions + 1) as writer:
        writer.write_rows(keys, readers)
        writer.write(plan.num_partitions, own.tobytes())
    return len(keys)


def match(plan: BuildPlan, part: int, step: int) -> dict[str, object]:
    """Compare all keys whose hashes lie in one range, and write the removals or the links between pages.

    Args:
      plan: The build.
      part: Index of the range of hashes; there are as many ranges as partitions.
      step: Index of the rule for duplicates.
    """
    paths = plan.sources(stage_name("pages", step), "keys", plan.num_partitions)
    keys = _keys(read for path in paths for read in read_blocks(path, part))
    stage = stage_name("match", step)
    if is_by_hash_alone(plan.recipe.steps[step]):
        matched = all_but_first(keys)
        _write_by_partition(matched, plan.path(stage, part, "gone"), plan.num_partitions)
    else:
        matched = links_of(keys)
        write_links(plan, plan.path(stage, part, "links"), matched)
    return {"matched": len(matched)}


def gather(plan: BuildPlan, stage: str, number: int, kind: str, count: int) -> dict[str, object]:
    """Merge up to ``GATHERED`` files of a stage into one, so that later tasks open fewer files.

    Args:
      plan: The build.
      stage: Name of the stage whose files are merged.
      number: Index of the merged file.
      kind: File extension.
      count: Number of tasks of the stage.
    """
    paths = [plan.path(stage, n, kind) for n in range(number * GATHERED, min((number + 1) * GATHERED, count))]
    # Files of keys have one more reader: the task that computed them.
    with BlockWriter.open(
        plan.path(gathering(stage), number, kind), num_readers=plan.num_partitions + 1
    ) as writer:
        writer.gather(paths)
    return {"files": len(paths)}


def resolve(plan: BuildPlan, number: int, step: int, source: str) -> dict[str, object]:
    """Write the pages that are removed from one range of partitions.

    Args:
      plan: The build.
      number: Index of the range.
      step: Index of the rule for duplicates.
      source: Name of the stage that wrote the settled links.
    """
    removed = read_later_pages(plan, number, source)
    _write_by_partition(removed, plan.path(stage_name("resolve", step), number, "gone"), plan.num_partitions)
    return {"gone": len(removed)}


def read_removed(plan: BuildPlan, partition: int, step: int) -> np.ndarray:
    """Read the parts of a partition's pages that a step removes.

    Args:
      plan: The build.
      partition: The partition.
      step: Index of the rule for duplicates.

    Returns:
      ``KEY`` [removed parts], sorted by page and part.
    """
    blocks: Iterable[bytes]
    if is_by_hash_alone(plan.recipe.steps[step]):
        own = read_blocks(plan.path(stage_name("pages", step), partition, "keys"), plan.num_partitions)
        paths = plan.sources(stage_name("match", step), "gone", plan.num_partitions)
        blocks = itertools.chain(own, *(read_blocks(path, partition) for path in paths))
    else:
        path = plan.path(stage_name("resolve", step), partition // PARTITIONS_A_RANGE, "gone")
        blocks = read_blocks(path, partition)
    removed = _keys(blocks)
    return removed[np.lexsort([removed["part"], removed["page"]])]


def _keys(blocks: Iterable[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(blocks), KEY)


def _write_by_partition(removed: np.ndarray, path: str, num_partitions: int) -> None:
    with BlockWriter.open(path, num_readers=num_partitions) as writer:
        writer.write_rows(removed, removed["partition"])


def _address(keys: np.ndarray) -> np.ndarray:
    """Return one number for each key of a partition: page and part."""
    return keys["page"].astype("<u8") << np.uint64(32) | keys["part"]
