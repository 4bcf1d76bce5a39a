"""T5 and its descendants: shared configuration, fields of ``config.json`` and names of weights."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from t5x_like.config_class import config_class
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.attention import AttentionConfig, Positions
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.layers.positions import RelativeBuckets
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.layers.transient_global import TransientGlobalConfig
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.config_fields import ConfigFields, Field
from t5x_like.model.zoo.model_tasks import (
    ENCODER_ONLY_TASKS,
    encoder_decoder_heads,
    encoder_decoder_score_rows,
)
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, module_rows, padded_rows

_OUTPUT_LAYER = "lm_head.weight"

T5FeedForward = Literal["relu", "gated_gelu"]

# In some published files; cross-attention has no positions, and nothing reads it.
UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)


@config_class
class T5LikeConfig(CommonConfig):
    """Blocks with RMS norms before each layer, relative positions and no biases, of any size.

    T5 1.0 has ReLU and scores with its word embeddings; 1.1 has a gated GELU and an output layer of its own (Shazeer
    2020). Both can be chosen independently.

    Attributes:
      mlp_dim: Inner width of the feed-forward layers.
      num_heads: Attention heads of each layer.
      head_dim: Width of a head; ``num_heads * head_dim`` need not be ``model_dim``.
      feed_forward: Plain with ReLU, or gated with GELU (the tanh approximation).
      tie_word_embeddings: The output layer uses the word embeddings.
      scale_decoder_outputs: The output layer scores vectors divided by the square root of the width. ``None`` scales
        with tied embeddings, as T5 1.0 does, and only with them.
      num_relative_buckets: Buckets of relative positions (see ``RelativeBuckets``).
      max_relative_distance: Distance from which on all positions share a bucket.
      norm_epsilon: Added to the mean square in all norms.
    """

    mlp_dim: int
    num_heads: int
    head_dim: int
    feed_forward: T5FeedForward = "gated_gelu"
    tie_word_embeddings: bool = False
    scale_decoder_outputs: bool | None = None
    num_relative_buckets: int = 32
    max_relative_distance: int = 128
    norm_epsilon: float = 1e-6

    def __post_init__(self) -> None:
        if self.scale_decoder_outputs == self.tie_word_embeddings:
            object.__setattr__(self, "scale_decoder_outputs", None)  # so that equal models have equal fields
        super().__post_init__()

    @property
    def scales_decoder_outputs(self) -> bool:
        """True if the output layer scores vectors divided by the square root of the width."""
        scale = self.scale_decoder_outputs
        return self.tie_word_embeddings if scale is None else scale

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Word embeddings, shared by all stacks and a tied output layer."""
        return self.embeddings_of(stddev=1.0)

    @property
    def lm_head(self) -> LMHeadConfig:
        """Output layer. T5 1.0 scores smaller vectors, because its table is not initialized for scores."""
        scale = self.model_dim**-0.5 if self.scales_decoder_outputs else 1.0
        return LMHeadConfig(tie_word_embeddings=self.tie_word_embeddings, scale=scale)

    def attention(
        self, positions: Positions | None = None, window: SlidingWindow | None = None
    ) -> AttentionConfig:
        """Return attention with unscaled scores; fresh queries are smaller instead.

        Args:
          positions: Relative positions; None for a layer without a bias of its own.
          window: Window of local attention; None for full attention.
        """
        return AttentionConfig(
            num_heads=self.num_heads,
            head_dim=self.head_dim,
            attention_scale=1.0,
            positions=positions,
            window=window,
        )

    @property
    def buckets(self) -> RelativeBuckets:
        """Relative positions."""
        return RelativeBuckets(num_buckets=self.num_relative_buckets, max_distance=self.max_relative_distance)

    def block(
        self,
        attention: AttentionConfig,
        *,
        cross_attention: AttentionConfig | None = None,
        transient_global: TransientGlobalConfig | None = None,
    ) -> BlockConfig:
        """Return a block with the norms and the feed-forward layer of T5.

        Args:
          attention: Self-attention.
          cross_attention: Attention of a decoder to the encoder.
          transient_global: Global tokens of LongT5.
        """
        return BlockConfig(
            model_dim=self.model_dim,
            attention=attention,
            feed_forward=FeedForwardConfig(
                mlp_dim=self.mlp_dim,
                activation="relu" if self.feed_forward == "relu" else "gelu_tanh",
                gated=self.feed_forward == "gated_gelu",
            ),
            cross_attention=cross_attention,
            transient_global=transient_global,
            norm=RMSNormConfig(epsilon=self.norm_epsilon),
            dropout_rate=self.dropout_rate,
        )

    def stack(self, block: BlockConfig, num_layers: int, *, relative: bool = True) -> StackConfig:
        """Return a stack of equal blocks.

        Args:
          block: The block.
          num_layers: Number of blocks.
          relative: One table of relative positions serves all blocks; otherwise blocks have their own.
        """
        return StackConfig(
            blocks=(block,) * num_layers,
            relative_positions=self.buckets if relative else None,
            final_norm=RMSNormConfig(epsilon=self.norm_epsilon),
            output_dropout=True,
            remat=self.remat,
            scan_layers=self.scan_layers,
            attention_implementation=self.attention_implementation,
        )

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``. Token classification reads the encoder, as in transformers."""
        if self.task == "encoding":
            return HeadsConfig()
        return encoder_decoder_heads(
            self.task,
            num_labels=self.num_labels,
            model_dim=self.model_dim,
            lm_head=self.lm_head,
            model="T5",
        )


T5_FIELDS = {
    "vocab_size": Field("vocab_size"),
    "model_dim": Field("d_model"),
    "mlp_dim": Field("d_ff"),
    "num_heads": Field("num_heads"),
    "head_dim": Field("d_kv"),
    "dropout_rate": Field("dropout_rate", 0.1),
    "num_relative_buckets": Field("relative_attention_num_buckets", 32),
    "max_relative_distance": Field("relative_attention_max_distance", 128),
    "norm_epsilon": Field("layer_norm_epsilon", 1e-6),
    "num_encoder_layers": Field("num_layers"),
}

# Fields that are written as published files have them.
T5_WRITTEN = {
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
    "initializer_factor": 1.0,
    "is_encoder_decoder": True,
    "pad_token_id": 0,
    "use_cache": True,
}

T5_IGNORED = ("initializer_factor", "classifier_dropout", "n_positions", "output_past")


def read_t5(
    fields: ConfigFields,
    values: Mapping[str, object],
    *,
    tie_word_embeddings: bool,
    feed_forward: str,
) -> dict[str, object]:
    """Return values of the fields that depend on each other.

    Args:
      fields: Fields of a ``config.json``.
      values: Values of the other fields.
      tie_word_embeddings: Default of the field.
      feed_forward: Default of ``feed_forward_proj``.
    """
    if values["task"] in ENCODER_ONLY_TASKS:  # which transformers writes with false
        fields.ignore("is_encoder_decoder")
    else:
        fields.must_be("is_encoder_decoder", True)
    tied = fields.take("tie_word_embeddings", tie_word_embeddings)
    return {
        "num_decoder_layers": fields.take("num_decoder_layers", values["num_encoder_layers"]),
        "tie_word_embeddings": tied,
        "scale_decoder_outputs": fields.take("scale_decoder_outputs", None, kind=bool),
        "feed_forward": _read_feed_forward(fields, feed_forward),
    }


def _read_feed_forward(fields: ConfigFields, default: str) -> T5FeedForward:
    """Read ``is_gated_act`` and ``dense_act_fn`` where given, otherwise ``feed_forward_proj``."""
    projection = fields.take("feed_forward_proj", default)
    gate, _, activation = projection.rpartition("-")
    if gate not in ("", "gated"):
        raise ValueError(
            f"config.json: feed_forward_proj is {projection!r}; relu or gated-gelu are supported"
        )
    # Under "gated-gelu", and only there, "gelu" has always meant its tanh approximation.
    derived = "gelu_new" if projection == "gated-gelu" else activation
    gated = fields.take("is_gated_act", gate == "gated")
    activation = fields.take("dense_act_fn", derived)
    if (gated, activation) == (False, "relu"):
        return "relu"
    if (gated, activation) == (True, "gelu_new"):
        return "gated_gelu"
    raise ValueError(
        f"config.json: feed_forward_proj={projection!r} with is_gated_act={gated} and dense_act_fn={activation!r} "
        "is not supported; relu and gated-gelu (is_gated_act=true with gelu_new) are"
    )


def write_t5(config: Any) -> dict[str, object]:
    """Return the fields that ``read_t5`` reads."""
    gated = config.feed_forward == "gated_gelu"
    return {
        "dense_act_fn": "gelu_new" if gated else "relu",
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "is_gated_act": gated,
        "num_decoder_layers": config.num_decoder_layers,
        # With true, transformers 4 would scale. With false, 5 takes the word embeddings for a missing output layer.
        "tie_word_embeddings": config.tie_word_embeddings and config.scales_decoder_outputs,
        "scale_decoder_outputs": config.scales_decoder_outputs,
    }


def tied_as_stored(config: T5LikeConfig, names: Collection[str]) -> T5LikeConfig:
    """Return a configuration whose output layer is that of the stored arrays.

    transformers 5 writes ``tie_word_embeddings = true`` into every file. Google's LongT5 has false, and stores no
    output layer. So the arrays decide. T5 1.0's files, which scale, may have a copy of the table.

    Args:
      config: The configuration that the fields describe.
      names: Names of the stored arrays.
    """
    if config.task != "sequence_to_sequence_lm":
        return config
    stored = _OUTPUT_LAYER in names
    if stored and config.tie_word_embeddings and config.scales_decoder_outputs:
        return config
    scale = config.scales_decoder_outputs
    return replace(config, tie_word_embeddings=not stored, scale_decoder_outputs=scale)


def word_rows(config: T5LikeConfig) -> list[Weight]:
    """Return the rows of the word embeddings and of the heads."""
    tied = config.tie_word_embeddings
    words = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size)
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    copies = (*copies, _OUTPUT_LAYER) if tied else copies
    rows = [Weight("embedding/tokens/table", "shared.weight", words, copies=copies)]
    if config.task == "sequence_to_sequence_lm" and not tied:
        rows.append(Weight("heads/lm_head/projection/kernel", _OUTPUT_LAYER, words.then(TRANSPOSED)))
    return [*rows, *encoder_decoder_score_rows(config.heads)]


def layer_rows(config: T5LikeConfig, hf_name: str, attentions: Iterable[tuple[str, str]]) -> list[Weight]:
    """Return the rows of one layer.

    Args:
      config: The model.
      hf_name: Begins their names, with ``{layer}``.
      attentions: Our and their names of the attention layers, in order; the feed-forward layer follows.
    """
    kernels = {"query": "q", "key": "k", "value": "v", "out": "o"}
    sublayers = [(path, name, kernels) for path, name in attentions]
    sublayers.append(("feed_forward", "DenseReluDense", {"down": "wo"} | up_projections(config)))
    rows = []
    for index, (path, name, kernels) in enumerate(sublayers):
        prefix = f"{hf_name}.layer.{index}."
        names = {f"{path}/{kernel}": f"{name}.{letter}" for kernel, letter in kernels.items()}
        rows += module_rows({f"{path}_residual/before": "layer_norm"} | names, prefix, bias=False)
    return rows


def up_projections(config: T5LikeConfig) -> dict[str, str]:
    """Return Hugging Face's and T5X's names of the inner projections; the activated one has number 0."""
    return {"gate": "wi_0", "up": "wi_1"} if config.feed_forward == "gated_gelu" else {"up": "wi"}
