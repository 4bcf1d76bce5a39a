"""Opening of weights in all formats: our runs, Hugging Face directories, GGUF files, T5X checkpoints and more."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from jax.sharding import Mesh

from t5x_like.io.files import PathLike, as_path, read_json
from t5x_like.model import parameters
from t5x_like.model.model_traits import traits_of
from t5x_like.model.parameters import ModelConfig, Parameters
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.pretrained.checkpoint import Checkpoint, mesh_or_one_device
from t5x_like.pretrained.finite_weights import require_numbers
from t5x_like.pretrained.fresh_heads import in_class_order, with_added_positions, with_added_tokens
from t5x_like.pretrained.frozen_weights import (
    FrozenRecord,
    checksums,
    fresh_params,
    missing_source,
    with_vocabulary_weights,
)
from t5x_like.pretrained.head_classes import classes_at
from t5x_like.pretrained.hugging_face import HuggingFaceWeights
from t5x_like.pretrained.output_scale import params_in_scale, scale_of_run
from t5x_like.pretrained.peft_files import is_peft, open_peft
from t5x_like.pretrained.run_weights import RunWeights, was_trained_here
from t5x_like.pretrained.tokenizer_files import find_tokenizer, required_tokenizer
from t5x_like.pretrained.weight_sources import (
    find_weights,
    further_format_of,
    known_sizes,
    with_known_positions,
)
from t5x_like.text.heads.head_answers import UNSCALED, OutputScale

_MOST_LINES = 5  # of differing weights that a message lists


def open_checkpoint(
    directory: PathLike,
    *,
    mesh: Mesh | None = None,
    step: int | None = None,
    config: CommonConfig | None = None,
    head: ModelTask | None = None,
    num_labels: int | None = None,
    draw_heads: bool = False,
    seed: int = 0,
    vocabulary: str = "",
    num_sentinels: int | None = None,
    needs_tokenizer: bool = False,
    finite: bool = True,
    average: bool = False,
    base: Checkpoint | None = None,
) -> Checkpoint:
    """Read weights, straight onto ``mesh`` if there is one.

    >>> checkpoint = open_checkpoint("runs/quickstart", step=500)
    >>> checkpoint.model(batch).logits

    Args:
      directory: Path of a run or of one of its steps, a Hugging Face directory, a ``.gguf`` file, a T5X checkpoint, or
        weights of ``further_formats``.
      mesh: Devices to place the weights on; without one, the first device.
      step: Step of a run; its newest good one if not given.
      config: Model that the weights must fit, but for its heads; their own model if not given. Also opens steps that
        have no ``model.json`` around them.
      head: Head to open it with; its own if not given.
      num_labels: Number of that head's outputs.
      draw_heads: Draw a head of another task than the checkpoint's if its weights are missing, with a warning, to be
        trained. Without it, missing weights are an error.
      seed: Seed of the drawing.
      vocabulary: Path of a tokenizer in place of the one next to the weights.
      num_sentinels: Number of the tokenizer's sentinels; as many as the model was trained with if not given.
      needs_tokenizer: Fail at once if there is no tokenizer.
      finite: Refuse weights that are NaN or infinite.
      average: Read the moving average of its weights that a run has kept, in place of them.
      base: Checkpoint that a run's frozen weights came from, if it is open already. Its arrays are shared, so that
        several adapters over one model need little more memory than one. With it, ``directory`` may also be an adapter
        that PEFT saved.

    Raises:
      NotNumbersError: Some weights are NaN or infinite.
      FileNotFoundError: The run has no such step.
      ValueError: There are no weights, some are missing, or they are of another model; a tokenizer is needed and
        missing, or larger than the model's embeddings.
    """
    if is_peft(directory):
        return open_peft(directory, base)
    if config is None and head is None and (further := further_format_of(directory)) is not None:
        model, params = further.read(directory, vocabulary=vocabulary, num_sentinels=num_sentinels, mesh=mesh)
        return Checkpoint(
            directory=str(directory),
            step=None,
            config=model,
            graphdef=parameters.abstract(model)[0],
            params=params,
            mesh=mesh_or_one_device(mesh),
            fields={},
            class_names=(),
            vocabulary=vocabulary,
            num_sentinels=num_sentinels,
        )
    weights = find_weights(directory, step=step, config=config, head=head, num_labels=num_labels)
    weights = _average_of(weights) if average else weights
    home = weights.directory
    if needs_tokenizer or vocabulary or num_sentinels is not None:
        settings = {"vocabulary": vocabulary, "num_sentinels": num_sentinels}
        required_tokenizer(find_tokenizer(home, weights.config, weights.fields, **settings), home)
    if isinstance(weights, HuggingFaceWeights):
        params = weights.read(mesh, draw_heads=draw_heads, seed=seed)
    else:
        frozen = None
        if base is not None:
            frozen = _frozen_of(base, weights)
        elif weights.frozen is not None:
            frozen = open_frozen(weights.directory, weights.saved, weights.frozen, mesh=mesh)
        step, params = weights.read(mesh, draw_heads=draw_heads, seed=seed, frozen=frozen)
    if finite:
        require_numbers(params, str(directory) if step is None else f"{directory}, step {step}")
    checkpoint = _checkpoint(weights, params, mesh=mesh, step=step, config=config)
    return replace(checkpoint, vocabulary=vocabulary, num_sentinels=num_sentinels)


def open_initial(
    directory: PathLike,
    *,
    config: CommonConfig,
    mesh: Mesh | None,
    step: int | None = None,
    seed: int = 0,
    classes: Sequence[str] = (),
    scale: OutputScale = UNSCALED,
    finite: bool = True,
) -> tuple[Checkpoint, list[str]]:
    """Open weights to train a model from; also returns what was changed, a line each.

    Heads of a new task, or of another number of classes, are drawn, and so are embeddings of ids from the checkpoint's
    ``vocab_size`` on. Learned positions that the checkpoint lacks are copies of its first ones. A head for the same
    ``classes`` in another order is put into theirs, and one for as many others is kept.

    Args:
      directory: Directory of any checkpoint that ``open_checkpoint`` opens, or steps of a run without its
        ``model.json``.
      config: Configuration of the model to train.
      mesh: Devices to place the weights on.
      step: Step of a run; its newest good one if not given.
      seed: Seed of heads to draw.
      classes: Class names of the tasks' head, in order.
      scale: Scale in which the tasks' head predicts numbers. An exported regression is put into it.
      finite: Refuse weights that are NaN or infinite.

    Raises:
      FileNotFoundError, ValueError: There are no weights, or those of another model.
    """
    fewer = {
        name: known for name, known in known_sizes(directory).items() if known < (vars(config).get(name) or 0)
    }
    if fewer:
        initial, notes = open_initial(
            directory,
            config=replace(config, **fewer),
            mesh=mesh,
            step=step,
            seed=seed,
            classes=classes,
            scale=scale,
            finite=finite,
        )
        params = initial.params
        if (known := fewer.get("vocab_size")) is not None:
            params = with_added_tokens(config, params, known, seed=seed, mesh=mesh)
            more = config.vocab_size - known
            notes.append(f"{directory} has embeddings for {known} ids; {more} more are freshly drawn")
        if (known := fewer.get("max_position_embeddings")) is not None:
            params = with_added_positions(config, params, known, mesh=mesh)
            notes.append(f"{directory} has {known} positions; those after them begin as copies of the first")
        graphdef = parameters.abstract(config)[0]
        return replace(initial, config=config, graphdef=graphdef, params=params), notes
    with warnings.catch_warnings(record=True) as drawn:
        warnings.simplefilter("always")
        checkpoint = open_checkpoint(
            directory, mesh=mesh, step=step, config=config, draw_heads=True, seed=seed, finite=finite
        )
    notes = [str(warning.message) for warning in drawn]
    if any("heads/scores/" in note for note in notes):
        return checkpoint, notes
    params, note = in_class_order(checkpoint.params, checkpoint.class_names, classes, str(directory))
    params = params_in_scale(params, checkpoint.fields, scale)
    return replace(checkpoint, params=params), [*notes, *([note] if note else [])]


def open_frozen(
    directory: PathLike, config: CommonConfig, record: FrozenRecord | None, *, mesh: Mesh | None
) -> parameters.Parameters:
    """Open the frozen weights of a run, and check that they are those that it was trained with.

    Args:
      directory: Directory of the run.
      config: Configuration of its model.
      record: Record of where the weights come from, from ``read_frozen_record``.
      mesh: Devices to place the weights on.

    Raises:
      ValueError: The weights can't be opened any more, or have changed; or there is no record.
    """
    if record is None:
        raise ValueError(
            f"{directory}/frozen.json is missing, which says where the run's frozen weights come from; put it back"
        )
    if record.start_from is None:
        params = fresh_params(config, mesh=mesh, seed=record.seed)
        if record.inputs is not None:
            params = record.inputs.weights(
                params,
                config,
                run=str(directory),
                vocabulary=lambda: required_tokenizer(find_tokenizer(directory, config, {}), directory),
                mesh=mesh,
            )
    else:
        try:
            checkpoint, _ = open_initial(
                record.start_from,
                config=with_known_positions(record.start_from, config),
                mesh=mesh,
                step=record.step,
                seed=record.seed,
                classes=classes_at(directory),
                scale=scale_of_run(directory),
                finite=False,
            )
        except (OSError, ValueError) as error:
            raise missing_source(error, "start_from", record.origin, run=str(directory)) from error
        params = checkpoint.params
    of_vocabulary = traits_of(config).vocabulary_weights
    if of_vocabulary:
        vocabulary = required_tokenizer(find_tokenizer(directory, config, {}), directory)
        params = with_vocabulary_weights(params, config, vocabulary)
    frozen, _ = parameters.partition(params, record.selection(params))
    record.check(frozen, run=str(directory), vocabulary_weights=of_vocabulary)
    return frozen


def _frozen_of(base: Checkpoint, weights: RunWeights) -> parameters.Parameters:
    """Return a run's frozen weights among those of an open checkpoint.

    Raises:
      ValueError: The run has no frozen weights, or was trained on others.
    """
    if weights.frozen is None:
        raise ValueError(
            f"{weights.directory} trained all its weights, so it shares none with {base.directory}; open it by itself"
        )
    frozen, _ = parameters.partition(base.params, weights.frozen.selection(base.params))
    flat, wanted = parameters.flatten(frozen), weights.frozen.checksums
    sums = checksums(frozen) if frozen else {}
    others = [path for path in wanted if sums.get(path) != wanted[path]]
    if others:
        lines = "\n  ".join(
            f"{path}: {'not there' if path not in flat else f'another value or shape {flat[path].shape}'}"
            for path in others[:_MOST_LINES]
        )
        more = f"\n  and {len(others) - _MOST_LINES} more" if len(others) > _MOST_LINES else ""
        origin = "fresh weights" if weights.frozen.start_from is None else weights.frozen.origin
        raise ValueError(
            f"{weights.directory} was trained on {origin}, of which {len(others)} of {len(wanted)} weights differ in "
            f"{base.directory}:\n  {lines}{more}\nGive the checkpoint that it was trained on"
        )
    return frozen


@contextmanager
def open_unread(
    directory: PathLike, *, step: int | None = None, average: bool = False
) -> Iterator[Checkpoint]:
    """Open a checkpoint whose weights stay on disk; while this is open, each use reads them.

    Weights of a run with frozen weights, which are in two places, are in memory.

    Args:
      directory: Directory of any checkpoint that ``open_checkpoint`` opens.
      step: Step of a run; its newest good one if not given.
      average: Read the moving average of its weights that a run has kept, in place of them.

    Raises:
      ValueError: The checkpoint is refused for the reasons that ``open_checkpoint`` has.
    """
    weights = find_weights(directory, step=step)
    weights = _average_of(weights) if average else weights
    if weights.frozen is not None:
        yield open_checkpoint(directory, step=step, finite=False, average=average)
        return
    with weights.unread() as params:
        yield _checkpoint(weights, params, mesh=None, step=step)


def _average_of(weights: RunWeights | HuggingFaceWeights) -> RunWeights | HuggingFaceWeights:
    """Return the moving average of a run's weights.

    Raises:
      ValueError: The checkpoint is no run, or has no average.
    """
    home = weights.directory
    if was_trained_here(home) and "average.is" in read_json(as_path(home) / "config.json", dict):
        return replace(weights, part="average")
    raise ValueError(
        f"{home} has no moving average of its weights; a run keeps one if it is trained with Experiment.average = "
        "ExponentialMovingAverage(). To average its last checkpoints, use t5x-like convert --average 5"
    )


def _checkpoint(
    weights: RunWeights | HuggingFaceWeights,
    params: Parameters,
    *,
    mesh: Mesh | None,
    step: int | None,
    config: ModelConfig | None = None,
) -> Checkpoint:
    model = weights.config if config is None else config
    return Checkpoint(
        directory=weights.directory,
        step=step,
        config=model,
        graphdef=parameters.abstract(model)[0],
        params=params,
        mesh=mesh_or_one_device(mesh),
        fields=weights.fields,
        class_names=weights.class_names,
    )
