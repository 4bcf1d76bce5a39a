"""A checkpoint as benchmarks use it: the method of each task, its prompts, and the rows that it answers."""

import functools
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from t5x_like.evaluation.evaluated_tasks import find_tasks, training_task_of
from t5x_like.evaluation.head_evaluator import HeadEvaluator
from t5x_like.evaluation.head_predictor import HeadPredictor, class_order
from t5x_like.evaluation.perplexity import PerplexityEvaluator
from t5x_like.evaluation.prompts import DECODER_STYLE, Prompter, PromptStyle
from t5x_like.evaluation.questions import load_questions, training_rows
from t5x_like.evaluation.suite_settings import SuiteEvaluation, method_for
from t5x_like.evaluation.task_evaluators import Method, RowSelection, TaskEvaluator, build_evaluator
from t5x_like.evaluation.task_selection import check_head
from t5x_like.evaluation.text_comparisons import ComparisonEvaluator
from t5x_like.evaluation.text_evaluator import TextEvaluator, answer_length
from t5x_like.evaluation.text_model import TextModel
from t5x_like.evaluation.text_scorers import MaskedTextScorer, ModelTextScorer
from t5x_like.inference.generator import GenerationConfig
from t5x_like.model import parameters
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.initial_weights import check_label_type
from t5x_like.pretrained.output_scale import params_in_scale
from t5x_like.pretrained.run_weights import trained_on, trained_to_write
from t5x_like.text.batches.head_questions import read_questions
from t5x_like.text.tasks.pairs import PairsTask

_DEFAULT_LENGTHS = {"encoder": 512, "encoder_decoder": 512, "decoder": 2048}
_SHORTEST_RANKED = 64  # tokens of a ranked answer that are scored, at least


