"""An evaluation of saved weights as one frozen value, and running it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import jax
import numpy as np

from t5x_like.evaluation.evaluator import TaskEvaluation, TaskResult, local_rows, write_results
from t5x_like.evaluation.generation import Generation, make_generator
from t5x_like.evaluation.head_predictions import told_of_lines
from t5x_like.evaluation.heads import HeadEvaluation, evaluator_of
from t5x_like.model import parameters
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import check_batch_size, place
from t5x_like.pretrained.initial_weights import check_length
from t5x_like.pretrained.model_config import load_run
from t5x_like.text import registry
from t5x_like.text.batches.features import SHIFTED_IN
from t5x_like.text.registry import word_question
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.seqio_bridge.evaluation_examples import examples_from_text
from t5x_like.text.seqio_bridge.vocabulary import end_of


@dataclass(frozen=True, kw_only=True)
class EvaluationRun:
    """Which weights, which questions, and where the answers go.

    ``checkpoint`` is a run directory; its newest good step is taken unless ``step`` names one.
    """

    checkpoint: str
    evaluations: tuple[TaskEvaluation | HeadEvaluation, ...]
    output_dir: str
    tasks: tuple[registry.Definition, ...] = ()
    step: int | None = None
    mesh: MeshConfig = field(default_factory=MeshConfig)


def evaluate(run: EvaluationRun) -> dict[str, TaskResult]:
    """Evaluates every task and writes ``scores.json`` and ``predictions.jsonl`` into ``run.output_dir``."""
    mesh = run.mesh.build()
    registration.connect()
    registry.register(run.tasks)
    config, params = load_run(run.checkpoint, step=run.step, mesh=mesh)
    graphdef, _, _ = parameters.abstract(config)
    results: dict[str, TaskResult] = {}
    for evaluation in run.evaluations:
        if isinstance(evaluation, HeadEvaluation):
            check_length(config, evaluation.inputs_length, what=f"mixture {evaluation.mixture!r}")
        results |= evaluator_of(evaluation, graphdef, mesh).run(params)
    if jax.process_index() == 0:
        write_results(results, run.output_dir)
    return results


@dataclass(frozen=True, kw_only=True)
class PredictionRun:
    """Which weights answer, and how. ``task`` tells the vocabulary and, if it words one column, the wording."""

    checkpoint: str
    task: str
    tasks: tuple[registry.Definition, ...] = ()
    inputs_length: int = 512
    batch_size: int = 16
    generation: Generation = field(default_factory=Generation)
    step: int | None = None
    mesh: MeshConfig = field(default_factory=MeshConfig)


class Prediction(NamedTuple):
    """What the model read and what it wrote."""

    input: str
    prediction: str


def predict(run: PredictionRun, lines: Iterable[str]) -> Iterator[Prediction]:
    """Answers each line, batch by batch as they come; an encoder by its head (``head_predictions``)."""
    mesh = run.mesh.build()
    check_batch_size(run.batch_size, mesh)
    registration.connect()
    registry.register(run.tasks)
    config, params = load_run(run.checkpoint, step=run.step, mesh=mesh)
    graphdef, _, _ = parameters.abstract(config)
    if not hasattr(parameters.merge(graphdef, params), "start_cache"):  # it writes nothing
        sizes = {"inputs_length": run.inputs_length, "batch_size": run.batch_size}
        for told in told_of_lines(run.task, lines, graphdef, params, mesh=mesh, **sizes):
            yield Prediction(told.input, str(told.prediction))
        return
    vocabulary = registration.get_task(run.task).output_features["targets"].vocabulary
    generate = make_generator(
        graphdef, run.generation, mesh, eos_token_id=end_of(vocabulary), prompts_follow=SHIFTED_IN
    )
    worded = (word_question(run.task, line) for line in lines)
    while texts := list(islice(worded, run.batch_size)):
        questions = examples_from_text(
            texts,
            task=run.task,
            inputs_length=run.inputs_length,
            targets_length=run.generation.max_new_tokens,
        )
        ((numbers, batch),) = questions.batches(run.batch_size)
        ids = generate(params, place(local_rows(batch, mesh), mesh))[np.argsort(numbers)]
        for text, row in zip(texts, ids, strict=False):
            yield Prediction(text, vocabulary.decode(row.tolist()))
