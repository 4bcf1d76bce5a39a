"""GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners")."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from t5x_like.model.families.decoder import DecoderConfig
from t5x_like.model.heads import WordsConfig
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.feed_forward import Activation, FeedForwardConfig
from t5x_like.model.layers.residual import NormSlot
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields
from t5x_like.model.zoo.decoder_parts import score_rows, stack_rows
from t5x_like.model.zoo.gpt_like import GPTLikeConfig
from t5x_like.model.zoo.model_tasks import (
    ModelTask,
    class_of,
    num_labels_of,
    problem_type_of,
    task_of,
)
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, norm, padded_rows, split_columns


@dataclass(frozen=True, kw_only=True)
class GPT2Config(GPTLikeConfig):
    """A GPT-2 of any size.

    Attributes:
      activation: of the feed-forward layer.
      scale_attn_weights: multiplies scores with ``head_dim ** -0.5``.
      scale_attn_by_inverse_layer_idx: multiplies those of layer ``i`` with ``1 / (i + 1)`` (Mistral's GPT-2,
        https://github.com/stanford-crfm/mistral).
      tie_word_embeddings: the output layer uses the table of words.
    """

    max_position_embeddings: int = 1024
    activation: Activation = "gelu_tanh"
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    tie_word_embeddings: bool = True

    @property
    def words(self) -> WordsConfig:
        """The output layer over the vocabulary."""
        return WordsConfig(tie_word_embeddings=self.tie_word_embeddings)

    @property
    def feed_forward(self) -> FeedForwardConfig:
        """A plain layer."""
        return replace(super().feed_forward, activation=self.activation)

    def attention(self, layer: int) -> AttentionConfig:
        """Self-attention of ``layer``."""
        attention = super().attention(layer)
        scale = attention.head_dim**-0.5 if self.scale_attn_weights else 1.0
        return replace(
            attention, attention_scale=scale / (layer + 1 if self.scale_attn_by_inverse_layer_idx else 1)
        )


_CLASSES: dict[str, ModelTask] = {
    "GPT2LMHeadModel": "causal_lm",
    "GPT2ForSequenceClassification": "sequence_classification",
    "GPT2ForTokenClassification": "token_classification",
    "GPT2ForQuestionAnswering": "question_answering",
    "GPT2Model": "base",
}


def from_hugging_face(config: Mapping[str, Any]) -> GPT2Config:
    """The configuration that a ``config.json`` of ``model_type`` gpt2 describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    fields.ignore("reorder_and_upcast_attn")  # scores are always float32
    common = take_gpt(config, fields, _CLASSES, max_position_embeddings=1024)
    ours = GPT2Config(
        **common,
        mlp_dim=fields.take("n_inner", 4 * common["model_dim"]),
        activation=fields.take_name("activation_function", ACTIVATION_NAMES, "gelu_new"),
        scale_attn_weights=fields.take("scale_attn_weights", True),
        scale_attn_by_inverse_layer_idx=fields.take("scale_attn_by_inverse_layer_idx", False),
        tie_word_embeddings=fields.take("tie_word_embeddings", True),
    )
    fields.finish()
    return ours


def take_gpt(
    config: Mapping[str, Any],
    fields: ConfigFields,
    classes: Mapping[str, ModelTask],
    *,
    max_position_embeddings: int,
) -> dict[str, Any]:
    """Reads the fields that GPT and GPT-2 share; ``max_position_embeddings`` is the default.

    Raises:
      ValueError: a field has a value that these models can't express.
    """
    fields.ignore("attn_pdrop", "embd_pdrop", "predict_special_tokens")
    # Of a head for multiple choice, which none of the classes has.
    fields.ignore("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels")
    fields.ignore("summary_first_dropout")
    fields.must_be("n_special", 0)
    max_position_embeddings = fields.take("n_positions", max_position_embeddings)
    fields.must_be("n_ctx", max_position_embeddings)
    return {
        "vocab_size": fields.take("vocab_size"),
        "model_dim": fields.take("n_embd"),
        "num_heads": fields.take("n_head"),
        "num_layers": fields.take("n_layer"),
        "max_position_embeddings": max_position_embeddings,
        "norm_epsilon": fields.take("layer_norm_epsilon", 1e-5),
        "task": task_of(config, classes, "base"),
        "num_labels": num_labels_of(config),
        "problem_type": problem_type_of(config),
        "dropout_rate": fields.take("resid_pdrop", 0.1),
    }


def to_hugging_face(config: GPT2Config) -> dict[str, Any]:
    """The fields of a ``config.json``."""
    return {
        **gpt_fields(config, _CLASSES, "gpt2"),
        "activation_function": ACTIVATION_NAMES.theirs(config.activation),
        "n_inner": config.mlp_dim,
        "scale_attn_by_inverse_layer_idx": config.scale_attn_by_inverse_layer_idx,
        "scale_attn_weights": config.scale_attn_weights,
        "tie_word_embeddings": config.tie_word_embeddings,
    }


def gpt_fields(config: Any, classes: Mapping[str, ModelTask], model_type: str) -> dict[str, Any]:
    """Writes the fields that ``take_gpt`` reads."""
    return {
        "architectures": [class_of(config.task, classes)],
        "attn_pdrop": config.dropout_rate,
        "embd_pdrop": config.dropout_rate,
        "layer_norm_epsilon": config.norm_epsilon,
        "model_type": model_type,
        "n_embd": config.model_dim,
        "n_head": config.num_heads,
        "n_layer": config.num_layers,
        "n_positions": config.max_position_embeddings,
        "num_labels": config.num_labels,
        "resid_pdrop": config.dropout_rate,
        "torch_dtype": "float32",
        "vocab_size": config.vocab_size,
    }


def hugging_face_weights(config: GPT2Config) -> tuple[Weight, ...]:
    """Our weights by Hugging Face's names."""
    return (
        *gpt_rows(
            config.decoder,
            layer_rows(config.model_dim, "before"),
            words="transformer.wte",
            positions="transformer.wpe",
        ),
        *norm("decoder/final_norm", "transformer.ln_f"),
    )


def gpt_rows(
    decoder: DecoderConfig, layer: list[Weight], *, words: str, positions: str
) -> tuple[Weight, ...]:
    """All weights but a final norm's, given those of one layer and their names for the tables."""
    padded = padded_rows(decoder.embeddings.vocab_size, decoder.embeddings.padded_vocab_size)
    head = decoder.heads.words
    tied = head is not None and head.tie_word_embeddings
    table = [
        Weight(
            "embedding/tokens/table", f"{words}.weight", padded, copies=("lm_head.weight",) if tied else ()
        ),
        Weight("embedding/positions/table", f"{positions}.weight"),
        *stack_rows("decoder", decoder.stack, layer),
    ]
    if head is not None and not tied:
        table.append(Weight("heads/words/projection/kernel", "lm_head.weight", padded.then(TRANSPOSED)))
    return (*table, *score_rows(decoder.heads, of_tokens="classifier"))


def layer_rows(model_dim: int, norm_slot: NormSlot) -> list[Weight]:
    """One layer of GPT or GPT-2, whose kernels are [in, out] and whose queries, keys and values are one."""
    theirs, split = "transformer.h.{layer}", split_columns(model_dim, model_dim, model_dim)
    names = ("query", "key", "value")
    table = [
        Weight(
            tuple(f"self_attention/{name}/{part}" for name in names), f"{theirs}.attn.c_attn.{whole}", split
        )
        for part, whole in (("kernel", "weight"), ("bias", "bias"))
    ]
    for ours, name in (
        ("self_attention/out", "attn.c_proj"),
        ("feed_forward/up", "mlp.c_fc"),
        ("feed_forward/down", "mlp.c_proj"),
    ):
        table += [
            Weight(f"{ours}/kernel", f"{theirs}.{name}.weight"),
            Weight(f"{ours}/bias", f"{theirs}.{name}.bias"),
        ]
    return [
        *table,
        *norm(f"around_self_attention/{norm_slot}", f"{theirs}.ln_1"),
        *norm(f"around_feed_forward/{norm_slot}", f"{theirs}.ln_2"),
    ]


GPT2 = Architecture(
    name="gpt2",
    config_class=GPT2Config,
    model_types=("gpt2",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="transformer.",
    unused_weights=("*.attn.bias", "*.attn.masked_bias"),  # the causal mask
    special_ids={"bos_token_id": 50_256, "eos_token_id": 50_256},
)
