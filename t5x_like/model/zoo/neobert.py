"""NeoBERT (Le Breton et al. 2025, https://arxiv.org/abs/2502.19587): deep and narrow, with rotary positions and SwiGLU.

Its files come with code of their own, which transformers lacks.
"""

from typing import Any

from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.encoder import EncoderConfig
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.feed_forward import FeedForwardConfig
from t5x_like.model.layers.linear import Normal
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.rotary import Rotary
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.common_config import head_dim_of
from t5x_like.model.zoo.config_fields import ConfigFields, Field
from t5x_like.model.zoo.decoder_like import (
    DecoderLikeConfig,
    as_encoder,
    decoder_weights,
    fused_qkv_row,
    split_heads,
)
from t5x_like.model.zoo.model_tasks import ModelTask, classifier_dropout_of, heads_for, score_rows
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, module_rows, split_columns

_MULTIPLE = 8  # of the inner width


@config_class
class NeoBertConfig(DecoderLikeConfig):
    """A NeoBERT of any size, for any task: ``DecoderLikeConfig`` and these fields.

    Attributes:
      max_position_embeddings: Length in tokens that the model was trained with. Exported, and no limit here.
      norm_epsilon: Added to the mean square in all norms.
    """

    tie_word_embeddings: bool = False
    task: ModelTask = "masked_lm"
    max_position_embeddings: int = 1024
    norm_epsilon: float = 1e-6

    def __post_init__(self) -> None:
        refuse_unused(self, "keep_lm_head", because="an encoder has one head")
        super().__post_init__()

    @property
    def parts(self) -> EncoderConfig:
        """Configuration of the family's model."""
        return self.encoder

    @property
    def encoder(self) -> EncoderConfig:
        """Configuration of the family's model."""
        return as_encoder(self)

    @property
    def norm(self) -> RMSNormConfig:
        """Type of all norms."""
        return RMSNormConfig(epsilon=self.norm_epsilon)

    def block(self, layer: int) -> BlockConfig:  # noqa: ARG002 - all layers are alike
        """Return the block of ``layer``, counted from 0."""
        head_dim = head_dim_of(self.model_dim, self.num_heads)
        rotary = Rotary(rotated_dim=head_dim, rope_theta=10_000.0, interleaved=True)
        return BlockConfig(
            model_dim=self.model_dim,
            attention=AttentionConfig(num_heads=self.num_heads, head_dim=head_dim, positions=rotary),
            feed_forward=FeedForwardConfig(mlp_dim=self.mlp_dim, activation="silu", gated=True),
            norm=self.norm,
            dropout_rate=self.dropout_rate,
            init=Normal(0.02),
        )

    @property
    def lm_head(self) -> LMHeadConfig:
        """Output layer over the vocabulary."""
        return LMHeadConfig(tie_word_embeddings=self.tie_word_embeddings, bias=True)

    @property
    def heads(self) -> HeadsConfig:
        """Heads for ``task``. The classifier drops out before its hidden layer and after it."""
        rate = classifier_dropout_of(self)
        transform = TransformConfig(dim=self.model_dim, activation="tanh")
        pooler = None if self.task == "base" else PoolerConfig(transform=transform, dropout_rate=rate)
        return heads_for(
            self.task, num_labels=self.num_labels, lm_head=self.lm_head, pooler=pooler, dropout_rate=rate
        )


def _read(fields: ConfigFields, values: dict[str, Any]) -> dict[str, Any]:
    model_dim, num_heads = values["model_dim"], values["num_heads"]
    fields.must_be("dim_head", head_dim_of(model_dim, num_heads))
    # A gate needs a third matrix, so that two thirds of the width cost the same (Shazeer 2020).
    narrowed = int(2 * fields.take("intermediate_size", 3072) / 3)
    return {"mlp_dim": -(-narrowed // _MULTIPLE) * _MULTIPLE}


def _write(config: NeoBertConfig) -> dict[str, object]:
    if config.mlp_dim % _MULTIPLE:
        raise ValueError(f"mlp_dim={config.mlp_dim} can't be written: NeoBERT's is a multiple of {_MULTIPLE}")
    if config.tie_word_embeddings:
        raise ValueError("tie_word_embeddings=True can't be written: NeoBERT has an output layer of its own")
    return {"intermediate_size": config.mlp_dim * 3 // 2, "classifier_dropout": classifier_dropout_of(config)}


def _weights(config: NeoBertConfig) -> tuple[Weight, ...]:
    hf_name, encoder = "model.transformer_encoder.{layer}.", config.encoder
    modules = {
        "self_attention/out": "wo",
        "feed_forward/down": "ffn.w3",
        "self_attention_residual/before": "attention_norm",
        "feed_forward_residual/before": "ffn_norm",
    }
    gated = TRANSPOSED.then(split_columns(config.mlp_dim, config.mlp_dim))
    layer = [
        fused_qkv_row(f"{hf_name}qkv.weight", split_heads(config.num_heads)),
        Weight(("feed_forward/gate/kernel", "feed_forward/up/kernel"), f"{hf_name}ffn.w12.weight", gated),
        *module_rows(modules, hf_name, bias=False),
    ]
    dense = {"heads/pooler/transform/dense": "dense"} if encoder.heads.pooler is not None else {}
    return decoder_weights(
        encoder,
        layer,
        stack="encoder",
        tokens="model.encoder",
        lm_head="decoder",
        final_norm="model.layer_norm",
        scores=[*module_rows(dense), *score_rows(encoder.heads, {"question_answering": "qa_outputs"})],
    )


NEOBERT = published(
    "neobert",
    NeoBertConfig,
    {
        "NeoBERTLMHead": "masked_lm",
        "NeoBERTForSequenceClassification": "sequence_classification",
        "NeoBERT": "base",
    },
    FieldTable(
        fields={
            "vocab_size": Field("vocab_size", 30_522),
            "model_dim": Field("hidden_size", 768),
            "num_heads": Field("num_attention_heads", 12),
            "num_layers": Field("num_hidden_layers", 28),
            "max_position_embeddings": Field("max_length", 1024),
            "norm_epsilon": Field("norm_eps", 1e-6),
            "classifier_dropout_rate": Field("classifier_dropout", 0.1),
        },
        ignored=(
            *("auto_map", "kwargs", "pretrained_model_name_or_path", "trust_remote_code"),
            *("classifier_init_range", "decoder_init_range", "embedding_init_range", "tie_word_embeddings"),
        ),
        written={"pad_token_id": 0},
        read=_read,
        write=_write,
    ),
    weights=_weights,
    prefix="model.",
    special_ids={"pad_token_id": 0},
)
