"""Answers a task's held-out questions with a model, and scores the answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from jax.sharding import Mesh

from t5x_like.batch import Batch
from t5x_like.evaluation.generation import Generation, make_generator
from t5x_like.evaluation.likelihood import make_scorer
from t5x_like.io.files import write_json, write_jsonl
from t5x_like.partitioning.shard import check_batch_size, place, row_share
from t5x_like.text import registry
from t5x_like.text.batches.features import SHIFTED_IN
from t5x_like.text.seqio_bridge.evaluation_examples import Examples, load_examples
from t5x_like.text.seqio_bridge.vocabulary import end_of


@dataclass(frozen=True, kw_only=True)
class TaskEvaluation:
    """Which questions, and how they are answered.

    ``method`` "generate" writes the answer word by word; "rank" takes the likeliest of the task's ``labels``, as
    suits a classification with few answers. A mixture's tasks are evaluated one by one.
    """

    mixture: str
    inputs_length: int
    targets_length: int
    split: str = "validation"
    batch_size: int = 64
    limit: int | None = None
    method: Literal["generate", "rank"] = "generate"
    generation: Generation = field(default_factory=Generation)


class TaskResult(NamedTuple):
    """Scores by metric, the same for always giving the commonest training answer, and every answer."""

    scores: dict[str, float]
    baseline: dict[str, float]
    rows: list[dict[str, Any]]


def write_results(results: dict[str, TaskResult], directory: str) -> None:
    """Writes ``scores.json`` and ``predictions.jsonl``."""
    write_jsonl(f"{directory}/predictions.jsonl", (row for result in results.values() for row in result.rows))
    tasks = {
        name: {
            "scores": result.scores,
            "baseline": result.baseline,
            "baseline_name": "commonest training answer",
            "examples": len(result.rows),
        }
        for name, result in results.items()
    }
    write_json(f"{directory}/scores.json", {"tasks": tasks})


class Evaluator:
    """One evaluation, compiled once and run on any weights."""

    def __init__(self, evaluation: TaskEvaluation, graphdef: Any, mesh: Mesh):
        check_batch_size(evaluation.batch_size, mesh)
        self._evaluation = evaluation
        self._mesh = mesh
        self._examples = {
            task: load_examples(
                task,
                evaluation.split,
                limit=evaluation.limit,
                inputs_length=evaluation.inputs_length,
                targets_length=evaluation.targets_length,
            )
            for task in tasks_having(evaluation.mixture, evaluation.split)
        }
        self._score = make_scorer(graphdef, mesh)
        ends = {end_of(examples.vocabulary) for examples in self._examples.values()}
        self._generators = {
            end: make_generator(
                graphdef, evaluation.generation, mesh, eos_token_id=end, prompts_follow=SHIFTED_IN
            )
            for end in ends
        }

    def run(self, params: Any) -> dict[str, TaskResult]:
        """Evaluates every task with these weights."""
        return {task: self._run_task(examples, params) for task, examples in self._examples.items()}

    def _run_task(self, examples: Examples, params: Any) -> TaskResult:
        answer = self._generate if self._evaluation.method == "generate" else self._rank
        texts = answer(examples, params)
        rows = [
            {"task": examples.task, "input": question, "target": target, "prediction": text}
            for question, target, text in zip(examples.inputs_text, examples.targets_text, texts, strict=True)
        ]
        scores = examples.score(examples.postprocess(texts))
        if examples.asks_for_likelihoods:
            likelihoods = self._answers(examples, lambda batch: self._score(params, batch))
            scores |= examples.score_likelihoods(likelihoods.tolist())
            rows = [
                row | {"log_likelihood": float(value)} for row, value in zip(rows, likelihoods, strict=True)
            ]
        return TaskResult(scores, examples.baseline(), rows)

    def _generate(self, examples: Examples, params: Any) -> list[str]:
        generate = self._generators[end_of(examples.vocabulary)]
        ids = self._answers(examples, lambda batch: generate(params, batch))
        return [examples.vocabulary.decode(row.tolist()) for row in ids]

    def _rank(self, examples: Examples, params: Any) -> list[str]:
        if not examples.labels:
            raise ValueError(
                f"task {examples.task!r} does not say which answers there are; give it labels, or use "
                "method='generate'"
            )
        likelihoods = [
            self._answers(examples, lambda batch: self._score(params, batch), answer=label)
            for label in examples.labels
        ]
        return [examples.labels[best] for best in np.argmax(np.stack(likelihoods, axis=1), axis=1)]

    def _answers(
        self, examples: Examples, answer_batch: Callable[[Batch], np.ndarray], *, answer: str | None = None
    ) -> np.ndarray:
        """What ``answer_batch`` says of every example, in order; rows that only filled up a batch are left out."""
        numbers, answers = [], []
        for of_batch, batch in examples.batches(self._evaluation.batch_size, answer=answer):
            numbers.append(of_batch)
            answers.append(answer_batch(place(local_rows(batch, self._mesh), self._mesh))[: len(of_batch)])
        return np.concatenate(answers)[np.argsort(np.concatenate(numbers))]


def tasks_having(mixture: str, split: str) -> list[str]:
    """The tasks of a mixture that have the split: GLUE's has some that are only tested. All, if none has it."""
    names = registry.names_of_tasks(mixture)
    return [name for name in names if split in registry.splits_of(name)] or names


def local_rows(batch: Batch, mesh: Mesh) -> Batch:
    """The rows of a whole batch that this process lays on the mesh."""
    index, count = row_share(mesh)

    def share(rows: np.ndarray) -> np.ndarray:
        size = len(rows) // count
        return rows[index * size : (index + 1) * size]

    return Batch(*(None if rows is None else share(rows) for rows in batch))
