"""Evaluation of and prediction with a training run, configured by frozen dataclasses."""

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from itertools import islice
from typing import Any, NamedTuple

from jax.sharding import Mesh

from t5x_like.config_class import config_class
from t5x_like.evaluation.evaluator import HeadEvaluation, TaskEvaluation, TaskResult, write_results
from t5x_like.evaluation.head_plan import predict_lines
from t5x_like.evaluation.head_predictor import HeadPredictor
from t5x_like.evaluation.prompts import Prompter, PromptStyle
from t5x_like.evaluation.questions import seqio_codec
from t5x_like.evaluation.text_model import TextModel
from t5x_like.inference.generator import GenerationConfig
from t5x_like.model import parameters
from t5x_like.model.families.ensemble import EnsembleConfig, Mean
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import check_batch_size
from t5x_like.pretrained.averaged_weights import require_alike
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text import registry
from t5x_like.text.seqio_bridge import registration


@config_class
class RunEvaluation:
    """Evaluation of a run on its own tasks, with the evaluators that training uses.

    Attributes:
      checkpoint: Run directory.
      ensemble: Further runs of the same model, whose predictions are averaged with those of ``checkpoint``.
      ensemble_mean: Average of probabilities, or of logits as in T5 (Raffel et al. 2020, §3.6).
      evaluations: Evaluators of tasks.
      output_dir: Folder for ``scores.json`` and ``TASK/predictions.jsonl``.
      tasks: Definitions to register before.
      step: Step of the run; its newest good one by default.
      mesh: Devices.
    """

    checkpoint: str
    evaluations: tuple[TaskEvaluation | HeadEvaluation, ...]
    output_dir: str
    ensemble: tuple[str, ...] = ()
    ensemble_mean: Mean = "probabilities"
    tasks: tuple[registry.Definition, ...] = ()
    step: int | None = None
    mesh: MeshConfig = field(default_factory=MeshConfig)


def evaluate_run(run: RunEvaluation) -> dict[str, TaskResult]:
    """Evaluate every task; write ``scores.json`` and ``TASK/predictions.jsonl`` into ``run.output_dir``."""
    mesh = run.mesh.build()
    registration.connect()
    registry.register(run.tasks)
    opened = _open(run, mesh)
    config, params = opened.config, opened.params
    results: dict[str, TaskResult] = {}
    for evaluation in run.evaluations:
        results |= evaluation.evaluator(config, mesh).run(params)
    write_results(
        results,
        run.output_dir,
        checkpoint=" + ".join((run.checkpoint, *run.ensemble)),
        step=opened.step,
        config=config,
        params=params,
    )
    return results


def _open(run: "RunEvaluation | RunPrediction", mesh: Mesh) -> Checkpoint:
    """Open a run, or several as one ensemble.

    Raises:
      ValueError: There is no such run, or the runs have different models.
    """
    opened = open_checkpoint(run.checkpoint, step=run.step, mesh=mesh)
    if not run.ensemble:
        return opened
    others = [open_checkpoint(each, mesh=mesh) for each in run.ensemble]
    members = [opened, *others]
    require_alike(members, joined="in an ensemble with")
    config = EnsembleConfig(members=tuple(each.config for each in members), mean=run.ensemble_mean)
    params = {"by_number": {f"{number:03d}": each.params for number, each in enumerate(members)}}
    return replace(opened, config=config, graphdef=parameters.abstract(config)[0], params=params)


@config_class
class RunPrediction:
    """Predictions of a run for lines of text.

    Attributes:
      checkpoint: Run directory.
      ensemble: Further runs of the same model, whose predictions are averaged with those of ``checkpoint``.
      ensemble_mean: Average of probabilities, or of logits as in T5 (Raffel et al. 2020, §3.6).
      task: Name of the task that gives the vocabulary and, if it has one input column, the wording.
      tasks: Definitions to register before.
      inputs_length: Tokens of an input.
      batch_size: Lines in a batch.
      generation: Decoding settings.
      step: Step of the run; its newest good one by default.
      mesh: Devices.
    """

    checkpoint: str
    task: str
    ensemble: tuple[str, ...] = ()
    ensemble_mean: Mean = "probabilities"
    tasks: tuple[registry.Definition, ...] = ()
    inputs_length: int = 512
    batch_size: int = 16
    generation: GenerationConfig = field(default_factory=GenerationConfig)
    step: int | None = None
    mesh: MeshConfig = field(default_factory=MeshConfig)


class Prediction(NamedTuple):
    """An input text as the model read it, and the prediction; classes of words have spaces between them."""

    input: str
    prediction: str


def predict(run: RunPrediction, lines: Iterable[str]) -> Iterator[Prediction]:
    """Yield a prediction for each line, batch by batch; models with a head use it."""
    mesh = run.mesh.build()
    check_batch_size(run.batch_size, mesh)
    registration.connect()
    registry.register(run.tasks)
    opened = _open(run, mesh)
    config, graphdef, params = opened.config, opened.graphdef, opened.params
    definition: Any = registry.task(run.task)
    if not opened.writes:
        predictor = HeadPredictor(graphdef, mesh, batch_size=run.batch_size)
        for text, answer in predict_lines(
            definition, lines, predictor, params, inputs_length=run.inputs_length
        ):
            yield Prediction(text, " ".join(answer) if isinstance(answer, list) else str(answer))
        return
    model = _text_model(config, mesh, run.task, definition)
    length = run.inputs_length + (model.begin_id is not None)
    model.check_length(
        config,
        prompt=length,
        answer=run.generation.max_new_tokens,
        what=f"task {run.task!r}, with its answers,",
    )
    prompter = Prompter(task=run.task, style=PromptStyle())
    word = str if definition is None else definition.word_question
    questions = (word(line) for line in lines)
    while texts := list(islice(questions, run.batch_size)):
        prompts = [prompter.prompt(number, text) for number, text in enumerate(texts)]
        encoded = model.encode_prompts(prompter, prompts, length=length)
        answers = model.generate(
            params,
            [prompt.ids for prompt in encoded],
            run.generation,
            batch_size=run.batch_size,
            limit=length,
        )
        yield from map(Prediction, texts, answers)


def _text_model(config: Any, mesh: Any, task: str, definition: Any) -> TextModel:
    if hasattr(definition, "vocabulary"):
        return TextModel.as_trained(config, mesh, definition.tokenizer)
    return TextModel.as_trained(config, mesh, seqio_codec(task))
