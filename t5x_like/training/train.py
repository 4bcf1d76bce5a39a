"""Training runs, from the configuration to the last step."""

import contextlib
from collections.abc import Mapping
from typing import Any

import jax

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.text.seqio_bridge import registration
from t5x_like.training.companions import Companion, give_companions, open_companions
from t5x_like.training.experiment import Experiment, describe
from t5x_like.training.goodput import Goodput
from t5x_like.training.hooks import Evaluation
from t5x_like.training.loop import Finished, Loop, TrainStep
from t5x_like.training.methods.on_policy import OnPolicyMethod
from t5x_like.training.model_checks import check_model, check_split
from t5x_like.training.opening_lines import opening_lines
from t5x_like.training.repeat_loader import TrainingLoader
from t5x_like.training.resolution import plan_experiment, resolve_experiment
from t5x_like.training.rollouts.rollouts import Rollouts, give_rollouts, open_prompts
from t5x_like.training.run_directory import claim, keep_compiled_programs, only_writer, refuse_another_run
from t5x_like.training.run_hooks import hooks_of_run
from t5x_like.training.starting_state import starting_state
from t5x_like.training.state import StateLayout, has_memory, shardings_of
from t5x_like.training.step import train_step
from t5x_like.training.validation import Validator
from t5x_like.training.writers import Writers, logged_lines


def train(experiment: Experiment, *, config_text: str = "", from_step: int | None = None) -> Finished:
    """Train to the experiment's last step, from its start, or from this run's newest checkpoint.

    A killed run that is started again continues the same sequence of losses. SIGTERM saves and returns early.

    Args:
      experiment: Configuration of the run.
      config_text: Configuration as gin, kept in ``model_dir`` for people.
      from_step: Saved step of this run to continue from, in place of the newest. Later steps are set aside.

    Raises:
      FileNotFoundError: ``from_step`` is not saved.
      ValueError: the configuration can't work, or ``model_dir`` holds a run of another configuration.
    """
    registration.connect()
    tasks = experiment.data.resolve()
    experiment = resolve_experiment(experiment, tasks.train)
    model: Any = experiment.model
    data, method, run = experiment.data, experiment.method, experiment.run
    home = run.model_dir
    refuse_another_run(experiment)
    keep_compiled_programs(home)
    mesh = experiment.mesh.build()
    check_split(experiment, tasks.train, mesh)

    loader: TrainingLoader
    if isinstance(method, OnPolicyMethod):
        loader = open_prompts(method, data, tasks.train, mesh)
    else:
        loader = data.open_loader(tasks.train, mesh)
    check_model(experiment, tasks, loader)
    companions = open_companions(
        method.companions(model), model, mesh=mesh, labels=loader.labels, model_dir=home
    )
    plan = plan_experiment(
        experiment,
        mesh,
        num_tasks=len(loader.task_names),
        steps_per_epoch=loader.steps_per_epoch,
        companions=companions,
    )
    validators = [
        Validator(config, each, plan, method, mesh, vocab_size=model.vocab_size, companions=companions)
        for config, each in zip(data.validations, tasks.validations, strict=True)
    ]
    rollouts = None
    if isinstance(method, OnPolicyMethod):
        rollouts = Rollouts(
            method,
            plan,
            mesh,
            train=data.train,
            tasks=tasks.train,
            tokenizer=loader.vocabulary,
            companions=companions,
            num_microbatches=data.num_microbatches,
            seed=run.seed,
            model_dir=home,
        )
    evaluators = [
        evaluation.evaluator(each, model, mesh, prefix_attention=data.train.prefix_attention)
        for evaluation, each in zip(data.evaluations, tasks.evaluations, strict=True)
    ]

    with (
        only_writer(home),
        Checkpoints(home, keep=run.intervals.keep_checkpoints) as checkpoints,
        contextlib.closing(loader),
    ):
        goodput = Goodput.of_run(home)
        state, start_step, frozen = starting_state(experiment, plan, mesh, checkpoints, loader, from_step)
        claim(
            experiment,
            config_text=config_text,
            vocabulary=loader.vocabulary,
            labels=loader.labels,
            frozen=frozen,
        )
        for name, companion in companions.items():
            companion.write(home, name)
        lines = logged_lines(f"{home}/metrics.jsonl", up_to_step=start_step)
        with (
            Writers(home, total_steps=run.total_steps, start_step=start_step) as writers,
            jax.set_mesh(mesh),  # where the step lays its activations out
        ):
            epochs = loader.epochs(run.total_steps)
            writers.say(opening_lines(experiment, plan, mesh, start_step, epochs))
            evaluate = Evaluation(plan, validators, evaluators, model=model, model_dir=home)
            steps: Mapping[int, TrainStep] = compiled_steps(
                experiment, plan, companions, label_loss=loader.label_loss
            )
            steps = give_companions(steps, companions, start_step=start_step)
            loop = Loop(
                steps if rollouts is None else give_rollouts(steps, rollouts),
                loader,
                mesh=mesh,
                total_steps=run.total_steps,
                hooks=hooks_of_run(experiment, plan, loader, checkpoints, evaluate, goodput),
                writers=writers,
                lines=lines,
                model_dir=home,
                config=describe(experiment),
            )
            return loop.run(state, start_step)


def compiled_steps(
    experiment: Experiment,
    plan: StateLayout,
    companions: Mapping[str, Companion] = {},
    *,
    label_loss: LabelLoss | None,
    in_parts: bool = True,
) -> dict[int, TrainStep]:
    """Return the step of each stage of the run by the number of its first step, compiled when it is first called.

    Args:
      experiment: Configuration of the run, resolved.
      plan: Shapes and shardings of the state.
      companions: Frozen models of the method.
      label_loss: Loss of the labels in the batches; None for batches without labels.
      in_parts: Methods may compute logits in parts; see ``train_step``.

    Raises:
      ValueError: batches grow, of a model whose memory is of the rows of the batch before.
    """
    ramp = experiment.data.ramp_schedule
    if ramp is not None and has_memory(plan.abstract):
        raise ValueError(
            "batch_size_ramp needs rows that don't depend on the batch before; this model has a memory of earlier "
            "segments, so leave it out"
        )
    steps = {}
    for stage, start in enumerate([each.start for each in plan.stages] or [0]):
        step = train_step(
            plan,
            experiment.method,
            seed=experiment.run.seed,
            num_microbatches=experiment.data.num_microbatches,
            stage=stage,
            ramp=ramp,
            companions=companions,
            label_loss=label_loss,
            in_parts=in_parts,
        )
        steps[start] = jax.jit(step, donate_argnums=0, out_shardings=shardings_of(plan.abstract))
    return steps
