"""Training runs, from the configuration to the last step."""

import contextlib
import functools
import logging
import os
from dataclasses import replace
from typing import Any

import jax
from jax.sharding import Mesh

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.checkpoints.steps import absolute
from t5x_like.io.paths import find_file
from t5x_like.model.adapters.adapter_weights import trainable_by_default
from t5x_like.optimizers.optax_optimizer import as_optimizer
from t5x_like.partitioning.shard import row_share
from t5x_like.pretrained.frozen_weights import FrozenRecord, fresh_params, read_frozen_record, record_frozen
from t5x_like.pretrained.initial_weights import (
    CheckpointModel,
    initial_checkpoint,
    with_lm_head,
)
from t5x_like.pretrained.open_checkpoint import open_frozen, with_features
from t5x_like.text import registry
from t5x_like.text.batches.head_source import classes_for, head_for, scale_for
from t5x_like.text.batches.loader import Loader, build_loader
from t5x_like.text.seqio_bridge import registration
from t5x_like.training.batch_ramp import RampLoader, RampSchedule
from t5x_like.training.divergence import StopOnSkippedSteps
from t5x_like.training.experiment import Experiment, describe
from t5x_like.training.head_options import refuse_head_options
from t5x_like.training.hooks import Evaluation, Every, Profile, TrainLog
from t5x_like.training.loop import Finished, Loop, TrainStep
from t5x_like.training.loss_spikes import WatchLossSpikes
from t5x_like.training.model_checks import check_model, check_split
from t5x_like.training.opening_lines import opening_lines
from t5x_like.training.recorded_logits import RecordedLogits
from t5x_like.training.run_directory import claim, keep_compiled_programs, only_writer, refuse_another_run
from t5x_like.training.saving import Save
from t5x_like.training.state import (
    State,
    StatePlan,
    fine_tuning_state,
    new_state,
    plan_state,
    saved_part,
    shardings_of,
)
from t5x_like.training.step import train_step
from t5x_like.training.teacher import Teacher, open_teacher
from t5x_like.training.validation import Validator
from t5x_like.training.watchdog import EndIfHung
from t5x_like.training.writers import Writers, logged_lines
from t5x_like.word_vectors.character_table import character_path, with_character_ids
from t5x_like.word_vectors.initial_table import match_vectors, with_vectors

log = logging.getLogger(__name__)


