"""Evaluation of model weights on held-out rows of their tasks, during training and of finished runs."""

import functools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, NamedTuple, Protocol

import jax
from jax.sharding import Mesh

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.evaluation.head_evaluator import HeadEvaluator
from t5x_like.evaluation.head_predictor import HeadPredictor
from t5x_like.evaluation.prediction_log import replace_rows
from t5x_like.evaluation.prompts import Prompter, PromptStyle
from t5x_like.evaluation.questions import load_questions, load_seqio_questions, tasks_with_split
from t5x_like.evaluation.scores_file import Entry, Row, build_scores, write_scores
from t5x_like.evaluation.span_answers import SpanSearch
from t5x_like.evaluation.text_evaluator import TextEvaluator
from t5x_like.evaluation.text_model import TextModel
from t5x_like.inference.generator import GenerationConfig
from t5x_like.inference.prompt_encoder import TextCodec
from t5x_like.io.progress import Progress
from t5x_like.model import parameters
from t5x_like.partitioning.shard import check_batch_size
from t5x_like.pretrained.initial_weights import check_label_type, check_length
from t5x_like.text.batches.head_questions import read_questions
from t5x_like.text.tasks.foreign_tasks import ForeignTask
from t5x_like.text.tasks.pairs import PairsTask
from t5x_like.text.tasks.rows import RowPolicy
from t5x_like.text.tasks.task_set import Task, TaskSet

_log = logging.getLogger(__name__)


class TaskEvaluator(Protocol):
    """Rows of one task, and the method that predicts and scores them."""

    @property
    def inputs(self) -> Mapping[int, str]:
        """Input texts by row number."""
        ...

    @property
    def source_rows(self) -> list[Mapping[str, Any]]:
        """Fields of the rows as their files have them."""
        ...

    def answer(self, params: Any, answered: Collection[int] = ()) -> Iterator[list[Row]]:
        """Yield rows of ``predictions.jsonl``, one list for each batch.

        Args:
          params: Weights to evaluate.
          answered: Numbers of rows with a known prediction; batches of only such rows are skipped.
        """
        ...

    def score(self, rows: Sequence[Row], *, resamples: int = 0) -> Entry:
        """Return the task's entry in ``scores.json``.

        Args:
          rows: All rows of ``predictions.jsonl``, in order.
          resamples: Bootstrap resamples of confidence intervals; 0 computes none.
        """
        ...


class TaskResult(NamedTuple):
    """Results of one task.

    Attributes:
      entry: The task's entry in ``scores.json``.
      rows: The rows of ``predictions.jsonl``, in order.
    """

    entry: Entry
    rows: list[Row]

    @property
    def scores(self) -> dict[str, float]:
        """Score by metric; NaN where a score is not a number."""
        return {
            name: float("nan") if value is None else value for name, value in self.entry["scores"].items()
        }

    @property
    def baseline(self) -> dict[str, float | None]:
        """Score of always predicting the most frequent training answer."""
        return self.entry["baseline"]


class Evaluator:
    """Evaluation of several tasks, compiled once and run on any weights.

    Args:
      plans: Plans by task name.
      facts: Further fields of each task's entry in ``scores.json``.
    """

    def __init__(self, plans: Mapping[str, TaskEvaluator], facts: Mapping[str, Entry]):
        self._plans, self._facts = plans, facts

    def run(self, params: Any, after_batch: Callable[[], None] = lambda: None) -> dict[str, TaskResult]:
        """Evaluate every task with these weights, showing progress from the first process.

        Args:
          params: Weights to evaluate.
          after_batch: Called after each batch; its errors end the evaluation.

        Raises:
          ValueError: The model lacks the head that a task needs.
        """
        results = {}
        for task, plan in self._plans.items():
            rows: list[Row] = []
            shown = jax.process_index() == 0
            with Progress(f"evaluating {task}", len(plan.inputs), "questions", shown=shown) as progress:
                for batch in plan.answer(params):
                    rows += batch
                    progress.add(len(batch))
                    after_batch()
                rows.sort(key=lambda row: row["number"])
                results[task] = TaskResult(plan.score(rows) | self._facts[task], rows)
        return results


