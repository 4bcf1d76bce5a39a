"""Evaluation of and prediction with a training run, configured by frozen dataclasses."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace
from typing import Literal

from jax.sharding import Mesh

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.evaluation.evaluator import HeadEvaluation, TaskEvaluation
from t5x_like.evaluation.overruled_settings import overruled
from t5x_like.evaluation.scores_file import TaskResult
from t5x_like.evaluation.span_answers import SpanSearch
from t5x_like.evaluation.task_evaluators import write_results
from t5x_like.inference.generator import GenerationConfig
from t5x_like.model import parameters
from t5x_like.model.families.ensemble import EnsembleConfig, Mean
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.averaged_weights import require_alike
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.output_scale import has_plain_numbers, params_in_scale
from t5x_like.pretrained.run_weights import trained_prefix_attention
from t5x_like.text import registry
from t5x_like.text.heads.head_answers import OutputScale
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.foreign_tasks import Definition
from t5x_like.text.tasks.task_set import TaskSet


@config_class
class SavedRun:
    """A run whose weights predict, or several as one ensemble.

    Attributes:
      checkpoint: Run directory.
      ensemble: Further runs of the same model, whose predictions are averaged with those of ``checkpoint``.
      ensemble_mean: Average of probabilities, or of logits as in T5 (Raffel et al. 2020, §3.6).
      tasks: Definitions to register before.
      step: Step of the run; its newest good one by default.
      mesh: Devices.
    """

    checkpoint: str
    ensemble: tuple[str, ...] = ()
    ensemble_mean: Mean = "probabilities"
    tasks: tuple[Definition, ...] = ()
    step: int | None = None
    mesh: MeshConfig = field(default_factory=MeshConfig)

    def __post_init__(self) -> None:
        if not self.ensemble:
            refuse_unused(
                self, "ensemble_mean", because="there is one run", advice="name more of them by ensemble"
            )


@config_class
class RunEvaluation(SavedRun):
    """Evaluation of a run on its own tasks, with the evaluators that training uses.

    Attributes:
      evaluations: Evaluations of tasks.
      output_dir: Folder for ``scores.json`` and ``TASK/predictions.jsonl``.
    """

    evaluations: tuple[TaskEvaluation | HeadEvaluation, ...]
    output_dir: str


def evaluate_run(run: RunEvaluation) -> dict[str, TaskResult]:
    """Evaluate every task; write ``scores.json`` and ``TASK/predictions.jsonl`` into ``run.output_dir``."""
    mesh = run.mesh.build()
    registration.connect()
    resolved = resolve_evaluations(run.evaluations, run.tasks)
    opened = open_run(run, mesh, resolved)
    config, params = opened.config, opened.params
    prefix_attention = trained_prefix_attention(opened.directory)
    results: dict[str, TaskResult] = {}
    for evaluation, tasks in zip(run.evaluations, resolved, strict=True):
        evaluator = evaluation.evaluator(tasks, config, mesh, prefix_attention=prefix_attention)
        results |= evaluator.run(params)
    write_results(
        results,
        run.output_dir,
        checkpoint=" + ".join((run.checkpoint, *run.ensemble)),
        step=opened.step,
        config=config,
        params=params,
    )
    return results


def resolve_evaluations(
    evaluations: Iterable[TaskEvaluation | HeadEvaluation], definitions: Iterable[Definition]
) -> list[TaskSet]:
    """Return the tasks of each evaluation.

    Args:
      evaluations: Evaluations that name mixtures.
      definitions: Definitions to register before.

    Raises:
      ValueError: Unknown names, or a definition can't be registered.
    """
    definitions = tuple(definitions)
    return [registry.resolve(each.mixture, definitions) for each in evaluations]


def open_run(run: SavedRun, mesh: Mesh, tasks: Sequence[TaskSet]) -> Checkpoint:
    """Open a run, or several as one ensemble.

    Args:
      run: The run.
      mesh: Devices.
      tasks: Tasks that it answers, whose scale an exported regression takes.

    Raises:
      ValueError: There is no such run, the runs have different models, or an exported regression predicts numbers of
        tasks with several scales.
    """
    members = []
    for directory, step in ((run.checkpoint, run.step), *((each, None) for each in run.ensemble)):
        member = open_checkpoint(directory, step=step, mesh=mesh)
        if has_plain_numbers(member.fields):
            scale = _scale_of(tasks, export=directory)
            member = replace(member, params=params_in_scale(member.params, member.fields, scale))
        members.append(member)
    opened = members[0]
    if not run.ensemble:
        return opened
    require_alike(members, joined="in an ensemble with")
    config = EnsembleConfig(members=tuple(each.config for each in members), mean=run.ensemble_mean)
    params = {"by_number": {f"{index:03d}": each.params for index, each in enumerate(members)}}
    return replace(opened, config=config, graphdef=parameters.abstract(config)[0], params=params)


def _scale_of(tasks: Sequence[TaskSet], *, export: str) -> OutputScale:
    """Return the scale of the numbers that an export predicts.

    Raises:
      ValueError: The tasks have several.
    """
    scales = {each.output_scale for task_set in tasks for each in task_set.head_formats.values()}
    if len(scales) > 1:
        names = ", ".join(name for task_set in tasks for name in task_set.tasks)
        raise ValueError(
            f"{export} is the export of a regression, and {names} have numbers of {len(scales)} scales; "
            "evaluate one task at a time"
        )
    return scales.pop()


@config_class
class RunPrediction(SavedRun):
    """Predictions of a run for lines of text and rows of tables.

    Attributes:
      task: Name of the task that gives the vocabulary and, if it has one input column, the template.
      inputs_length: Tokens of an input.
      batch_size: Lines in a batch.
      generation: Decoding settings.
      method: "generate" decodes an output; "rank" predicts the most likely of the task's labels. None is that of the
        run's evaluation, or "generate".
      targets_length: Tokens of a label that is ranked; None is that of the run's evaluation, or 64.
      spans: Search for answer spans.
    """

    task: str
    inputs_length: int = 512
    batch_size: int = 16
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    method: Literal["generate", "rank"] | None = None
    targets_length: int | None = None
    spans: SpanSearch = field(default_factory=SpanSearch)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method == "rank" and not self.generation.is_greedy:
            raise ValueError(
                "generation has no effect: method=rank generates nothing; leave its beams or temperature out"
            )

    def resolve(self) -> TaskSet:
        """Register ``tasks``, and return the task.

        Raises:
          ValueError: There is no such task.
        """
        return registry.resolve(self.task, self.tasks)

    def as_evaluated(
        self,
        evaluations: Sequence[TaskEvaluation | HeadEvaluation],
        *,
        decoding: Collection[str] = (),
        search: Collection[str] = (),
    ) -> "RunPrediction":
        """Return the prediction with the settings of a run's first evaluation, but for the length of answers.

        Args:
          evaluations: Evaluations of the run.
          decoding: Fields of ``generation`` that are kept.
          search: Fields of ``spans`` that are kept.
        """
        if not evaluations:
            return self
        evaluation = evaluations[0]
        if isinstance(evaluation, HeadEvaluation):
            return replace(self, spans=overruled(evaluation.spans, search, self.spans))
        method, generation = self.method or evaluation.method, self.generation
        if method == "generate":
            kept = {*decoding, "max_new_tokens"}
            generation = overruled(evaluation.generation, kept, self.generation)
        targets_length = self.targets_length or evaluation.targets_length
        return replace(self, method=method, targets_length=targets_length, generation=generation)
