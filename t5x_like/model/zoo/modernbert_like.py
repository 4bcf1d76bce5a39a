"""ModernBERT and its decoder: shared configuration, fields of ``config.json`` and names of weights."""

from collections.abc import Mapping
from typing import Any

from t5x_like.config_class import config_class
from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.heads import LMHeadConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.rotary import Rotary
from t5x_like.model.layers.stack import StackConfig
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.zoo.common_config import CommonConfig, head_dim_of
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields, Field
from t5x_like.model.zoo.layer_types import FULL, SLIDING
from t5x_like.model.zoo.model_tasks import classifier_dropout_of
from t5x_like.model.zoo.rope import ropes_by_type
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, module_rows, padded_rows, per_layer, split_columns


@config_class
class ModernBertLikeConfig(CommonConfig):
    """Rotary positions, gated layers, norms before them, and windows in some layers, of any size.

    Attributes:
      mlp_dim: Inner width of the feed-forward layers.
      num_heads: Attention heads of each layer; they share ``model_dim``.
      num_layers: Number of blocks.
      global_rope_theta: Base of the rotary frequencies in layers that see all.
      local_rope_theta: Base of the rotary frequencies in layers with a window.
      activation: Nonlinearity of the feed-forward layers' gates.
      classifier_activation: Nonlinearity of the layer before the heads.
      max_position_embeddings: Length in tokens that the model was trained with; no limit here.
      norm_epsilon: Added to the variance in all norms.
      tie_word_embeddings: The output layer uses the word embeddings.
      attention_bias: Adds a bias to all four projections of attention.
      mlp_bias: Adds a bias to all projections of the feed-forward layers.
      norm_bias: Adds a bias to all norms.
      classifier_bias: Adds a bias to the layer before the heads.
      decoder_bias: Adds a bias to the scores of words.
      classifier_dropout_rate: Dropout before class scores; ``None`` is ``dropout_rate``.
    """

    mlp_dim: int
    num_heads: int
    num_layers: int
    global_rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    activation: Activation = "gelu"
    classifier_activation: Activation = "gelu"
    max_position_embeddings: int = 8192
    norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True
    attention_bias: bool = False
    mlp_bias: bool = False
    norm_bias: bool = False
    classifier_bias: bool = False
    decoder_bias: bool = True
    classifier_dropout_rate: float | None = None

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words alone, normalized."""
        return self.embeddings_of(norm=self.norm)

    @property
    def norm(self) -> LayerNormConfig:
        """Type of all norms."""
        return LayerNormConfig(epsilon=self.norm_epsilon, bias=self.norm_bias)

    @property
    def stack(self) -> StackConfig:
        """All layers."""
        return StackConfig(
            blocks=tuple(map(self.block, range(self.num_layers))),
            final_norm=self.norm,
            remat=self.remat,
            scan_layers=self.scan_layers,
            attention_implementation=self.attention_implementation,
        )

    @property
    def transform(self) -> TransformConfig:
        """Layer before all heads."""
        return TransformConfig(
            dim=self.model_dim,
            activation=self.classifier_activation,
            norm=self.norm,
            bias=self.classifier_bias,
        )

    @property
    def lm_head(self) -> LMHeadConfig:
        """Output layer over the vocabulary."""
        tied, bias = self.tie_word_embeddings, self.decoder_bias
        return LMHeadConfig(tie_word_embeddings=tied, bias=bias, transform=self.transform)

    def window_of(self, layer: int) -> SlidingWindow | None:
        """Return the window of ``layer``, counted from 0; ``None`` where it sees all."""
        raise NotImplementedError

    def block(self, layer: int) -> BlockConfig:
        """Return the block of ``layer``; the first has no norm before attention, as embeddings are normalized."""
        head_dim, window = head_dim_of(self.model_dim, self.num_heads), self.window_of(layer)
        theta = self.global_rope_theta if window is None else self.local_rope_theta
        return BlockConfig(
            model_dim=self.model_dim,
            attention=AttentionConfig(
                num_heads=self.num_heads,
                head_dim=head_dim,
                in_bias=self.attention_bias,
                out_bias=self.attention_bias,
                positions=Rotary(rotated_dim=head_dim, rope_theta=theta),
                window=window,
            ),
            feed_forward=FeedForwardConfig(
                mlp_dim=self.mlp_dim, activation=self.activation, gated=True, bias=self.mlp_bias
            ),
            norm=self.norm,
            attention_norms=("before",) if layer else (),
            dropout_rate=self.dropout_rate,
            init=Normal(0.02, residual_scale=(2 * self.num_layers) ** -0.5),
        )


MODERNBERT_FIELDS: Mapping[str, Field] = {
    "vocab_size": Field("vocab_size"),
    "model_dim": Field("hidden_size"),
    "mlp_dim": Field("intermediate_size"),
    "num_heads": Field("num_attention_heads"),
    "num_layers": Field("num_hidden_layers"),
    "activation": Field("hidden_activation", "gelu", ACTIVATION_NAMES),
    "classifier_activation": Field("classifier_activation", "gelu", ACTIVATION_NAMES),
    "max_position_embeddings": Field("max_position_embeddings", 8192),
    "norm_epsilon": Field("norm_eps", 1e-5),
    "tie_word_embeddings": Field("tie_word_embeddings", True),
    "dropout_rate": Field("mlp_dropout", 0.0),
    "classifier_dropout_rate": Field("classifier_dropout", 0.0),
    **{f"{part}_bias": Field(f"{part}_bias", False) for part in ("attention", "mlp", "norm", "classifier")},
    "decoder_bias": Field("decoder_bias", True),
}
MODERNBERT_IGNORED = (
    *("attention_dropout", "embedding_dropout", "initializer_cutoff_factor", "cls_token_id"),
    # left over in published files; nothing reads them
    *("layer_norm_eps", "position_embedding_type", "sparse_prediction", "sparse_pred_ignore_index"),
    *("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
)
# transformers' defaults are ids of the published vocabulary, and wrong for any other.
MODERNBERT_WRITTEN: Mapping[str, Any] = {
    "pad_token_id": 0,
    **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")),
}


def read_thetas(fields: ConfigFields) -> dict[str, float]:
    """Return the bases of rotary frequencies, which a null ``local_rope_theta`` makes the same in all layers.

    Raises:
      ValueError: Frequencies are scaled.
    """
    global_theta = fields.take("global_rope_theta", 160_000.0)
    default = global_theta if "local_rope_theta" in fields.config else 10_000.0
    local_theta = fields.take("local_rope_theta", default)
    parameters = fields.take("rope_parameters", {})
    older = {FULL: {"rope_theta": global_theta}, SLIDING: {"rope_theta": local_theta}}
    ropes = ropes_by_type(parameters, older, max_position_embeddings=0)
    for kind, rope in ropes.items():
        if rope.rope_scaling is not None:
            raise ValueError(
                f"config.json: rope_parameters of {kind} are {parameters[kind]}; only theta may vary"
            )
    return {"global_rope_theta": ropes[FULL].rope_theta, "local_rope_theta": ropes[SLIDING].rope_theta}


def write_modernbert(config: ModernBertLikeConfig) -> dict[str, object]:
    """Return the fields that differ from those of the configuration."""
    return {
        "classifier_dropout": classifier_dropout_of(config),
        "global_rope_theta": config.global_rope_theta,
        "local_rope_theta": config.local_rope_theta,
    }


def modernbert_weights(
    config: ModernBertLikeConfig,
    parts: EncoderConfig | DecoderConfig,
    *,
    stack: str,
    projections: list[Weight],
    words: str,
) -> list[Weight]:
    """Return the weight table, but for scores of classes.

    Args:
      config: Configuration.
      parts: Configuration of the family's model.
      stack: Name of its stack.
      projections: Rows of queries, keys and values of a layer.
      words: Name of the layer before the scores of words.
    """
    padded, head = padded_rows(config.vocab_size, config.embeddings.padded_vocab_size), parts.heads.lm_head
    tied = head is not None and head.tie_word_embeddings
    copies = ("decoder.weight",) if tied else ()
    rows = [Weight("embedding/tokens/table", "model.embeddings.tok_embeddings.weight", padded, copies=copies)]
    norms = {"embedding/norm": "model.embeddings.norm", f"{stack}/final_norm": "model.final_norm"}
    rows += module_rows(norms, bias=config.norm_bias)
    for slot, layers in enumerate(parts.stack.layer_pattern.slots):
        is_normed = bool(parts.stack.blocks[layers[0]].attention_norms)
        layer = [*projections, *_layer_rows(config, is_normed=is_normed)]
        rows += per_layer(f"{stack}/layers/{slot}", layers, layer)
    if head is not None:
        rows += _transform_rows(config, "heads/lm_head", words)
        if head.bias:
            rows.append(Weight("heads/lm_head/bias", "decoder.bias", padded))
        if not tied:
            rows.append(Weight("heads/lm_head/projection/kernel", "decoder.weight", padded.then(TRANSPOSED)))
    for scores in parts.heads.scores:
        path = "heads/pooler" if scores.input == "pooled" else f"heads/scores/{scores.name}"
        rows += _transform_rows(config, path, "head")
    return rows


def _transform_rows(config: ModernBertLikeConfig, path: str, hf_name: str) -> list[Weight]:
    dense = {f"{path}/transform/dense": f"{hf_name}.dense"}
    norm = {f"{path}/transform/norm": f"{hf_name}.norm"}
    return [
        *module_rows(dense, bias=config.classifier_bias),
        *module_rows(norm, bias=config.norm_bias),
    ]


def _layer_rows(config: ModernBertLikeConfig, *, is_normed: bool) -> list[Weight]:
    hf_name, gated = "model.layers.{layer}.", split_columns(config.mlp_dim, config.mlp_dim)
    kernels, biases = (
        tuple(f"feed_forward/{name}/{part}" for name in ("gate", "up")) for part in ("kernel", "bias")
    )
    norms = {"feed_forward_residual/before": "mlp_norm"}
    norms |= {"self_attention_residual/before": "attn_norm"} if is_normed else {}
    return [
        *module_rows({"self_attention/out": "attn.Wo"}, hf_name, bias=config.attention_bias),
        Weight(kernels, f"{hf_name}mlp.Wi.weight", TRANSPOSED.then(gated)),
        *([Weight(biases, f"{hf_name}mlp.Wi.bias", gated)] if config.mlp_bias else []),
        *module_rows({"feed_forward/down": "mlp.Wo"}, hf_name, bias=config.mlp_bias),
        *module_rows(norms, hf_name, bias=config.norm_bias),
    ]