@config_class
class TaskEvaluation:
    """Evaluation of text outputs, in the form of the model's training examples.

    Attributes:
      mixture: Name of a task, or of a mixture whose tasks are evaluated one by one.
      inputs_length: Tokens of an input, as in training; longer inputs are cut.
      targets_length: Tokens of a target whose likelihood is computed.
      split: Split to evaluate; tasks of a mixture without it are left out.
      batch_size: Examples in a batch.
      limit: Most rows to evaluate, the same sample of the split each time; all by default. Of tasks that only
        seqio knows it is the first rows.
      method: "generate" decodes an output; "rank" predicts the most likely of the task's ``labels``, which suits
        classification with few classes.
      generation: Decoding settings.
    """

    mixture: str
    inputs_length: int
    targets_length: int
    split: str = "validation"
    batch_size: int = 64
    limit: int | None = None
    method: Literal["generate", "rank"] = "generate"
    generation: GenerationConfig = field(default_factory=GenerationConfig)

    def __post_init__(self) -> None:
        if self.method == "rank" and not self.generation.is_greedy:
            raise ValueError(
                "generation has no effect: method='rank' generates nothing; leave its beams or temperature out"
            )

    def evaluator(self, tasks: TaskSet, config: Any, mesh: Mesh) -> Evaluator:
        """Read the rows and prepare a model of this configuration.

        Args:
          tasks: Tasks of ``mixture``.
          config: Configuration of the model.
          mesh: Devices.

        Raises:
          ValueError: Unknown split, bad rows, or tasks that have no answers.
        """
        check_batch_size(self.batch_size, mesh)
        plans, facts = {}, {}
        # Tasks of one vocabulary share compiled programs.
        model_with = functools.cache(functools.partial(TextModel.as_trained, config, mesh))
        for name, task in tasks_with_split(tasks, self.split).items():
            plans[name], facts[name] = self._plan(task, config, model_with)
        return Evaluator(plans, facts)

    def _plan(
        self, task: Task, config: Any, model_with: Callable[[TextCodec], TextModel]
    ) -> tuple[TextEvaluator, Entry]:
        skipped = RowPolicy().described()
        if isinstance(task, ForeignTask):
            lengths = {"inputs_length": self.inputs_length, "targets_length": self.targets_length}
            questions, codec = load_seqio_questions(task.name, self.split, limit=self.limit, **lengths)
            model = model_with(codec)
        else:
            task.require_answers()
            assert isinstance(task, PairsTask), "it has answers"
            policy = RowPolicy(task.on_bad_row)
            questions = load_questions(task, self.split, limit=self.limit, policy=policy)
            skipped = policy.described()
            model = model_with(task.tokenizer)
        prompt_length = self.inputs_length + len(model.prompt_encoder.prefix_ids)
        answer = self.targets_length if self.method == "rank" else self.generation.max_new_tokens
        model.check_length(
            config, prompt=prompt_length, answer=answer, what=f"task {task.name!r}, with its answers,"
        )
        plan = TextEvaluator(
            model=model,
            questions=questions,
            prompter=Prompter(task=task.name, style=PromptStyle()),
            method=self.method,
            prompt_length=prompt_length,
            batch_size=self.batch_size,
            generation=self.generation,
            target_length=self.targets_length,
            scores_targets=bool(questions.likelihood_metrics),
        )
        return plan, {"split": self.split, "limit": self.limit, "method": self.method, **skipped}


