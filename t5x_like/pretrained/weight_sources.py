"""The formats of checkpoints, and finding the weights in each."""

import dataclasses
import hashlib
from dataclasses import replace
from typing import Literal

from t5x_like.checkpoints.steps import absolute, find_checkpoints
from t5x_like.io.files import PathLike, as_path
from t5x_like.model.adapters.adapter_weights import adapter_differences, adapter_of
from t5x_like.model.model_traits import learned_positions, traits_of
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.pretrained.fresh_heads import with_head
from t5x_like.pretrained.further_formats import FurtherFormat, further_format
from t5x_like.pretrained.hugging_face import HuggingFaceWeights, configuration_of, find_hugging_face
from t5x_like.pretrained.model_config import read_model_config
from t5x_like.pretrained.run_weights import RunWeights, find_run, find_run_weights
from t5x_like.pretrained.t5x_files import is_t5x

Format = Literal["run", "hugging_face", "gguf", "t5x"]

# What may differ between weights and the model that continues from them.
# Fields that say where tokens are, by which no weight changes its shape.
POSITION_FIELDS = (
    *("rope_theta", "rope_scaling", "global_rope_theta", "local_rope_theta"),
    "max_position_embeddings",
)
_FREE = (
    "task",
    "num_labels",
    "problem_type",
    "keep_lm_head",
    "has_value_head",
    "has_ctc_head",
    "dropout_rate",
    "classifier_dropout_rate",
    "qa_dropout_rate",
    "compute_dtype",
    "remat",
    "scan_layers",
    "attention_implementation",
    "quantization",
    "float32_gradients",
    "pad_vocab_to_multiple_of",
    "adapter",
)


def checkpoint_format(directory: PathLike) -> Format:
    """Return the format of a checkpoint.

    Raises:
      ValueError: There is no checkpoint.
    """
    format = _format_or_none(directory)
    if format is None and (further := further_format(directory)) is not None:
        raise ValueError(further.advice(directory))
    if format is None:
        raise ValueError(
            f"{directory} holds no model: give a run's directory (with model.json) as train writes it, a Hugging Face "
            "directory (with config.json) as save_pretrained writes it, a .gguf file, or a T5X checkpoint"
        )
    return format


def further_format_of(directory: PathLike) -> FurtherFormat | None:
    """Return the format of weights that are opened with a vocabulary; ``None`` for all formats of ``Format``."""
    return further_format(directory) if _format_or_none(directory) is None else None


def is_run(directory: PathLike) -> bool:
    """Return whether a checkpoint is a run of ours.

    Raises:
      ValueError: There is no checkpoint.
    """
    return checkpoint_format(directory) == "run"


def read_config(directory: PathLike) -> CommonConfig:
    """Return the configuration of a checkpoint's model, without reading weights.

    Raises:
      ValueError: There is none, or its model is not known here.
    """
    match checkpoint_format(directory):
        case "run":
            return read_model_config((find_run(directory) or (directory, None))[0])
        case "hugging_face":
            return configuration_of(directory)
        case _:
            return find_hugging_face(directory).config


def known_sizes(directory: PathLike) -> dict[str, int]:
    """Return the numbers of ids and of learned positions that a checkpoint has embeddings for.

    They are named as in configurations. Steps without a ``model.json`` give none.
    """
    if _format_or_none(directory) is None:
        return {}
    config = read_config(directory)
    learned = learned_positions(config)
    positions = {} if learned is None else {"max_position_embeddings": learned}
    return {"vocab_size": config.vocab_size, **positions}


def with_known_positions(directory: PathLike, config: CommonConfig) -> CommonConfig:
    """Return a model's configuration with the rotary positions that a checkpoint was trained with.

    Args:
      directory: The checkpoint.
      config: Configuration of the model to train, which has the weights of the other, whatever its positions are.
    """
    return dataclasses.replace(
        config, **{name: there for name, (there, _) in new_positions(directory, config).items()}
    )


def new_positions(directory: PathLike, config: CommonConfig) -> dict[str, tuple[object, object]]:
    """Return the fields of positions that differ from a checkpoint's: their values there and in ``config``.

    None is learned: the numbers of learned positions are sizes of weights.

    Args:
      directory: The checkpoint; steps without a ``model.json`` give no differences.
      config: Configuration of the model to train.
    """
    if _format_or_none(directory) is None:
        return {}
    other = read_config(directory)
    names = POSITION_FIELDS if learned_positions(config) is None else ()
    values = {
        name: (getattr(other, name), getattr(config, name))
        for name in names
        if hasattr(other, name) and hasattr(config, name)
    }
    return {name: pair for name, pair in values.items() if pair[0] != pair[1]}


