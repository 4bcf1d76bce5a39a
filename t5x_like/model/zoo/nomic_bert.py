"""Nomic BERT (Nussbaum et al. 2024, https://arxiv.org/abs/2402.01613): BERT with rotary positions and SwiGLU."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from t5x_like.config_class import config_class
from t5x_like.model.heads import LMHeadConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.block import BlockConfig
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.layers.rotary import Rotary, RotaryScaling
from t5x_like.model.layers.transform import TransformConfig
from t5x_like.model.zoo.architecture import FieldTable
from t5x_like.model.zoo.bert_like import BertLikeConfig, bert_like, bert_like_weights
from t5x_like.model.zoo.common_config import head_dim_of
from t5x_like.model.zoo.config_fields import ConfigFields, Field
from t5x_like.model.zoo.decoder_like import fused_qkv_row
from t5x_like.model.zoo.model_tasks import ModelTask
from t5x_like.model.zoo.rope import rope_parameters, take_rope
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, module_rows, split_columns


@config_class
class NomicBertConfig(BertLikeConfig):
    """A Nomic BERT of any size, for any task: ``BertLikeConfig`` and these fields.

    Positions act in attention: ``max_position_embeddings`` is exported, and no limit here.

    Attributes:
      head_dim: Width of a head; ``None`` is ``model_dim / num_heads``.
      rope_theta: Base of the rotary frequencies.
      rope_scaling: Changes the frequencies for longer texts; ``None`` leaves them.
      tie_word_embeddings: The output layer uses the word embeddings.
      lm_head_bias: The output layer, and the layer before it, have biases. Those of Nomic's own files have none.
    """

    activation: Activation = "silu"
    max_position_embeddings: int = 2048
    task: ModelTask = "masked_lm"
    head_dim: int | None = None
    rope_theta: float = 1000.0
    rope_scaling: RotaryScaling | None = None
    tie_word_embeddings: bool = True
    lm_head_bias: bool = True

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words and token types, normalized."""
        return replace(super().embeddings, positions=None)

    @property
    def block(self) -> BlockConfig:
        """Block of each layer, whose linear layers have no biases."""
        head_dim = self.head_dim or head_dim_of(self.model_dim, self.num_heads)
        rotary = Rotary(rotated_dim=head_dim, rope_theta=self.rope_theta, rope_scaling=self.rope_scaling)
        return replace(
            super().block,
            attention=AttentionConfig(num_heads=self.num_heads, head_dim=head_dim, positions=rotary),
            feed_forward=FeedForwardConfig(mlp_dim=self.mlp_dim, activation=self.activation, gated=True),
        )

    @property
    def words_transform(self) -> TransformConfig:
        """Layer before the scores of words."""
        return replace(super().words_transform, bias=self.lm_head_bias)

    @property
    def lm_head(self) -> LMHeadConfig:
        """Output layer over the vocabulary."""
        tied, bias = self.tie_word_embeddings, self.lm_head_bias
        return LMHeadConfig(tie_word_embeddings=tied, bias=bias, transform=self.words_transform)

    @property
    def pooler(self) -> PoolerConfig | None:
        """Layer on the first token, for heads of whole sequences."""
        return None if self.task == "base" else super().pooler


def _read(fields: ConfigFields, values: dict[str, Any]) -> dict[str, Any]:
    length = values["max_position_embeddings"]
    rope = take_rope(fields, rope_theta=1000.0, max_position_embeddings=length)
    return {
        "head_dim": fields.take("head_dim", None),
        "rope_theta": rope.rope_theta,
        "rope_scaling": rope.rope_scaling,
    }


def _write(config: NomicBertConfig) -> dict[str, object]:
    return {
        "head_dim": config.head_dim,
        "rope_parameters": rope_parameters(config.rope_theta, config.rope_scaling),
    }


