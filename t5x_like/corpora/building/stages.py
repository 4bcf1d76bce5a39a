"""The stages of a build in order: their tasks, inputs and outputs, and the work of each task.

Tasks are pure: they read files of earlier stages and write files of their own atomically. A small file of counts then
marks the task as done. A task can be repeated anywhere with the same outcome.
"""

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from t5x_like.corpora.building import (
    build_plan,
    cleaning_stage,
    duplicate_stages,
    group_stages,
    partition_stage,
    shard_stage,
)
from t5x_like.corpora.building.atomic_files import FULL, disk_full
from t5x_like.corpora.building.build_plan import BuildPlan
from t5x_like.corpora.building.duplicate_stages import is_by_hash_alone, stage_name
from t5x_like.corpora.building.group_stages import begun_rounds, round_name
from t5x_like.corpora.building.input_files import InputBatch
from t5x_like.io.files import as_path, read_json, write_json

# Rough shares of a build's time, for estimates of the remaining time: reading, one page rule, keys …
_READ, _RULE, _KEYS, _MATCH, _WRITE = 2.0, 1.0, 2.0, 0.5, 1.0


class Stage(NamedTuple):
    """Tasks that don't depend on each other.

    Attributes:
      name: Name of the stage.
      step: Index of the recipe's step that the stage works for; the number of steps for the last stage.
      num_tasks: Number of tasks.
      reads: Names of the stages whose files the tasks read.
      kinds: Extensions of the files that each task writes for later stages.
      weight: Estimated share of the build's time.
      round: Round of large stars, from 1; 0 for other stages.
    """

    name: str
    step: int
    num_tasks: int
    reads: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    weight: float = 1.0
    round: int = 0


class Task(NamedTuple):
    """Work for one process or machine; can be pickled.

    Attributes:
      plan: The build.
      stage: Name of the stage.
      step: Index of the step that the stage works for.
      number: Index of the task in its stage.
      reads: Names of the stages whose files the task reads.
      kinds: Extensions of the files that the task writes for later stages.
      batch: Input files of a task of the first stage.
    """

    plan: BuildPlan
    stage: str
    step: int
    number: int
    reads: tuple[str, ...]
    kinds: tuple[str, ...]
    batch: InputBatch | None = None


def rounds_of(plan: BuildPlan) -> dict[int, int]:
    """Return the rounds that an earlier attempt has begun, by the index of the step that groups pages."""
    steps = plan.recipe.steps
    grouping = [step for step in plan.recipe.duplicate_rules if not is_by_hash_alone(steps[step])]
    return {step: begun_rounds(plan, step) for step in grouping}


def stages_of(plan: BuildPlan, rounds: Mapping[int, int]) -> list[Stage]:
    """Return the stages of a build in order.

    Args:
      plan: The build.
      rounds: Number of rounds of each step that groups pages, see ``rounds_of``.
    """
    recipe, parts = plan.recipe, plan.num_partitions
    weight = _READ + _RULE * len(recipe.page_rules(0, cleaning_stage.first_duplicate_rule(plan)))
    clean = Stage(cleaning_stage.STAGE, 0, plan.num_batches, kinds=("pages",), weight=weight)
    stages = [clean, *_gathering(clean, "pages")]
    reads: tuple[str, ...] = (stages[-1].name,)
    weight = 0.0
    for step, end in itertools.pairwise([*recipe.duplicate_rules, len(recipe.steps)]):
        pages = Stage(stage_name("pages", step), step, parts, reads, ("pages", "keys"), weight + _KEYS)
        keys = [pages, *_gathering(pages, "keys")]
        kind = group_stages.KIND if step in rounds else "gone"
        match = Stage(stage_name("match", step), step, parts, (keys[-1].name,), (kind,), _MATCH)
        removed = [match, *_gathering(match, kind)]
        if step in rounds:
            removed += _grouping(plan, removed[-1], rounds[step])
        stages += [*keys, *removed]
        reads = (pages.name, stages[-1].name)
        weight = _RULE * len(recipe.page_rules(step + 1, end))
    return [*stages, Stage(shard_stage.STAGE, len(recipe.steps), plan.num_shards, reads, (), weight + _WRITE)]


def _grouping(plan: BuildPlan, links: Stage, rounds: int) -> list[Stage]:
    """Return the stages that group linked pages; their number isn't known in advance, so they have no weight."""
    step, stages = links.step, [links]
    for star_round in range(1, rounds + 1):
        for kind in ("large", "small")[: 1 if star_round == rounds else 2]:  # the last round changes nothing
            name, reads = round_name(kind, step, star_round), (stages[-1].name,)
            large_round = star_round if kind == "large" else 0
            star = Stage(name, step, plan.num_ranges, reads, (group_stages.KIND,), 0.0, large_round)
            stages += [star, *_gathering(star, group_stages.KIND)]
    reads = (stages[-1].name,)
    return [
        *stages[1:],
        Stage(stage_name("resolve", step), step, plan.num_ranges, reads, ("gone",), _MATCH),
    ]