def known_direction(directory: PathLike) -> str | None:
    """Return the direction in which a checkpoint's model reads rows; ``None`` where its configuration has none."""
    return None if _format_or_none(directory) is None else traits_of(read_config(directory)).direction


def identity_of(directory: PathLike, step: int | None) -> str:
    """Return a short hash that identifies weights.

    Args:
      directory: Folder or file of the weights.
      step: Step of a run; None for other weights.
    """
    path = as_path(directory)
    digest = hashlib.sha256()
    if step is not None:
        files = [find_checkpoints(absolute(directory))[0] / str(step) / "manifest.json"]
    elif path.is_file():
        files = [path]
    else:
        files = sorted([*path.glob("*.safetensors"), *path.glob("*.bin"), path / "config.json"])
    for file in files:
        if file.exists():
            digest.update(f"{file.name} {file.stat().length}".encode())
            with file.open("rb") as stream:
                digest.update(stream.read(1 << 20))
    return digest.hexdigest()[:16]


def find_weights(
    directory: PathLike,
    *,
    step: int | None = None,
    config: CommonConfig | None = None,
    head: ModelTask | None = None,
    num_labels: int | None = None,
) -> RunWeights | HuggingFaceWeights:
    """Find the weights of a checkpoint, without reading them.

    Args:
      directory: Directory of the checkpoint.
      step: Step of a run.
      config: Model that the weights must fit, but for its heads.
      head: Head to open them with.
      num_labels: Number of that head's outputs.

    Raises:
      ValueError: There is no checkpoint, or one of another model.
    """
    if (
        config is not None and _format_or_none(directory) is None
    ):  # steps alone, which config says the model of
        return RunWeights(directory=str(directory), step=step, saved=None, config=config)
    if is_run(directory):
        weights = find_run_weights(directory, step=step)
        if config is not None:
            _refuse_another_adapter(weights.saved, config, directory)
            return replace(weights, config=config)
        if head is None:
            return weights
        own = traits_of(weights.config)
        labels = next(count for count in (num_labels, own.num_labels, 2) if count is not None)
        changed = with_head(weights.config, head, labels, own.problem_type, where=str(directory))
        return replace(weights, config=changed)
    if step is not None:
        raise ValueError(f"{directory} is no run, it has no steps; leave step out")
    if config is None:
        return find_hugging_face(directory, task=head, num_labels=num_labels)
    _refuse_another_model(read_config(directory), config, directory)
    own = traits_of(config)
    published = find_hugging_face(
        directory,
        task=own.task,
        num_labels=own.num_labels,
        has_ctc_head=getattr(config, "has_ctc_head", False) or None,
    )
    if traits_of(published.config).task != own.task:
        raise ValueError(f"{directory} has no pooler, which a model for the task {own.task!r} needs")
    if adapter_of(config) is None:
        return published
    return replace(published, config=replace(published.config, adapter=config.adapter))


def _format_or_none(directory: PathLike) -> Format | None:
    path = as_path(directory)
    if find_run(directory) is not None:
        return "run"
    if (path / "config.json").exists():
        return "hugging_face"
    if path.is_file() or path.name.endswith(".gguf"):
        return "gguf"
    return "t5x" if is_t5x(directory) else None


def _refuse_another_model(other: object, own: CommonConfig, directory: PathLike) -> None:
    """Refuse weights of a model that would compute something else."""
    if type(other) is not type(own):
        raise ValueError(
            f"{directory} holds a {type(other).__name__}, but the run's model is a {type(own).__name__}"
        )
    lines = [
        f"{field.name}: {getattr(other, field.name)!r} there, {getattr(own, field.name)!r} here"
        for field in dataclasses.fields(own)
        if field.name not in _FREE and getattr(other, field.name) != getattr(own, field.name)
    ]
    if lines:
        listed = "\n  ".join(lines)
        if len(lines) == len(new_positions(directory, own)):
            raise ValueError(
                f"the model at {directory} was trained with other positions:\n  {listed}\nTo train it further with the "
                "new ones, give PretrainedWeights new_positions=True (gin/runs/longer_context.gin)"
            )
        raise ValueError(
            f"the weights at {directory} are of another model:\n  {listed}\nWith model = @CheckpointModel() it is "
            "theirs"
        )


def _refuse_another_adapter(other: object, own: object, directory: PathLike) -> None:
    """Refuse a run with another adapter than the model's, whose effect would be lost."""
    if adapter_of(other) is None:
        return
    lines = adapter_differences(adapter_of(other), adapter_of(own))
    if lines:
        listed = "\n  ".join(lines)
        raise ValueError(
            f"the run at {directory} has another adapter:\n  {listed}\nContinue with its own, which CheckpointModel() "
            f"takes, or merge it first: t5x-like convert --merge --from {directory} --to DIR"
        )