def train(experiment: Experiment, *, config_text: str = "", from_step: int | None = None) -> Finished:
    """Train to the experiment's last step, from fresh weights, other weights, or this run's newest checkpoint.

    A killed run that is started again continues the same sequence of losses. SIGTERM saves and returns early.

    Args:
      experiment: the configuration.
      config_text: the same as gin, kept in ``model_dir`` for people.
      from_step: a saved step of this run to continue from, in place of the newest. Later steps are set aside.

    Raises:
      FileNotFoundError: ``from_step`` is not saved.
      ValueError: the configuration can't work, or ``model_dir`` holds a run of another configuration.
    """
    registration.connect()
    registry.register(experiment.tasks)
    experiment = with_model(experiment)
    model: Any = experiment.model
    refuse_another_run(experiment)
    keep_compiled_programs(experiment.model_dir)
    mesh = experiment.mesh.build()
    check_split(experiment, mesh)

    ramp = ramp_schedule(experiment)
    loader = training_loader(experiment, mesh, ramp)
    check_model(experiment, loader)
    teacher = experiment.distillation and open_teacher(
        experiment.distillation,
        model,
        mesh=mesh,
        classes=classes_for(experiment.train),
        scale=scale_for(experiment.train),
        model_dir=experiment.model_dir,
    )
    recorded = None
    if teacher is not None and teacher.distillation.logits_dir is not None:
        recorded = RecordedLogits(teacher, vocab_size=model.vocab_size, mesh=mesh)
    plan = plan_state(
        model,
        as_optimizer(experiment.optimizer),
        mesh,
        num_tasks=len(loader.task_names),
        batch_size=experiment.train.batch_size,
        trainable=experiment.trainable or ("*",),
        unfreezing=experiment.unfreezing and experiment.unfreezing.in_steps(loader.steps_per_epoch),
        total_steps=experiment.total_steps,
        average=experiment.average,
        teacher=teacher,
    )
    validators = [
        Validator(config, plan, experiment.loss, mesh, vocab_size=model.vocab_size)
        for config in experiment.validations
    ]
    evaluators = [evaluation.evaluator(model, mesh) for evaluation in experiment.evaluations]

    home, intervals = experiment.model_dir, experiment.intervals
    with (
        only_writer(home),
        Checkpoints(home, keep=intervals.keep_checkpoints) as checkpoints,
        contextlib.closing(loader),
    ):
        state, start_step, frozen = starting_state(experiment, plan, mesh, checkpoints, loader, from_step)
        claim(experiment, config_text=config_text, vocabulary=loader.vocabulary, frozen=frozen)
        if teacher is not None:
            teacher.write(home)
        lines = logged_lines(f"{home}/metrics.jsonl", up_to_step=start_step)
        with (
            Writers(home, total_steps=experiment.total_steps, start_step=start_step) as writers,
            jax.set_mesh(mesh),  # where the step lays its activations out
        ):
            epochs = loader.epochs(experiment.total_steps)
            writers.say(opening_lines(experiment, plan, mesh, start_step, epochs))
            evaluate = Evaluation(plan, validators, evaluators, model=model, model_dir=home)
            steps = compiled_steps(experiment, plan, ramp, teacher)
            if recorded is not None:
                steps = recorded.given_to(steps, start_step=start_step)
            loop = Loop(
                steps,
                loader,
                mesh=mesh,
                total_steps=experiment.total_steps,
                hooks=[
                    *(EndIfHung(each) for each in (experiment.watchdog,) if each),
                    Profile(f"{home}/profile", intervals.profile_steps),
                    Every(
                        intervals.log_every_steps, TrainLog(plan, as_optimizer(experiment.optimizer), loader)
                    ),
                    StopOnSkippedSteps(plan, experiment.max_skipped_steps),
                    *(WatchLossSpikes(each, checkpoints, plan) for each in (experiment.loss_spikes,) if each),
                    Every(intervals.evaluate_every_steps, evaluate, when_preempted=False),
                    *experiment.hooks,
                    Save(checkpoints, intervals.save_every_steps, max_failures=experiment.max_failed_saves),
                ],
                writers=writers,
                lines=lines,
                model_dir=home,
                config=describe(experiment),
            )
            return loop.run(state, start_step)


def ramp_schedule(experiment: Experiment) -> RampSchedule | None:
    """Return the microbatches of each step if batches grow."""
    ramp, rows = experiment.batch_size_ramp, experiment.train.batch_size
    return ramp and RampSchedule(ramp, batch_size=rows, num_microbatches=experiment.num_microbatches)


