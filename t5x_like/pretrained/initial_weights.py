"""Initial weights of fine-tuning: any checkpoint's, with the head that a task needs."""

import logging
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Literal

from jax.sharding import Mesh

from t5x_like.config_class import changeable, config_class, refuse_unused
from t5x_like.io.files import PathLike
from t5x_like.model.adapters import AdapterConfig
from t5x_like.model.adapters.adapter_weights import num_virtual_tokens
from t5x_like.model.layers.attention_implementations import AttentionChoice
from t5x_like.model.layers.layer_scan import LayerLoop
from t5x_like.model.layers.quantized_matmul import Quantization
from t5x_like.model.layers.remat import Remat
from t5x_like.model.layers.rotary import RotaryScaling
from t5x_like.model.model_traits import learned_positions, traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.model_tasks import HEADLESS_TASKS
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.fresh_heads import with_head
from t5x_like.pretrained.open_checkpoint import open_initial
from t5x_like.pretrained.weight_sources import known_direction, read_config
from t5x_like.text.heads.head_answers import UNSCALED, OutputScale

_log = logging.getLogger(__name__)


@config_class
class CheckpointModel:
    """Uses the model in ``start_from``, with the head that the training tasks require.

    Attributes:
      dropout_rate: Rate of dropout; the checkpoint's own if not given, or that of ``config.json`` for a Hugging Face
        directory.
      classifier_dropout_rate: Rate of dropout of the classifier's input, for models that configure it separately; the
        checkpoint's own if not given.
      compute_dtype: Type of activations; weights are float32.
      remat: Activations to recompute in the backward pass.
      scan_layers: Layers run in a loop (see ``CommonConfig``).
      attention_implementation: Computation of attention (see ``CommonConfig``).
      quantization: Type of the products of projections (see ``CommonConfig``).
      float32_gradients: Gradients of the projections' kernels are summed in float32 (see ``CommonConfig``).
      num_added_tokens: Number of ids after the checkpoint's own, such as the sentinels of an ``InputFraming``; their
        embeddings are freshly drawn.
      rope_theta: Base of the rotary frequencies; the checkpoint's own if not given. The start must allow other
        positions (``PretrainedWeights.new_positions``).
      rope_scaling: Scaling of these frequencies for longer texts, such as ``YarnScaling``; likewise.
      max_position_embeddings: Number of learned positions, or length in tokens that an export names; likewise.
      adapter: Adapter of few further weights to train in place of the others, such as ``LoRA``; that of the run in
        ``start_from`` if not given.
    """

    dropout_rate: float | None = None
    classifier_dropout_rate: float | None = None
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    remat: Remat = changeable(default="none")
    scan_layers: LayerLoop = changeable(default="auto")
    attention_implementation: AttentionChoice = changeable(default="auto")
    quantization: Quantization | None = None
    float32_gradients: bool = changeable(default=False)
    rope_theta: float | None = None
    rope_scaling: RotaryScaling | None = None
    max_position_embeddings: int | None = None
    adapter: AdapterConfig | None = None
    num_added_tokens: int = 0

    def __post_init__(self) -> None:
        if self.num_added_tokens < 0:
            raise ValueError(f"num_added_tokens is {self.num_added_tokens}; give 0 or more")

    def resolve(self, directory: PathLike | None, head: tuple[str, int, str | None] | None) -> CommonConfig:
        """Return the configuration of a checkpoint's model, with the head that training needs.

        Args:
          directory: Directory of the checkpoint.
          head: Kind of the head, its number of scores, and "multi_label" for several labels of a row; ``None`` for the
            checkpoint's own.

        Raises:
          ValueError: There is no directory, it holds no model, or the model can't have such a head.
        """
        if not directory:
            raise ValueError(
                "a CheckpointModel is the model of start_from: say which directory, INITIAL_CHECKPOINT='…'"
            )
        config = read_config(directory)
        changes: dict[str, Any] = {
            "compute_dtype": self.compute_dtype,
            "remat": self.remat,
            "scan_layers": self.scan_layers,
            "attention_implementation": self.attention_implementation,
            "quantization": self.quantization,
            "float32_gradients": self.float32_gradients,
            "dropout_rate": self.dropout_rate,
            "classifier_dropout_rate": self.classifier_dropout_rate,
            "rope_theta": self.rope_theta,
            "rope_scaling": self.rope_scaling,
            "max_position_embeddings": self.max_position_embeddings,
            "adapter": self.adapter,
        }
        names = {each.name for each in fields(config)}
        if self.adapter is not None and "adapter" not in names:
            raise ValueError(
                f"{directory} is a {type(config).__name__}, which takes no adapter; leave it out"
            )
        for name, value in changes.items():
            if name not in names and value not in (None, False):
                refuse_unused(self, name, because=f"{directory} is a {type(config).__name__}, which has none")
        kept = {name: value for name, value in changes.items() if value is not None and name in names}
        config = replace(config, **kept)
        if self.num_added_tokens:
            config = replace(config, vocab_size=config.vocab_size + self.num_added_tokens)
        return config if head is None else with_head(config, *head, where=str(directory))