@config_class
class HeadEvaluation:
    """Evaluation of a fine-tuned head.

    Attributes:
      mixture: Name of a task, or of a mixture whose tasks are evaluated one by one.
      inputs_length: Tokens of an input. Longer texts are cut; contexts of questions are read in windows.
      split: Split to evaluate.
      batch_size: Examples in a batch.
      limit: Most rows to evaluate, the same sample of the split each time; all by default.
      max_answer_length: See ``SpanSearch``.
      null_score_diff_threshold: See ``SpanSearch``.
      n_best: See ``SpanSearch``.
    """

    mixture: str
    inputs_length: int
    split: str = "validation"
    batch_size: int = 64
    limit: int | None = None
    max_answer_length: int = 30
    null_score_diff_threshold: float = 0.0
    n_best: int = 20

    @property
    def spans(self) -> SpanSearch:
        """Search for answer spans."""
        return SpanSearch(
            max_answer_length=self.max_answer_length,
            null_score_diff_threshold=self.null_score_diff_threshold,
            n_best=self.n_best,
        )

    def evaluator(self, tasks: TaskSet, config: Any, mesh: Mesh) -> Evaluator:
        """Read the rows and prepare a model of this configuration.

        Args:
          tasks: Tasks of ``mixture``.
          config: Configuration of the model.
          mesh: Devices.

        Raises:
          ValueError: Unknown split, bad rows, tasks without a head format, or texts longer than the model's
            positions, or a head for another number of classes of a row.
        """
        check_length(config, self.inputs_length, what=f"mixture {self.mixture!r}")
        check_batch_size(self.batch_size, mesh)
        predictor = HeadPredictor(parameters.abstract(config)[0], mesh, batch_size=self.batch_size)
        plans, facts = {}, {}
        heads = {name: each.head for name, each in tasks.head_formats.items()}
        if not any(head.kind == "question_answering" for head in heads.values()):
            refuse_unused(
                self,
                "max_answer_length",
                "null_score_diff_threshold",
                "n_best",
                because=f"no task of {self.mixture!r} has answers in a context",
            )
        for name, task in tasks.tasks.items():
            check_label_type(config, heads[name].problem_type, what=f"task {name!r}")
            plans[name], facts[name] = self._plan(task, predictor)
        return Evaluator(plans, facts)

    def _plan(self, task: Task, predictor: HeadPredictor) -> tuple[HeadEvaluator, Entry]:
        definition: Any = task  # a head reads it
        policy = RowPolicy(definition.on_bad_row)
        plan = HeadEvaluator(
            definition=definition,
            split=self.split,
            read=read_questions(definition, self.split, limit=self.limit, policy=policy),
            predictor=predictor,
            inputs_length=self.inputs_length,
            spans=self.spans,
        )
        where, questions = f"task {task.name}, split {self.split}", plan.questions
        if questions.examples.num_cut:
            _log.warning(
                "%s: %d of %d rows are longer than inputs_length=%d and were cut",
                where,
                questions.examples.num_cut,
                len(questions),
                self.inputs_length,
            )
        if not questions.num_labeled:
            _log.warning("%s: no row has a label; predictions are given, and no scores", where)
        facts = {"split": self.split, "limit": self.limit, "method": "head", **policy.described()}
        return plan, facts


def write_results(
    results: Mapping[str, TaskResult],
    directory: str,
    *,
    checkpoint: str,
    step: int | None,
    config: Any,
    params: Any,
) -> None:
    """Write ``scores.json`` and each task's ``predictions.jsonl``, from the first process.

    Args:
      results: Results by task.
      directory: Output directory.
      checkpoint: Name of the weights, for ``scores.json``.
      step: Training step of the weights, for ``scores.json``.
      config: Model configuration.
      params: The weights.
    """
    if jax.process_index() != 0:
        return
    for task, result in results.items():
        replace_rows(directory, task, result.rows)
    entries = {task: result.entry for task, result in results.items()}
    facts = {"checkpoint": checkpoint, "step": step, "model": describe_model(config, params)}
    write_scores(directory, build_scores(entries, **facts))


def describe_model(config: Any, params: Any) -> dict[str, Any]:
    """Return the architecture's name and the number of parameters, as ``scores.json`` has them.

    Args:
      config: Configuration of the model.
      params: Its weights.
    """
    name = type(config).__name__.removesuffix("Config")
    return {"model": name, "parameters": parameters.count(params)}