class SuiteModel:
    """A checkpoint as a suite uses it: the method of each task, and the form of its answers.

    Args:
      suite: Settings.
      checkpoint: The opened checkpoint.
    """

    def __init__(self, suite: SuiteEvaluation, checkpoint: Checkpoint):
        self._suite, self._checkpoint = suite, checkpoint
        self.model = parameters.merge(checkpoint.graphdef, checkpoint.params)
        self.length = _prompt_length(suite.inputs_length, checkpoint, suite.checkpoint)
        self._predictor = HeadPredictor(checkpoint.graphdef, checkpoint.mesh, batch_size=suite.batch_size)
        self._trained_on = trained_on(suite.checkpoint)
        is_encoder = checkpoint.kind == "encoder"
        self._can_generate = not checkpoint.answers_by_head and (
            not is_encoder or trained_to_write(checkpoint.directory)
        )

    @functools.cached_property
    def _text_model(self) -> TextModel:
        checkpoint = self._checkpoint
        if checkpoint.kind == "encoder":
            return TextModel.as_trained(checkpoint.config, checkpoint.mesh, checkpoint.tokenizer)
        return TextModel.of_checkpoint(checkpoint)

    def faults(self, definitions: Mapping[str, PairsTask]) -> dict[str, ValueError]:
        """Return the tasks that this model can't answer, with the errors."""
        errors = {}
        for task, definition in definitions.items():
            try:
                if self.method(definition) == "head":
                    own = self._checkpoint.class_names
                    check_head(self.model, definition, classes_of_user=self._suite.classes, own=own)
                    head = definition.head_format().head
                    check_label_type(self._checkpoint.config, head.problem_type, what=f"task {task!r}")
            except ValueError as error:
                errors[task] = error
        return errors

    def method(self, definition: PairsTask) -> Method:
        """Return the method by which a task is answered.

        Raises:
          ValueError: The model or the task doesn't support the method that the user chose.
        """
        suite = self._suite
        return method_for(
            definition,
            self._checkpoint.kind,
            can_generate=self._can_generate,
            scores_words=self._checkpoint.can_generate,
            requested=suite.method,
            num_shots=suite.num_shots,
            checkpoint=suite.checkpoint,
        )

    def evaluator(self, definition: PairsTask) -> TaskEvaluator:
        """Read a task's rows and return their evaluator.

        Raises:
          ValueError: Bad rows, or none.
        """
        suite, method = self._suite, self.method(definition)
        read = {
            "generate": partial(self._read_prompts, method="generate"),
            "rank": partial(self._read_prompts, method="rank"),
            "head": self._read_head_rows,
            "measure": self._read_texts,
            "compare": self._read_comparisons,
        }[method]
        return build_evaluator(definition, method, read, split=suite.split, limit=suite.limit)

    def weights(self, definition: Any) -> parameters.Parameters:
        """Return the weights that answer a task; an exported regression predicts in the task's scale."""
        if self.method(definition) != "head":
            return self._checkpoint.params
        checkpoint, scale = self._checkpoint, definition.head_format().output_scale
        return params_in_scale(checkpoint.params, checkpoint.fields, scale)

    def _read_head_rows(self, task: PairsTask, rows: RowSelection) -> HeadEvaluator:
        suite, mixture = self._suite, self._trained_on
        names = suite.classes or self._checkpoint.class_names
        order = class_order(names, task.head_format(), trained_task=mixture)
        facts = {"class_order": order.note} if order.note else {}
        trained = find_tasks(mixture)  # None if the run's own mixture is unknown here
        own = {task.name, training_task_of(task).name} & {mixture, *(trained.names if trained else ())}
        return HeadEvaluator(
            definition=task,
            split=rows.split,
            rows=read_questions(task, **rows._asdict()),
            predictor=self._predictor,
            inputs_length=self.length,
            order=order,
            refuses_nan=True,
            facts=facts if own or not mixture else facts | {"head_of": mixture},
        )

    def _read_texts(self, task: PairsTask, rows: RowSelection) -> PerplexityEvaluator:
        return PerplexityEvaluator(
            model=self._checkpoint,
            questions=load_questions(task, **rows._asdict()),
            length=self.length,
            batch_size=self._suite.batch_size,
        )

    def _read_comparisons(self, task: PairsTask, rows: RowSelection) -> ComparisonEvaluator:
        checkpoint = self._checkpoint
        if checkpoint.kind == "encoder":
            scorer = MaskedTextScorer.of_checkpoint(checkpoint)
        else:
            scorer = ModelTextScorer(model=self._text_model)
        return ComparisonEvaluator(
            scorer=scorer,
            questions=load_questions(task, **rows._asdict()),
            length=self.length,
            batch_size=self._suite.batch_size,
        )

    def _read_prompts(
        self, task: PairsTask, rows: RowSelection, *, method: Literal["generate", "rank"]
    ) -> TextEvaluator:
        suite, model, questions = self._suite, self._text_model, load_questions(task, **rows._asdict())
        longest = suite.max_new_tokens or answer_length(model, questions)
        needs_marker = model.is_decoder and not task.continues_inputs
        return TextEvaluator(
            model=model,
            questions=questions,
            prompter=Prompter(
                task=task.name,
                style=suite.style or (DECODER_STYLE if needs_marker else PromptStyle()),
                num_shots=suite.num_shots,
                seed=suite.shot_seed,
                pool=tuple(training_rows(task)) if suite.num_shots else (),
            ),
            method=method,
            prompt_length=_available_prompt_length(self._checkpoint, self.length, longest),
            batch_size=suite.batch_size,
            generation=GenerationConfig(
                max_new_tokens=longest,
                num_beams=suite.num_beams,
                length_penalty_alpha=suite.length_penalty,
            ),
            target_length=max(longest, _SHORTEST_RANKED) if method == "rank" else longest,
            normalization=suite.normalization,
            scores_targets=not model.depends_on_places,
            one_line=needs_marker,
        )


def _prompt_length(requested: int | None, model: Checkpoint, checkpoint: str) -> int:
    """Return the number of tokens of a prompt.

    Raises:
      ValueError: More than the model has positions.
    """
    most = model.max_positions
    if requested is None:
        return min(_DEFAULT_LENGTHS[model.kind], most or _DEFAULT_LENGTHS[model.kind])
    if most is not None and requested > most:
        raise ValueError(f"inputs_length is {requested}, {checkpoint} can read {most} tokens; lower it")
    return requested


def _available_prompt_length(model: Checkpoint, length: int, answer: int) -> int:
    """Return the tokens of a prompt that leave room for an answer, where one row has both.

    Raises:
      ValueError: No room is left.
    """
    if model.kind == "encoder_decoder" or model.max_positions is None:
        return length
    # An encoder reads a mask last.
    available = min(length, model.max_positions - answer - (model.kind == "encoder"))
    if available < 1:
        raise ValueError(
            f"an answer of {answer} tokens leaves no room for a question in {model.max_positions} positions; lower "
            "max_new_tokens"
        )
    return available