def _gathering(stage: Stage, kind: str) -> list[Stage]:
    if stage.num_tasks <= build_plan.GATHER_ABOVE:
        return []
    count = build_plan.num_gathered(stage.num_tasks)
    weight = min(stage.weight, _MATCH)
    return [Stage(build_plan.gathering(stage.name), stage.step, count, (stage.name,), (kind,), weight)]


def tasks_of(plan: BuildPlan, stage: Stage, batches: Sequence[InputBatch]) -> list[Task]:
    """Return the tasks of a stage.

    Args:
      plan: The build.
      stage: The stage.
      batches: Input files.
    """
    is_first = stage.name == cleaning_stage.STAGE
    return [
        Task(
            plan,
            stage.name,
            stage.step,
            task_index,
            stage.reads,
            stage.kinds,
            batches[task_index] if is_first else None,
        )
        for task_index in range(stage.num_tasks)
    ]


def run_task(task: Task) -> None:
    """Run a task and write its counts.

    Raises:
      ValueError: The disk is full, or an input of the task is damaged.
    """
    wall, processor = time.perf_counter(), time.process_time()
    try:
        result = _do(task)
        seconds = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
        sizes = {kind: _size(task.plan.path(task.stage, task.number, kind)) for kind in task.kinds}
        write_json(_done_path(task), {**result, "seconds": seconds, "sizes": sizes})
    except OSError as error:
        if error.errno in FULL:
            raise disk_full(task.plan.output, error) from error
        raise


def _do(task: Task) -> dict[str, object]:
    plan, number, step = task.plan, task.number, task.step
    match task.stage.partition("-")[0]:
        case cleaning_stage.STAGE:
            assert task.batch is not None
            return cleaning_stage.clean(plan, number, task.batch)
        case "pages":
            return partition_stage.compute_keys(plan, number, step)
        case "gather":
            source = task.stage.removeprefix(build_plan.gathering(""))
            return duplicate_stages.gather(plan, source, number, task.kinds[0], _num_tasks(plan, source))
        case "match":
            return duplicate_stages.match(plan, number, step)
        case "large":
            return group_stages.make_large_stars(plan, task.stage, number, task.reads[0])
        case "small":
            return group_stages.make_small_stars(plan, task.stage, number, task.reads[0])
        case "resolve":
            return duplicate_stages.resolve(plan, number, step, task.reads[0])
        case _:
            return shard_stage.write_shard(plan, number)


def _num_tasks(plan: BuildPlan, stage: str) -> int:
    """Return the number of tasks of a stage whose files are gathered."""
    by_kind = {cleaning_stage.STAGE: plan.num_batches, "large": plan.num_ranges, "small": plan.num_ranges}
    return by_kind.get(stage.partition("-")[0], plan.num_partitions)


def is_unsettled(large_stars: Sequence[Task]) -> bool:
    """Return True if pages must be grouped further after the tasks of a round."""
    return any(result["unsettled"] for task in large_stars if (result := done(task)) is not None)


def done(task: Task) -> dict[str, Any] | None:
    """Return the counts of a finished task, or None."""
    path = _done_path(task)
    return read_json(path) if as_path(path).exists() else None


def is_done(task: Task) -> bool:
    """Return True if the task is finished and its files still exist."""
    try:
        result = done(task)
    except ValueError:
        return False
    if result is None:
        return False
    if "shard" in result:
        shard = result["shard"]
        return _size(f"{task.plan.output}/{shard['file']}") == shard["bytes"]
    return all(
        _size(task.plan.path(task.stage, task.number, kind)) == size for kind, size in result["sizes"].items()
    )


def remove_outcome(task: Task) -> None:
    """Remove the files that a task wrote for later stages, except for its counts."""
    for kind in task.kinds:
        as_path(task.plan.path(task.stage, task.number, kind)).unlink(missing_ok=True)


def _done_path(task: Task) -> str:
    return task.plan.path(task.stage, task.number, "json")


def _size(path: str) -> int | None:
    """Return a file's size in bytes, or None if it doesn't exist."""
    if "://" not in path:
        return os.path.getsize(path) if os.path.exists(path) else None
    file = as_path(path)
    return file.stat().length if file.exists() else None
