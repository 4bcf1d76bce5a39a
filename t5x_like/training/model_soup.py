"""Greedy model soups: runs join an average of weights while its score on held-out rows doesn't fall."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from t5x_like.evaluation.saved_runs import resolve_evaluations
from t5x_like.evaluation.scores_file import TaskResult
from t5x_like.io.files import PathLike
from t5x_like.model import parameters
from t5x_like.model.lazy_array import put_on_devices
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import with_shardings
from t5x_like.pretrained.averaged_weights import open_mean
from t5x_like.pretrained.run_weights import trained_prefix_attention
from t5x_like.text.batches.loader_config import PrefixAttention
from t5x_like.text.metrics.by_name import LOWER_IS_BETTER
from t5x_like.text.seqio_bridge import registration
from t5x_like.training.evaluate import own_evaluation
from t5x_like.training.run_record import read_recorded


class SoupCandidate(NamedTuple):
    """A run that was added to a soup on trial.

    Attributes:
      run: Its directory.
      score: Score of the run alone.
      soup_score: Score of the soup with it.
      is_kept: Whether it stays in the soup.
    """

    run: str
    score: float
    soup_score: float
    is_kept: bool


def greedy_soup(
    runs: Sequence[PathLike], *, last: int = 1, metric: str | None = None, limit: int | None = None
) -> Iterator[SoupCandidate]:
    """Choose runs whose weights are averaged, from the best alone to the worst (Wortsman et al. 2022, recipe 1).

    A run stays if the score of the average doesn't fall. Scores are those of the first run's own evaluations, on their
    split, "validation" by default.

    Args:
      runs: Runs that were fine-tuned from the same weights.
      last: Number of each run's newest checkpoints to average.
      metric: The score, as ``<task>/<metric>``; by default the mean over tasks of their first metrics.
      limit: The most rows of each task; all if not given.

    Raises:
      ValueError: Runs of different models or classes, fewer checkpoints, or no such metric.
    """
    registration.connect()
    scorer = _Scorer(runs[0], metric=metric, limit=limit, last=last)
    alone = [(scorer.score([run]), run) for run in map(str, runs)]
    soup: list[str] = []
    best = -math.inf
    for score, run in sorted(
        alone, key=lambda each: each[0], reverse=True
    ):  # runs of equal scores in their order
        new_score = scorer.score([*soup, run]) if soup else score
        is_kept = not soup or new_score >= best
        if is_kept:
            soup.append(run)
            best = new_score
        yield SoupCandidate(run, score * scorer.sign, new_score * scorer.sign, is_kept)


class _Scorer:
    """Scores of averages of runs; higher is better."""

    def __init__(self, run: PathLike, *, metric: str | None, limit: int | None, last: int) -> None:
        evaluations = read_recorded(run, "evaluations") or (own_evaluation(run),)
        self._evaluations = [replace(each, limit=limit) if limit else each for each in evaluations]
        self._tasks = resolve_evaluations(self._evaluations, read_recorded(run, "tasks"))
        self._mesh, self._metric, self._last = MeshConfig().build(), metric, last
        self._prefix_attention: PrefixAttention = trained_prefix_attention(run)
        self._evaluators: list[Any] = []
        self.sign = 1.0

    def score(self, runs: Sequence[str]) -> float:
        """Return the score of the average of runs; -inf if it is not a number."""
        with open_mean(runs, last=self._last) as opened, jax.set_mesh(self._mesh):
            if not self._evaluators:
                self._evaluators = [
                    evaluation.evaluator(
                        tasks, opened.config, self._mesh, prefix_attention=self._prefix_attention
                    )
                    for evaluation, tasks in zip(self._evaluations, self._tasks, strict=True)
                ]
            _, shapes, axes = parameters.abstract(opened.config)
            wanted = with_shardings(axes, shapes, self._mesh)
            params = jax.tree.map(
                lambda array, like: put_on_devices(array, like.sharding), opened.params, wanted
            )
        results: dict[str, TaskResult] = {}
        for evaluator in self._evaluators:
            results |= evaluator.run(params)
        value = self._chosen(results)
        return -math.inf if math.isnan(value) else value

    def _chosen(self, results: dict[str, TaskResult]) -> float:
        measured = {
            f"{task}/{name}": score
            for task, result in results.items()
            for name, score in result.scores.items()
        }
        chosen = [self._metric] if self._metric else [_first(task, results[task]) for task in results]
        if unknown := [name for name in chosen if name not in measured]:
            raise ValueError(
                f"metric is {unknown[0]!r}, which isn't measured; choose one of {', '.join(measured) or 'none'}"
            )
        directions = {name.rpartition("/")[2] in LOWER_IS_BETTER for name in chosen}
        if len(directions) > 1:
            raise ValueError(
                f"higher is better for some of {', '.join(chosen)}, and lower for others; choose one by metric"
            )
        self.sign = -1.0 if directions == {True} else 1.0
        return self.sign * sum(measured[name] for name in chosen) / len(chosen)


def _first(task: str, result: TaskResult) -> str:
    return f"{task}/{next(iter(result.scores), '')}"