def training_loader(experiment: Experiment, mesh: Mesh, ramp: RampSchedule | None) -> Loader | RampLoader:
    """Return the loader of training batches.

    Raises:
      ValueError: the data can't be read, or its batches can't grow.
    """
    if ramp is None:
        return build_loader(experiment.train, *row_share(mesh))
    config = replace(experiment.train, batch_size=experiment.train.batch_size // experiment.num_microbatches)
    return RampLoader(build_loader(config, *row_share(mesh)), ramp)


def compiled_steps(
    experiment: Experiment, plan: StatePlan, ramp: RampSchedule | None, teacher: Teacher | None = None
) -> dict[int, TrainStep]:
    """Return the step of each stage of the run by the number of its first step, compiled when it is first called.

    Raises:
      ValueError: batches grow, of a model whose memory is of the rows of the batch before.
    """
    if ramp is not None and plan.abstract.keys() & {"memory", "teacher_memory"}:
        raise ValueError(
            "batch_size_ramp needs rows that don't depend on the batch before; this model has a memory of earlier "
            "segments, so leave it out"
        )
    steps = {}
    for number, start in enumerate([stage.start for stage in plan.stages] or [0]):
        step = train_step(
            plan,
            experiment.loss,
            seed=experiment.seed,
            num_microbatches=experiment.num_microbatches,
            stage=number,
            ramp=ramp,
            teacher=teacher,
        )
        compiled = jax.jit(step, donate_argnums=0, out_shardings=shardings_of(plan.abstract))
        if teacher is not None and teacher.distillation.logits_dir is None:
            steps[start] = functools.partial(compiled, teacher_params=teacher.params)
        else:
            steps[start] = compiled
    return steps


def with_model(experiment: Experiment) -> Experiment:
    """Replace ``CheckpointModel`` by the configuration of the model in ``start_from``, and fill in ``trainable``.

    A model with ``features`` gets the configuration of the model that they come from.

    For an auxiliary language-model loss, a decoder keeps its output layer over the vocabulary next to its head.

    Raises:
      ValueError: there is no model there, it can't have the head that the tasks need, the adapter doesn't fit, or an
        option is for a head that the model lacks.
    """
    model: Any = experiment.model
    if isinstance(model, CheckpointModel):
        model = model.resolve(experiment.start_from, head_for(experiment.train))
    else:
        refuse_head_options(model)
    if experiment.features is not None:
        model = experiment.features.resolve(model)
    if experiment.loss.auxiliary_lm_weight is not None:
        model = with_lm_head(model, head_for(experiment.train))
    return replace(experiment, model=model, trainable=experiment.trainable or trainable_by_default(model))


def starting_state(
    experiment: Experiment,
    plan: StatePlan,
    mesh: Mesh,
    checkpoints: Checkpoints,
    loader: Loader | RampLoader,
    from_step: int | None = None,
) -> tuple[State, int, FrozenRecord | None]:
    """Return the state to train from, its step, and where frozen weights come from (``None`` if all are trained).

    It is that of this run's newest good checkpoint or of ``from_step``, else has the weights of ``start_from``, else
    fresh ones, with the word embeddings of ``word_vectors`` and the pretrained model of ``features``. A model that
    reads characters has those of the data's words.
    """
    model: Any = experiment.model
    has_frozen = bool(plan.abstract["frozen"])
    if checkpoints.latest_step() is not None or from_step is not None:
        restored = checkpoints.restore(saved_part(plan.abstract), from_step)
        for line in restored.skipped:
            log.warning("%s", line)
        loader.restore(restored.loader_state)
        if from_step is not None:
            checkpoints.set_aside(after=from_step)
        if not has_frozen:
            return restored.state | {"frozen": {}}, restored.step, None
        record = read_frozen_record(experiment.model_dir)
        frozen = open_frozen(experiment.model_dir, model, record, mesh=mesh)
        return restored.state | {"frozen": frozen}, restored.step, record
    checkpoints.refuse_lost_steps()
    start_from, step, seed = experiment.start_from, None, experiment.seed
    if not (start_from or has_frozen or experiment.word_vectors or experiment.features):
        return new_state(plan, model, seed=seed), 0, None
    origin: dict[str, Any] = {}
    if start_from:
        checkpoint = initial_checkpoint(
            start_from,
            model,
            mesh=mesh,
            seed=seed,
            classes=classes_for(experiment.train),
            scale=scale_for(experiment.train),
        )
        start_from, step = os.fspath(absolute(start_from)), checkpoint.step
        params = checkpoint.params
    else:
        params = fresh_params(model, mesh=mesh, seed=seed)
        if experiment.word_vectors:
            matched = match_vectors(model, experiment.word_vectors, loader.vocabulary)
            log.warning("%s", matched.note)
            params = with_vectors(params, matched)
            origin["word_vectors"] = os.fspath(absolute(find_file(experiment.word_vectors)))
        if (features := experiment.features) is not None:
            place = {"start_from": features.start_from, "step": features.step}
            params, features_step = with_features(params, model, **place, mesh=mesh)
            origin |= {"features": os.fspath(absolute(features.start_from)), "features_step": features_step}
    if character_path(params) is not None:
        params = with_character_ids(params, loader.vocabulary)
    state = fine_tuning_state(plan, params, experiment.noisy_tune if start_from else None)
    if not has_frozen:
        return state, 0, None
    origin |= {"start_from": start_from or None, "step": step, "seed": seed}
    return state, 0, record_frozen(state["frozen"], plan.trained, **origin)
