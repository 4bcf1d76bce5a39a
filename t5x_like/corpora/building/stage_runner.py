"""Runs the stages of a build, here or on a cluster, and skips tasks that an earlier attempt finished."""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from t5x_like.corpora.building.atomic_files import is_partial
from t5x_like.corpora.building.build_plan import BuildPlan
from t5x_like.corpora.building.input_files import InputBatch
from t5x_like.corpora.building.stages import (
    Stage,
    Task,
    is_done,
    is_unsettled,
    remove_outcome,
    rounds_of,
    run_task,
    stages_of,
    tasks_of,
)
from t5x_like.io.engine import Engine
from t5x_like.io.progress import Progress


def run_stages(
    plan: BuildPlan, batches: Sequence[InputBatch], engine: Engine, *, progress: bool = True
) -> None:
    """Run every unfinished task.

    Args:
      plan: The build.
      batches: Input files.
      engine: Runs the tasks of a stage.
      progress: Show progress on standard error.

    Raises:
      ValueError: A task failed; the results of finished tasks are kept.
    """
    rounds = rounds_of(plan)
    stages = stages_of(plan, rounds)
    open_tasks = _open_tasks(plan, stages, batches)
    costs = _costs(stages, [batch.size for batch in batches])
    with Progress(plan.recipe.name, round(sum(map(sum, costs.values()))), "bytes", shown=progress) as bar:
        build_progress = _BuildProgress(bar, costs, open_tasks)
        with engine.start(
            run_task, num_pieces=max(map(len, open_tasks.values())), on_report=build_progress.advance
        ) as run:
            index = 0
            while index < len(stages):
                stage = stages[index]
                bar.relabel(f"{plan.recipe.name}: {stage.name}")
                # Long tasks first, so that none is left at the end.
                tasks = sorted(open_tasks[stage.name], key=lambda task: -costs[task.stage][task.number])
                if tasks:
                    with contextlib.closing(run(tasks)) as ended:
                        for task in ended:
                            build_progress.finish(task)
                    _check_all_there(tasks, plan.output)
                if stage.round == rounds.get(stage.step) and is_unsettled(tasks_of(plan, stage, batches)):
                    rounds[stage.step] += 1
                    stages = stages_of(plan, rounds)
                    costs |= _costs(stages, [batch.size for batch in batches])
                    following = (later for later in stages[index + 1 :] if later.step == stage.step)
                    open_tasks |= {later.name: tasks_of(plan, later, batches) for later in following}
                _remove_unread_files(plan, stages, stage, batches)
                index += 1


class _BuildProgress:
    """Progress in bytes of input: finished tasks, and what unfinished tasks report."""

    def __init__(
        self,
        bar: Progress,
        costs: Mapping[str, Sequence[float]],
        open_tasks: Mapping[str, Sequence[Task]],
    ) -> None:
        self._bar, self._costs = bar, costs
        left = sum(self._cost(task) for tasks in open_tasks.values() for task in tasks)
        self._done = sum(map(sum, costs.values())) - left
        self._started: dict[tuple[str, int], float] = {}  # finished part of the cost of unfinished tasks
        self._lock = threading.Lock()
        bar.skip(round(self._done))

    def advance(self, report: tuple[str, int, float]) -> None:
        """Show that a task, given by stage and number, is finished up to a fraction."""
        stage, number, fraction = report
        with self._lock:
            self._started[stage, number] = self._costs[stage][number] * fraction
            self._show()

    def finish(self, task: Task) -> None:
        """Show that a task is finished."""
        with self._lock:
            self._done += self._cost(task)
            self._started.pop((task.stage, task.number), None)
            self._show()

    def _cost(self, task: Task) -> float:
        return self._costs[task.stage][task.number]

    def _show(self) -> None:
        self._bar.reach(round(self._done + sum(self._started.values())))


def _open_tasks(
    plan: BuildPlan, stages: Sequence[Stage], batches: Sequence[InputBatch]
) -> dict[str, list[Task]]:
    """Return the unfinished tasks of each stage.

    The output of an earlier stage may be missing if all its readers are done.
    """
    wanted = {stages[-1].name}
    open_tasks: dict[str, list[Task]] = {}
    for stage in reversed(stages):
        open_tasks[stage.name] = []
        if stage.name in wanted:
            tasks = tasks_of(plan, stage, batches)
            open_tasks[stage.name] = [task for task in tasks if not is_done(task)]
            if open_tasks[stage.name]:
                wanted.update(stage.reads)
    return open_tasks


def _remove_unread_files(
    plan: BuildPlan, stages: Sequence[Stage], ended: Stage, batches: Sequence[InputBatch]
) -> None:
    later = stages[stages.index(ended) + 1 :]
    for stage in stages:
        if stage.name in ended.reads and not any(stage.name in other.reads for other in later):
            for task in tasks_of(plan, stage, batches):
                remove_outcome(task)


def _costs(stages: Sequence[Stage], sizes: Sequence[int]) -> dict[str, list[float]]:
    """Return each task's share of the progress, in bytes of input."""
    weights = sum(stage.weight for stage in stages)
    costs = {}
    for index, stage in enumerate(stages):
        share = stage.weight / weights
        costs[stage.name] = (
            [size * share for size in sizes]
            if index == 0
            else [sum(sizes) * share / stage.num_tasks] * stage.num_tasks
        )
    return costs


def _check_all_there(tasks: Sequence[Task], output: str) -> None:
    missing = [task for task in tasks if not is_done(task)]
    if missing:
        raise ValueError(
            f"{len(missing)} of {len(tasks)} tasks of stage {missing[0].stage!r} are not in {output} although they "
            "were run; every machine must reach that folder: choose a bucket or a shared disk for output"
        )


def clear_partial_files(folder: str) -> None:
    """Remove half-written files of killed writers. This process holds the folder's lock, so nobody else is writing."""
    if "://" in folder:  # writes to buckets are atomic
        return
    for path in Path(folder).rglob(".*"):
        if is_partial(path.name):
            path.unlink(missing_ok=True)
