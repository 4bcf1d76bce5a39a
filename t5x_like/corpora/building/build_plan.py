"""The division of a build into partitions, and the names of the files between stages.

The first 32 bits of a URL's md5 select the page's partition. Partitions are ranges of that digest, so pages have the
same order for any number of partitions. Validation pages have partitions of their own, after those of train.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from t5x_like.corpora.building.input_files import InputBatch, all_files
from t5x_like.corpora.building.recipe import CorpusRecipe

PARTITION_BYTES = 64 * 10**6  # of text; a task needs about three times as much memory
_SMALL_PARTITION_BYTES = 4 * 10**6
_ENOUGH_PARTITIONS = 16  # enough for one machine; fewer are small ones

# Length of text relative to its file. Cautious: most of a crawl's text is dropped before it is partitioned.
_EXPANSION = {".gz": 4.0, ".zst": 4.0, ".parquet": 3.0}

# If all tasks of the next stage read more files than this, the files are first merged: a crawl's 90,000 files and
# 30,000 partitions would mean billions of small reads.
GATHER_ABOVE = 256
GATHERED = 64
PARTITIONS_A_RANGE = (
    16  # whose links one task rewrites: links are few, and each round has a task for each range
)
MAX_PARTITIONS = 2**15  # reached by inputs of half a terabyte; larger inputs have larger tasks

WORK = ".work"  # folder of files between stages


class CorpusShard(NamedTuple):
    """One output file of the corpus.

    Attributes:
      split: ``train`` or ``validation``.
      number: Number of the shard in its split, from 0.
      of: Number of shards of the split.
      partitions: Partitions whose pages the shard holds.
    """

    split: str
    number: int
    of: int
    partitions: range

    def file(self, extension: str) -> str:
        """Return the shard's file name."""
        return f"{self.split}-{self.number:05d}-of-{self.of:05d}.{extension}"


@dataclass(frozen=True, kw_only=True)
class BuildPlan:
    """Everything that each task needs to know about the build.

    Attributes:
      recipe: The corpus recipe.
      output: A folder that all machines can reach.
      num_batches: Number of batches of input files, one for each task of the first stage.
      num_train: Number of partitions of the train split.
      num_validation: Number of partitions of the validation split.
      train_shards: Number of output files of the train split.
      validation_shards: Number of output files of the validation split.
    """

    recipe: CorpusRecipe
    output: str
    num_batches: int
    num_train: int
    num_validation: int
    train_shards: int
    validation_shards: int

    @property
    def num_partitions(self) -> int:
        """Number of partitions of both splits."""
        return self.num_train + self.num_validation

    @property
    def num_ranges(self) -> int:
        """Number of ranges of partitions, for the links between their pages."""
        return -(-self.num_partitions // PARTITIONS_A_RANGE)

    def partition_of(self, url_digest: bytes) -> int:
        """Return the partition of the page with this URL digest (``url_digest``, 16 bytes)."""
        first = int.from_bytes(url_digest[:4], "big")
        if self.num_validation and self.recipe.is_held_out(url_digest):
            return self.num_train + (first * self.num_validation >> 32)
        return first * self.num_train >> 32

    @property
    def num_shards(self) -> int:
        """Number of output files of both splits."""
        return self.train_shards + self.validation_shards

    def shard(self, number: int) -> CorpusShard:
        """Return one of the output files, counted from 0, those of train first."""
        if number < self.train_shards:
            each = self.num_train // self.train_shards
            return CorpusShard("train", number, self.train_shards, range(number * each, (number + 1) * each))
        number -= self.train_shards
        each = self.num_validation // self.validation_shards
        first = self.num_train + number * each
        return CorpusShard("validation", number, self.validation_shards, range(first, first + each))

    def sources(self, stage: str, kind: str, count: int) -> list[str]:
        """Return the files that hold what all tasks of a stage wrote for later stages.

        Args:
          stage: Name of the stage.
          kind: File extension.
          count: Number of tasks of the stage.
        """
        if count > GATHER_ABOVE:
            stage, count = gathering(stage), num_gathered(count)
        return [self.path(stage, task_index, kind) for task_index in range(count)]

    def path(self, stage: str, number: int, kind: str) -> str:
        """Return the path of a file between stages.

        Args:
          stage: Name of the stage that writes it.
          number: Index of the task that writes it.
          kind: File extension.
        """
        return f"{self.output}/{WORK}/{stage}/{number:06d}.{kind}"


def gathering(stage: str) -> str:
    """Return the name of the stage that gathers the files of another stage."""
    return f"gather-{stage}"


def num_gathered(count: int) -> int:
    """Return the number of files that ``count`` files are gathered into."""
    return -(-count // GATHERED)


def plan(recipe: CorpusRecipe, output: str, batches: Sequence[InputBatch]) -> BuildPlan:
    """Divide the work by the size of the input alone, so that the output doesn't depend on the machines.

    Args:
      recipe: The corpus recipe.
      output: A folder that all machines can reach.
      batches: Input files.
    """
    size = sum(
        file.size
        * max((factor for end, factor in _EXPANSION.items() if file.path.endswith(end)), default=1.0)
        for file in all_files(batches)
    )
    wanted = max(
        1,
        math.ceil(size / PARTITION_BYTES),
        min(_ENOUGH_PARTITIONS, math.ceil(size / _SMALL_PARTITION_BYTES)),
    )
    wanted = min(wanted, MAX_PARTITIONS)
    shards = recipe.num_shards or wanted
    held_out = recipe.validation_share
    validation_shards = math.ceil(shards * held_out)
    return BuildPlan(
        recipe=recipe,
        output=output,
        num_batches=len(batches),
        num_train=shards * math.ceil(wanted / shards),
        num_validation=validation_shards * math.ceil(wanted * held_out / max(validation_shards, 1)),
        train_shards=shards,
        validation_shards=validation_shards,
    )
