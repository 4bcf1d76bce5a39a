"""Fields that the configurations of all published architectures share, and their checks."""

from dataclasses import fields
from typing import Any, Literal

import jax

from t5x_like.config_class import changeable, config_class
from t5x_like.model.adapters import AdapterConfig
from t5x_like.model.heads import VALUE, value_head
from t5x_like.model.layers.attention_implementations import AttentionChoice
from t5x_like.model.layers.dropout import check_rate
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.layer_scan import LayerLoop
from t5x_like.model.layers.linear import quantize_projections, sum_gradients_in_float32
from t5x_like.model.layers.quantized_matmul import Quantization
from t5x_like.model.layers.remat import Remat
from t5x_like.model.model_traits import ModelTraits
from t5x_like.model.zoo.config_fields import check_size
from t5x_like.model.zoo.model_tasks import ModelTask, ProblemType

ComputeDtype = Literal["float32", "bfloat16"]

# Fields of members that must be positive wherever they are given.
_POSITIVE = frozenset(
    "vocab_size model_dim mlp_dim encoder_mlp_dim decoder_mlp_dim embed_dim hidden_dim head_dim num_heads num_kv_heads "  # noqa: SIM905 - quotes around twenty names would hide them
    "num_encoder_heads num_decoder_heads num_layers num_encoder_layers num_decoder_layers num_labels num_experts "
    "max_position_embeddings pad_vocab_to_multiple_of norm_epsilon init_stddev sparse_step".split()
)

_VALUE_HEAD = 2  # as _ADAPTER
_ADAPTER = 1  # folded into the key of fresh weights: with an adapter the others are drawn as without


@config_class
class CommonConfig(ModelTraits):
    """Base of the configurations in this package. Building one checks it.

    Attributes:
      vocab_size: Number of token ids.
      model_dim: Width of the residual stream.
      task: Selects the heads (see ``ModelTask``).
      num_labels: Classes of the head, for tasks that have classes.
      problem_type: Type of labels for ``sequence_classification``; ``None`` infers it from the labels.
      dropout_rate: Dropout of embeddings, layer outputs, attention weights and inner feed-forward activations.
      compute_dtype: Type of activations. Weights are float32.
      remat: Activations that the backward pass computes again, to save memory (see ``Remat``).
      scan_layers: Layers run in a loop, whose program is small. ``False`` writes them one after another: steps on GPUs
        are faster, and take longer to compile. ``"auto"`` does so on GPUs alone.
      attention_implementation: ``"plain"`` computes all attention scores at once. ``"blockwise"`` never has more than
        those of a block, so that memory grows linearly with the length. ``"pallas"`` does the same in kernels for
        TPUs. ``"cudnn"`` is fast on GPUs. On a mesh with ``context`` above 1 the first two are the same. ``"auto"``
        takes the fastest that computes the layers (see ``choose_attention``).
      quantization: ``"int8"`` or ``"float8"`` computes products of attention's and feed-forward projections in 8 bits
        (see ``quantized_matmul``); ``None`` in the type of activations. Weights stay float32.
      float32_gradients: Gradients of these projections' kernels are summed in float32, also over devices; otherwise
        in the type of activations.
      pad_vocab_to_multiple_of: The word table is padded to a multiple of this many rows.
      adapter: Few further weights that are trained in place of the others, such as ``LoRA``; ``None`` for none.
      has_value_head: A further head predicts one number of each token, for ``PPO``.
    """

    vocab_size: int
    model_dim: int
    task: ModelTask
    num_labels: int = 2
    problem_type: ProblemType | None = None
    dropout_rate: float = 0.0
    compute_dtype: ComputeDtype = "float32"
    remat: Remat = changeable(default="none")
    scan_layers: LayerLoop = changeable(default="auto")
    attention_implementation: AttentionChoice = changeable(default="auto")
    quantization: Quantization | None = None
    float32_gradients: bool = changeable(default=False)
    pad_vocab_to_multiple_of: int = 128
    adapter: AdapterConfig | None = None
    has_value_head: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _POSITIVE and value is not None and value <= 0:
                raise ValueError(f"{field.name} is {value}; give a positive number")
            if isinstance(value, int):
                check_size(field.name, value)
                if value < 0:
                    raise ValueError(f"{field.name} is {value}; give 0 or a positive number")
            if field.name.endswith("dropout_rate") and value is not None:
                check_rate(field.name, value)
        _ = self.parts  # whose own checks refuse sizes that don't fit together

    def embeddings_of(self, **options: object) -> EmbeddingsConfig:
        """Return word embeddings of these sizes; ``options`` are further fields of ``EmbeddingsConfig``."""
        return EmbeddingsConfig(
            **{
                "vocab_size": self.vocab_size,
                "embed_dim": self.model_dim,
                "stddev": 0.02,
                "pad_vocab_to_multiple_of": self.pad_vocab_to_multiple_of,
                **options,
            }
        )

    @property
    def parts(self) -> Any:
        """Configuration of the family's model: embeddings, stacks and heads."""
        raise NotImplementedError

    def build(self, key: jax.Array) -> Any:
        """Build the model with fresh weights drawn from ``key``.

        Raises:
          ValueError: The adapter doesn't fit the model.
        """
        model = self.parts.build(key)
        if self.has_value_head:
            model.heads.scores[VALUE] = value_head(self.model_dim, jax.random.fold_in(key, _VALUE_HEAD))
        if self.quantization is not None:
            quantize_projections(model, self.quantization)
        if self.float32_gradients:
            sum_gradients_in_float32(model)
        return (
            model if self.adapter is None else self.adapter.attach(model, jax.random.fold_in(key, _ADAPTER))
        )


def head_dim_of(model_dim: int, num_heads: int) -> int:
    """Return the width of a head where heads share ``model_dim``.

    Args:
      model_dim: Width of the hidden states.
      num_heads: Number of heads.

    Raises:
      ValueError: The width doesn't divide among the heads.
    """
    if model_dim % num_heads:
        raise ValueError(f"model_dim={model_dim} doesn't divide among num_heads={num_heads}; give a multiple")
    return model_dim // num_heads