def with_lm_head(config: CommonConfig, head: tuple[str, int, str | None] | None) -> CommonConfig:
    """Return a decoder's configuration with its output layer over the vocabulary next to another head.

    Args:
      config: Configuration of the model.
      head: Head next to the output layer, as ``CheckpointModel.resolve`` takes it.

    Raises:
      ValueError: There is no other head, it scores tokens, or the model is no decoder.
    """
    if head is None or head[0] == "token_classification":
        reads = "no head" if head is None else "a head for the classes of tokens, which are its targets"
        raise ValueError(
            "auxiliary_lm_weight adds a language-model loss to that of a decoder's head for sequences, choices or "
            f"answers; this run trains {reads}. Leave auxiliary_lm_weight out"
        )
    if "keep_lm_head" not in {each.name for each in fields(config)}:
        raise ValueError(
            f"auxiliary_lm_weight needs a decoder, whose text is read left to right; a {type(config).__name__} is "
            "none. Leave auxiliary_lm_weight out"
        )
    return replace(config, keep_lm_head=True)


def check_head(
    config: CommonConfig, head: tuple[str, int, str | None], *, what: str, adds_rows: bool = False
) -> None:
    """Check that a model has the head that ``what`` needs.

    Args:
      config: Configuration of the model.
      head: Head that is needed, as ``CheckpointModel.resolve`` takes it.
      what: Name of the caller that needs the head, for the message.
      adds_rows: Scores of both orders of a pair are added, for which the head must be linear.

    Raises:
      ValueError: The model has another head, or none.
    """
    kind, num_labels, problem_type = head
    task, has = traits_of(config).task, traits_of(config).num_labels
    if kind in HEADLESS_TASKS and task in HEADLESS_TASKS:
        return
    if kind in HEADLESS_TASKS:
        raise ValueError(
            f"{what} compares vectors, by a model without a head; the model has one for "
            f"{str(task).replace('_', ' ')}. Give it task='{kind}', or 'base' if it has no such task"
        )
    if task == kind and (has == num_labels or kind in ("multiple_choice", "question_answering", "cloze")):
        heads = config.parts.heads.scores
        check_label_type(config, problem_type, what=what)
        is_linear = not any(head.bias or head.transform for head in heads)
        if adds_rows and kind not in ("multiple_choice", "cloze") and not is_linear:
            raise ValueError(
                f"{what} reads pairs in both orders (both_orders) and adds their representations before a linear layer "
                f"without bias, as decoders have it; a {type(config).__name__} has another head. Leave both_orders out"
            )
        return
    wanted = f"{kind.replace('_', ' ')} with {num_labels} score{'s' * (num_labels > 1)}"
    present = f"one for {str(task).replace('_', ' ')}" + (f" with {has} scores" if task == kind else "")
    raise ValueError(
        f"{what} needs a head for {wanted}; the model has {present}. Fine-tune it on such a task first"
    )


def check_label_type(config: ModelConfig, problem_type: str | None, *, what: str) -> None:
    """Check that a classifier's scores mean what ``what`` reads from them: one class of a row, or any number.

    Args:
      config: Configuration of the model.
      problem_type: Type of the labels: "multi_label" for any number of classes.
      what: Name of the caller that reads the scores, for the message.

    Raises:
      ValueError: The scores mean something else.
    """
    if (traits_of(config).problem_type == "multi_label") == (problem_type == "multi_label"):
        return
    wanted, has = "one class for each row", "any number of classes for each row (problem_type='multi_label')"
    if problem_type == "multi_label":
        wanted, has = has, wanted
    raise ValueError(
        f"{what} predicts {wanted}, and the model's head {has}; take another model, or train this head on such a task"
    )


def check_length(config: ModelConfig, length: int, *, what: str) -> None:
    """Check that a model has a learned position for each token; beyond them scores would be NaN.

    Args:
      config: Configuration of the model.
      length: Number of tokens.
      what: Name of the tokens in messages.

    Raises:
      ValueError: The model has fewer positions.
    """
    learned = learned_positions(config)
    if learned is None:
        return
    most = learned - num_virtual_tokens(config)
    if length > most:
        virtual = ", less those of virtual tokens" if num_virtual_tokens(config) else ""
        raise ValueError(
            f"{what} is read with inputs_length={length}, but the model has {most} positions{virtual}; lower it to at "
            f"most {most}, INPUTS_LENGTH in recipes"
        )


def initial_checkpoint(
    directory: PathLike,
    config: CommonConfig,
    *,
    mesh: Mesh,
    seed: int,
    classes: Sequence[str] = (),
    scale: OutputScale = UNSCALED,
) -> Checkpoint:
    """Open the weights at ``directory`` for a model of ``config``, and log what ``open_initial`` changes.

    Args:
      directory: Directory of any checkpoint that ``open_checkpoint`` opens, or steps of a run without its
        ``model.json``.
      config: Configuration of the model to train.
      mesh: Devices to place the weights on.
      seed: Seed of heads to draw.
      classes: Class names of the tasks' head, in order.
      scale: Scale in which the tasks' head predicts numbers.

    Raises:
      FileNotFoundError, ValueError: There are no weights, or those of another model.
    """
    known, wanted = known_direction(directory), traits_of(config).direction
    if known is not None and wanted is not None and known != wanted:
        raise ValueError(
            f"the model of {directory} reads rows {known}, and the one to train has direction={wanted!r}; give both "
            "the same direction (DIRECTION in recipes)"
        )
    checkpoint, notes = open_initial(
        directory, config=config, mesh=mesh, seed=seed, classes=classes, scale=scale
    )
    for note in notes:
        _log.warning("%s", note)
    return checkpoint
