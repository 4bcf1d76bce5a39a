"""Evaluation of a checkpoint on benchmarks, with predictions on disk as they are made."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax

from t5x_like.evaluation.evaluator import TaskEvaluator, describe_model
from t5x_like.evaluation.head_evaluator import HeadEvaluator
from t5x_like.evaluation.head_predictor import HeadPredictor, class_order, list_heads
from t5x_like.evaluation.perplexity import PerplexityEvaluator
from t5x_like.evaluation.prediction_log import PredictionLog, check_results_directory, claim_results_directory
from t5x_like.evaluation.prompts import DECODER_STYLE, Prompter, PromptStyle
from t5x_like.evaluation.questions import (
    find_task,
    find_tasks,
    load_questions,
    published_rows,
    training_rows,
    training_task_of,
)
from t5x_like.evaluation.scores_file import Entry, build_scores, write_scores
from t5x_like.evaluation.submissions import check_test_rows
from t5x_like.evaluation.suite_settings import Method, SuiteEvaluation, method_for
from t5x_like.evaluation.task_selection import check_head, select_answerable, select_by_files
from t5x_like.evaluation.text_evaluator import TextEvaluator, answer_length
from t5x_like.evaluation.text_model import TextModel
from t5x_like.inference.generator import GenerationConfig
from t5x_like.io.progress import Progress
from t5x_like.model import parameters
from t5x_like.partitioning.shard import check_batch_size
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.initial_weights import check_label_type
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.output_scale import params_in_scale
from t5x_like.pretrained.run_weights import steps_of, trained_on, trained_to_write, trained_with_framing
from t5x_like.pretrained.weight_sources import identity_of, is_run
from t5x_like.text.batches.head_questions import read_questions
from t5x_like.text.tasks.rows import RowPolicy

_DEFAULT_LENGTHS = {"encoder": 512, "encoder_decoder": 512, "decoder": 2048}
_SHORTEST_RANKED = 64  # tokens of a ranked answer that are scored, at least


def evaluate_suite(
    suite: SuiteEvaluation, *, shown: bool = True, for_server: bool = False, base: Checkpoint | None = None
) -> dict[str, Any]:
    """Evaluate every task and return the contents of ``scores.json``.

    Writes ``scores.json``, ``evaluation.json`` (the settings that results depend on) and ``TASK/predictions.jsonl``
    into ``suite.output_dir``. An interrupted evaluation continues after the predictions that exist.

    Args:
      suite: Checkpoint, tasks and settings.
      shown: Show progress.
      for_server: Require the exact test rows that GLUE's and SuperGLUE's servers score.
      base: The open checkpoint that the frozen weights of ``suite.checkpoint`` came from, whose arrays are shared.

    Raises:
      ValueError: A checkpoint, task, split or setting that can't be evaluated, or an ``output_dir`` with other results.
        Nothing was written then.
    """
    mesh = suite.mesh.build()
    check_batch_size(suite.batch_size, mesh)
    step = _step_of(suite.checkpoint, suite.step)
    identity = {
        "checkpoint": suite.checkpoint,
        "step": step,
        "weights": identity_of(suite.checkpoint, step),
        **suite.identity_settings(),
    }
    check_results_directory(suite.output_dir, identity)
    find = partial(
        find_task,
        vocabulary=suite.vocabulary or suite.checkpoint,
        data_dir=suite.data_dir,
        on_bad_row=suite.on_bad_row,
    )
    selection = select_by_files(
        {task: find(task, num_sentinels=0) for task in suite.tasks},
        suite.split,
        needs_training_split=bool(suite.num_shots),
        skip_missing=suite.skip_missing,
        data_dir=suite.data_dir,
    )
    model = open_checkpoint(
        suite.checkpoint,
        mesh=mesh,
        step=step,
        vocabulary=suite.vocabulary,
        num_sentinels=suite.num_sentinels,
        needs_tokenizer=True,
        base=base,
    )
    planner = _Planner(suite, model)
    definitions = {task: find(task, num_sentinels=model.tokenizer.num_sentinels) for task in selection.tasks}
    if framing := trained_with_framing(suite.checkpoint):
        definitions = {task: replace(each, framing=framing) for task, each in definitions.items()}
    selection = select_answerable(
        selection,
        planner.faults(definitions),
        whose=f"{suite.checkpoint} (heads: {list_heads(planner.model)})",
        skip_missing=suite.skip_missing,
    )
    suite.check_methods(planner.methods([definitions[task] for task in selection.tasks]))
    planned = {task: planner.plan(definitions[task]) for task in selection.tasks}
    if for_server:
        check_test_rows({task: plan.source_rows for task, (plan, _) in planned.items()})
    claim_results_directory(suite.output_dir, identity)
    shown = shown and not jax.process_index()
    weights = {task: planner.weights(definitions[task]) for task in planned}
    entries = _evaluate_tasks(planned, weights, suite, shown=shown)
    own = {name: value for name, value in identity.items() if name not in ("checkpoint", "step")}
    found = build_scores(
        entries,
        checkpoint=suite.checkpoint,
        step=step,
        model=describe_model(model.config, model.params),
        settings=own | {"inputs_length": planner.length},
        left_out=selection.left_out,
    )
    if jax.process_index() == 0:
        write_scores(suite.output_dir, found)
    return found


def evaluate_adapters(
    checkpoint: str, suites: Sequence[SuiteEvaluation]
) -> Iterator[tuple[SuiteEvaluation, dict[str, Any]]]:
    """Evaluate runs that trained adapters on one checkpoint, which is opened once.

    Args:
      checkpoint: The checkpoint that all of them were trained on.
      suites: The evaluation of each run.

    Yields:
      Each evaluation, with the contents of its ``scores.json``.

    Raises:
      ValueError: As ``evaluate_suite``; or a run was trained on other weights.
    """
    base = open_checkpoint(checkpoint, mesh=suites[0].mesh.build(), finite=False)
    for suite in suites:
        yield suite, evaluate_suite(suite, base=base)


def _evaluate_tasks(
    planned: dict[str, tuple[TaskEvaluator, Entry]],
    weights: Mapping[str, parameters.Parameters],
    suite: SuiteEvaluation,
    *,
    shown: bool,
) -> dict[str, Entry]:
    """Evaluate planned tasks, removing them from ``planned``; return their entries in ``scores.json``."""
    entries: dict[str, Entry] = {}
    for number, task in enumerate(tasks := list(planned), start=1):
        plan, facts = planned.pop(task)  # frees the rows of finished tasks
        start = time.monotonic()
        log = PredictionLog(suite.output_dir, task, plan.inputs)
        label = f"{task} ({number} of {len(tasks)})"
        with Progress(label, len(plan.inputs), "questions", shown=shown) as progress:
            progress.skip(len(log.rows))
            for rows in plan.answer(weights[task], log.rows):
                progress.add(log.add(rows))
            entries[task] = plan.score(log.finish(), resamples=suite.resamples) | facts
        entries[task]["seconds"] = round(time.monotonic() - start, 1)
    return entries


class _Planner:
    """Makes plans of tasks for one model, by the suite's settings."""

    def __init__(self, suite: SuiteEvaluation, checkpoint: Checkpoint):
        self._suite, self._checkpoint = suite, checkpoint
        self.model = parameters.merge(checkpoint.graphdef, checkpoint.params)
        self.length = _prompt_length(suite.inputs_length, checkpoint, suite.checkpoint)
        is_encoder = checkpoint.kind == "encoder"
        self._can_generate = not checkpoint.answers_by_head and (
            not is_encoder or trained_to_write(checkpoint.directory)
        )
        self._text_model = None
        if self._can_generate:
            self._text_model = (
                TextModel.as_trained(checkpoint.config, checkpoint.mesh, checkpoint.tokenizer)
                if is_encoder
                else TextModel.of_checkpoint(checkpoint)
            )
        self._predictor = HeadPredictor(checkpoint.graphdef, checkpoint.mesh, batch_size=suite.batch_size)
        self._trained_on = trained_on(suite.checkpoint)

    def faults(self, definitions: Mapping[str, Any]) -> dict[str, ValueError]:
        """Return the tasks that this model can't answer, with the errors."""
        found = {}
        for task, definition in definitions.items():
            try:
                if self._method(definition) == "head":
                    own = self._checkpoint.class_names
                    check_head(self.model, definition, given=self._suite.classes, own=own)
                    head = definition.head_format().head
                    check_label_type(self._checkpoint.config, head.problem_type, what=f"task {task!r}")
            except ValueError as error:
                found[task] = error
        return found

    def methods(self, definitions: Sequence[Any]) -> list[Method]:
        """Return the methods that tasks are answered by, each once."""
        return [*{self._method(each): None for each in definitions}]

    def plan(self, definition: Any) -> tuple[TaskEvaluator, Entry]:
        """Read a task's rows; return its plan and further fields of its entry in ``scores.json``.

        Raises:
          ValueError: Bad rows, or none.
        """
        suite, method = self._suite, self._method(definition)
        policy = RowPolicy(definition.on_bad_row)
        facts: Entry = {"split": suite.split, "limit": suite.limit, "method": method}
        if method == "head":
            plan, notes = self._head_plan(definition, policy)
            facts |= notes
        else:
            plan = self._text_plan(definition, method, policy)
        read, published = len(plan.inputs) + policy.num_skipped, published_rows(definition, suite.split)
        if suite.limit is None and published not in (None, read):
            facts["published"] = published
        return plan, facts | policy.described()

    def weights(self, definition: Any) -> parameters.Parameters:
        """Return the weights that answer a task; an exported regression predicts in the task's scale."""
        if self._method(definition) != "head":
            return self._checkpoint.params
        checkpoint, scale = self._checkpoint, definition.head_format().output_scale
        return params_in_scale(checkpoint.params, checkpoint.fields, scale)

    def _method(self, definition: Any) -> Method:
        suite = self._suite
        return method_for(
            definition,
            self._checkpoint.kind,
            can_generate=self._can_generate,
            requested=suite.method,
            num_shots=suite.num_shots,
            checkpoint=suite.checkpoint,
        )

    def _head_plan(self, definition: Any, policy: RowPolicy) -> tuple[HeadEvaluator, Entry]:
        suite, mixture = self._suite, self._trained_on
        order = class_order(
            suite.classes or self._checkpoint.class_names, definition.head_format(), trained_task=mixture
        )
        plan = HeadEvaluator(
            definition=definition,
            split=suite.split,
            read=read_questions(definition, suite.split, limit=suite.limit, policy=policy),
            predictor=self._predictor,
            inputs_length=self.length,
            order=order,
            refuses_nan=True,
        )
        notes = {"class_order": order.note} if order.note else {}
        own = {definition.name, training_task_of(definition).name} & {mixture, *_tasks_in(mixture)}
        return plan, notes if own or not mixture else notes | {"head_of": mixture}

    def _text_plan(
        self, definition: Any, method: Method, policy: RowPolicy
    ) -> TextEvaluator | PerplexityEvaluator:
        suite, model = self._suite, self._text_model
        questions = load_questions(definition, suite.split, limit=suite.limit, policy=policy)
        if method == "measure":
            return PerplexityEvaluator(
                model=self._checkpoint, questions=questions, length=self.length, batch_size=suite.batch_size
            )
        assert model is not None, "encoders write nothing"
        longest = suite.max_new_tokens or answer_length(model, questions)
        needs_marker = model.is_decoder and not definition.continues_inputs
        return TextEvaluator(
            model=model,
            questions=questions,
            prompter=Prompter(
                task=definition.name,
                style=suite.style or (DECODER_STYLE if needs_marker else PromptStyle()),
                num_shots=suite.num_shots,
                seed=suite.shot_seed,
                pool=tuple(training_rows(definition)) if suite.num_shots else (),
            ),
            method="rank" if method == "rank" else "generate",
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


def _tasks_in(mixture: str) -> Collection[str]:
    tasks = find_tasks(mixture)
    return () if tasks is None else tasks.names  # unless the run's own mixture is unknown here


def _step_of(checkpoint: str, requested: int | None) -> int | None:
    """Return the step to evaluate: by default a run's newest; ``None`` for other checkpoints.

    Raises:
      ValueError: The run has no steps, or not that one.
    """
    if not is_run(checkpoint):
        if requested is not None:
            raise ValueError(
                f"{checkpoint} is no run of ours and has no steps, only its weights; leave step out"
            )
        return None
    steps = steps_of(checkpoint)
    if not steps or requested not in (None, *steps):
        wanted = "finished step" if requested is None else f"finished step {requested}"
        raise ValueError(f"{checkpoint} has no {wanted}, only {steps or 'none'}")
    return steps[-1] if requested is None else requested


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
    available = min(
        length, model.max_positions - answer - (model.kind == "encoder")
    )  # which reads a mask last
    if available < 1:
        raise ValueError(
            f"an answer of {answer} tokens leaves no room for a question in {model.max_positions} positions; lower "
            "max_new_tokens"
        )
    return available
