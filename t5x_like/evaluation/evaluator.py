"""Evaluations of a run on held-out rows of its tasks, during training and afterwards."""

import functools
import logging
from dataclasses import field
from typing import Any, Literal

from jax.sharding import Mesh

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.evaluation.evaluated_tasks import is_comparison_task, is_perplexity_task, tasks_with_split
from t5x_like.evaluation.head_evaluator import HeadEvaluator
from t5x_like.evaluation.head_predictor import HeadPredictor
from t5x_like.evaluation.prompts import Prompter, PromptStyle
from t5x_like.evaluation.questions import Questions, load_questions, load_seqio_questions
from t5x_like.evaluation.span_answers import SpanSearch
from t5x_like.evaluation.task_evaluators import Evaluator, RowSelection, build_evaluator
from t5x_like.evaluation.text_evaluator import TextEvaluator
from t5x_like.evaluation.text_model import TextModel
from t5x_like.inference.generator import GenerationConfig
from t5x_like.model import parameters
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.partitioning.shard import check_batch_size
from t5x_like.pretrained.initial_weights import check_label_type, check_length
from t5x_like.text.batches.head_questions import read_questions
from t5x_like.text.batches.loader_config import PrefixAttention
from t5x_like.text.tasks.task_set import TaskSet

_log = logging.getLogger(__name__)


@config_class
class TaskEvaluation:
    """Evaluation of text outputs, in the form of the model's training examples.

    Attributes:
      mixture: Name of a task, or of a mixture whose tasks are evaluated one by one.
      inputs_length: Tokens of an input, as in training; longer inputs are cut. Recordings are never cut, and tasks of
        speech have a limit in seconds instead.
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

    def evaluator(
        self,
        tasks: TaskSet,
        config: CommonConfig,
        mesh: Mesh,
        *,
        prefix_attention: PrefixAttention = "bidirectional",
    ) -> Evaluator:
        """Read the rows and prepare a model of this configuration.

        Args:
          tasks: Tasks of ``mixture``.
          config: Configuration of the model.
          mesh: Devices.
          prefix_attention: How a decoder was trained to read inputs. With "causal" no id precedes a prompt.

        Raises:
          ValueError: Unknown split, bad rows, or tasks that have no answers.
        """
        check_batch_size(self.batch_size, mesh)
        # Tasks of one vocabulary share compiled programs.
        model_with = functools.cache(
            functools.partial(TextModel.as_trained, config, mesh, prefix_attention=prefix_attention)
        )

        def read(task: Any, rows: RowSelection) -> TextEvaluator:
            if task.tokenizer is None:  # of another library
                lengths = {"inputs_length": self.inputs_length, "targets_length": self.targets_length}
                questions, codec = load_seqio_questions(task.name, rows.split, limit=rows.limit, **lengths)
                return self.text_evaluator(questions, model_with(codec), config)
            task.require_answers()
            if is_comparison_task(task) or is_perplexity_task(task):
                raise ValueError(
                    f"task {task.name!r} scores whole texts, which evaluations of a run don't; leave it out, and use "
                    "t5x-like evaluate --every_checkpoint"
                )
            return self.text_evaluator(
                load_questions(task, **rows._asdict()), model_with(task.tokenizer), config
            )

        return Evaluator(
            {
                name: build_evaluator(task, self.method, read, split=self.split, limit=self.limit)
                for name, task in tasks_with_split(tasks, self.split).items()
            }
        )

    def text_evaluator(self, questions: Questions, model: TextModel, config: ModelConfig) -> TextEvaluator:
        """Return the evaluator of rows in the form of the model's training examples.

        Args:
          questions: The rows.
          model: The model with the tokenizer of the task.
          config: Configuration of the model.

        Raises:
          ValueError: The model lacks positions for inputs with their answers.
        """
        if self.generation.ctc_weight > 0 and not traits_of(config).has_ctc_head:
            raise ValueError(
                f"ctc_weight={self.generation.ctc_weight:g} needs a model with a head for CTC, as SpeechRecognition "
                "trains it; leave it out"
            )
        num_tokens = self.inputs_length + len(model.prompt_encoder.prefix_ids)
        prompt_length = num_tokens if questions.max_samples is None else questions.max_samples
        answer = self.targets_length if self.method == "rank" else self.generation.max_new_tokens
        what = f"task {questions.task!r}, with its answers,"
        model.check_length(config, prompt=prompt_length, answer=answer, what=what)
        return TextEvaluator(
            model=model,
            questions=questions,
            prompter=Prompter(task=questions.task, style=PromptStyle()),
            method=self.method,
            prompt_length=prompt_length,
            batch_size=self.batch_size,
            generation=self.generation,
            target_length=self.targets_length,
            scores_targets=bool(questions.likelihood_metrics),
        )


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

    def evaluator(
        self,
        tasks: TaskSet,
        config: CommonConfig,
        mesh: Mesh,
        *,
        prefix_attention: PrefixAttention = "bidirectional",
    ) -> Evaluator:
        """Read the rows and prepare a model of this configuration.

        Args:
          tasks: Tasks of ``mixture``.
          config: Configuration of the model.
          mesh: Devices.
          prefix_attention: Ignored; heads read no prompts.

        Raises:
          ValueError: Unknown split, bad rows, tasks without a head format, or texts longer than the model's
            positions, or a head for another number of classes of a row.
        """
        del prefix_attention
        check_length(config, self.inputs_length, what=f"mixture {self.mixture!r}")
        check_batch_size(self.batch_size, mesh)
        heads = {name: each.head for name, each in tasks.head_formats.items()}
        if not any(head.kind == "question_answering" for head in heads.values()):
            refuse_unused(
                self,
                "max_answer_length",
                "null_score_diff_threshold",
                "n_best",
                because=f"no task of {self.mixture!r} has answers in a context",
            )
        for name, head in heads.items():
            check_label_type(config, head.problem_type, what=f"task {name!r}")
        predictor = HeadPredictor(parameters.abstract(config)[0], mesh, batch_size=self.batch_size)

        def read(task: Any, rows: RowSelection) -> HeadEvaluator:
            return HeadEvaluator(
                definition=task,
                split=rows.split,
                rows=read_questions(task, **rows._asdict()),
                predictor=predictor,
                inputs_length=self.inputs_length,
                spans=self.spans,
            )

        rows = {"split": self.split, "limit": self.limit}
        evaluators = {name: build_evaluator(task, "head", read, **rows) for name, task in tasks.tasks.items()}
        for name, evaluator in evaluators.items():
            self._warn(name, evaluator)
        return Evaluator(evaluators)

    def _warn(self, task: str, evaluator: Any) -> None:
        where, questions = f"task {task}, split {self.split}", evaluator.questions
        if questions.examples.num_cut:
            _log.warning(
                "%s: %d of %d rows are longer than inputs_length=%d and were cut, by %d %s in all",
                where,
                questions.examples.num_cut,
                len(questions),
                self.inputs_length,
                questions.examples.cut_in_all,
                questions.head_format.cut_unit,
            )
        if not questions.num_labeled:
            _log.warning("%s: no row has a label; predictions are given, and no scores", where)
