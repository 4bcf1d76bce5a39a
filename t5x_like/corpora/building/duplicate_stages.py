"""The stages of a rule for duplicates: keys travel to partitions of hashes, and removals travel back."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np

from t5x_like.corpora.building.blocks import BlockWriter, read_blocks
from t5x_like.corpora.building.build_plan import GATHERED, BuildPlan, gathering
from t5x_like.corpora.duplicates.duplicate_rule import KEY, DuplicateRule


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
        own = rule.resolve(rule.match(keys))
        keys = keys[~np.isin(_address(keys), _address(own))]
    readers = (keys["hash_high"] >> np.uint64(32)) * np.uint64(plan.num_partitions) >> np.uint64(32)
    path = plan.path(stage_name("pages", step), partition, "keys")
    with BlockWriter.open(path, num_readers=plan.num_partitions + 1) as writer:
        for reader, part in _by_reader(keys, readers):
            writer.write(reader, part.tobytes())
        writer.write(plan.num_partitions, own.tobytes())
    return len(keys)


def match(plan: BuildPlan, part: int, step: int) -> dict[str, object]:
    """Compare all keys whose hashes lie in one range, and write the removals or the matches that decide about them.

    Args:
      plan: The build.
      part: Index of the range of hashes; there are as many ranges as partitions.
      step: Index of the rule for duplicates.
    """
    rule: DuplicateRule = plan.recipe.steps[step]
    paths = plan.sources(stage_name("pages", step), "keys", plan.num_partitions)
    matched = rule.match(_keys(read for path in paths for read in read_blocks(path, part)))
    path = plan.path(stage_name("match", step), part, "gone")
    if is_by_hash_alone(rule):
        _write_by_partition(rule.resolve(matched), path, plan.num_partitions)
    else:
        with BlockWriter.open(path, num_readers=1) as writer:
            writer.write(0, matched.tobytes())
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


def resolve(plan: BuildPlan, step: int) -> dict[str, object]:
    """Decide which parts of pages are removed, from the matches of all ranges of hashes.

    Args:
      plan: Corpus to build.
      step: Index of the recipe's duplicate rule.
    """
    rule: DuplicateRule = plan.recipe.steps[step]
    paths = [plan.path(stage_name("match", step), n, "gone") for n in range(plan.num_partitions)]
    removed = rule.resolve(_keys(read for path in paths for read in read_blocks(path, 0)))
    _write_by_partition(removed, plan.path(stage_name("resolve", step), 0, "gone"), plan.num_partitions)
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
        blocks = read_blocks(plan.path(stage_name("resolve", step), 0, "gone"), partition)
    removed = _keys(blocks)
    return removed[np.lexsort([removed["part"], removed["page"]])]


def _keys(blocks: Iterable[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(blocks), KEY)


def _write_by_partition(removed: np.ndarray, path: str, num_partitions: int) -> None:
    with BlockWriter.open(path, num_readers=num_partitions) as writer:
        for reader, part in _by_reader(removed, removed["partition"].astype("<u8")):
            writer.write(reader, part.tobytes())


def _address(keys: np.ndarray) -> np.ndarray:
    """Return one number for each key of a partition: page and part."""
    return keys["page"].astype("<u8") << np.uint64(32) | keys["part"]


def _by_reader(keys: np.ndarray, readers: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    order = np.argsort(readers, kind="stable")
    keys, readers = keys[order], readers[order]
    starts = np.flatnonzero(np.append(True, readers[1:] != readers[:-1])) if len(keys) else np.zeros(0, int)
    for start, end in itertools.pairwise([*starts.tolist(), len(keys)]):
        yield int(readers[start]), keys[start:end]