def _weights(config: NomicBertConfig) -> tuple[Weight, ...]:
    name, predictions = "nomic_bert.encoder.layers.{layer}.", "cls.predictions"
    attention = config.block.attention
    qkv = split_columns(*[attention.num_heads * attention.head_dim] * 3)
    linear = {
        "self_attention/out": "attn.out_proj",
        "feed_forward/up": "mlp.fc11",
        "feed_forward/gate": "mlp.fc12",
        "feed_forward/down": "mlp.fc2",
    }
    norms = {"self_attention_residual/final": "norm1", "feed_forward_residual/final": "norm2"}
    rows = bert_like_weights(
        config.encoder,
        embeddings="nomic_bert.embeddings",
        embeddings_norm="nomic_bert.emb_ln",
        layer=(
            fused_qkv_row(f"{name}attn.Wqkv.weight", TRANSPOSED.then(qkv)),
            *module_rows(linear, name, bias=False),
            *module_rows(norms, name),
        ),
        modules={
            "heads/lm_head/transform/dense": f"{predictions}.transform.dense",
            "heads/lm_head/transform/norm": f"{predictions}.transform.layer_norm",
            "heads/pooler/transform/dense": "nomic_bert.pooler.dense",
        },
        words_copies=(f"{predictions}.decoder.weight",),
        words_bias=f"{predictions}.bias",
        words_bias_copies=(f"{predictions}.decoder.bias",),
        scores={"question_answering": "qa_outputs"},
    )
    has_bias = config.lm_head_bias
    return tuple(row for row in rows if has_bias or row.path != "heads/lm_head/transform/dense/bias")


def _as_stored(config: NomicBertConfig, names: Collection[str]) -> NomicBertConfig:
    """Return a language model without biases of its output layer if its files have none."""
    has_bias = any("predictions." in name and name.endswith("bias") and "norm" not in name for name in names)
    return replace(config, lm_head_bias=has_bias) if config.task == "masked_lm" else config


_RECORD = bert_like(
    "nomic_bert",
    NomicBertConfig,
    {
        "NomicBertForMaskedLM": "masked_lm",
        "NomicBertForSequenceClassification": "sequence_classification",
        "NomicBertForTokenClassification": "token_classification",
        "NomicBertModel": "base",
    },
    FieldTable(
        fields={
            "max_position_embeddings": Field("max_position_embeddings", 2048),
            "tie_word_embeddings": Field("tie_word_embeddings", True),
        },
        written={"pad_token_id": 0},
        read=_read,
        write=_write,
    ),
    weights=_weights,
    activation="silu",
    dropout_rate=0.0,
    without=("position_embedding_type", "tie_word_embeddings"),
    other_prefixes=("bert.",),  # in files of Nomic's own language model
    unused_weights=("*.position_ids", "*.inv_freq", "cls.predictions.bias"),
    as_stored=_as_stored,
    special_ids={"pad_token_id": 0},
)

# Nomic's own names of fields, with those of transformers, and values that its code needs to compute the same.
_RENAMED = {
    "n_embd": "hidden_size",
    "n_inner": "intermediate_size",
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
    "layer_norm_epsilon": "layer_norm_eps",
    "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "rotary_emb_base": "rope_theta",
}
_NEEDED = {
    "causal": False,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "parallel_block": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "use_rms_norm": False,
}
_WITHOUT_EFFECT = (
    *("auto_map", "dense_seq_output", "embd_pdrop", "fused_bias_fc", "fused_dropout_add_ln"),
    *("max_trained_positions", "n_positions", "pad_vocab_size_multiple", "parallel_block_tied_norm"),
    *("reorder_and_upcast_attn", "summary_activation", "summary_first_dropout", "summary_proj_to_labels"),
    *("summary_type", "summary_use_proj", "use_flash_attn", "use_xentropy"),
)
_ACTIVATIONS = {"swiglu": "silu", "geglu": "gelu"}


def _from_hugging_face(config: Mapping[str, Any]) -> NomicBertConfig:
    """Read the fields of transformers, and those of Nomic's own code where they are absent.

    Raises:
      ValueError: A field is missing or not known, or has a value that this model can't express.
    """
    if "n_embd" not in config:
        return _RECORD.from_hugging_face(config)
    own = ConfigFields({name: config[name] for name in ("activation_function", *_NEEDED) if name in config})
    for name, value in _NEEDED.items():
        own.must_be(name, value)
    dropped = {*_RENAMED, *_NEEDED, *_WITHOUT_EFFECT, "activation_function"}
    fields = {
        **{new: config[old] for old, new in _RENAMED.items() if old in config},
        "hidden_act": own.take_name("activation_function", _ACTIVATIONS, "gelu_new"),
        **{name: value for name, value in config.items() if name not in dropped},
    }
    if fields.get("architectures") == ["NomicBertForPreTraining"]:  # Nomic's name of it
        fields["architectures"] = ["NomicBertForMaskedLM"]
    return _RECORD.from_hugging_face(fields)


NOMIC_BERT = replace(_RECORD, from_hugging_face=_from_hugging_face)
