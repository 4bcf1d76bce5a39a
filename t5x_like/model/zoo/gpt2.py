"""GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners")."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from t5x_like.config_class import config_class
from t5x_like.model.layers.attention import AttentionConfig
from t5x_like.model.layers.residual import NormSlot
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.config_fields import ACTIVATION_NAMES, ConfigFields, Field
from t5x_like.model.zoo.decoder_like import decoder_weights, fused_qkv_row
from t5x_like.model.zoo.gpt_like import GPTLikeConfig
from t5x_like.model.zoo.weights import Weight, module_rows, split_columns

# The head for multiple choice: a linear layer on the last token.
_CHOICE_FIELDS = {
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "summary_activation": None,
    "summary_proj_to_labels": True,
}
SUMMARY_FIELDS = (*_CHOICE_FIELDS, "summary_first_dropout")


@config_class
class GPT2Config(GPTLikeConfig):
    """A GPT-2 of any size: ``GPTLikeConfig`` and these fields.

    Attributes:
      scale_attn_weights: Multiplies attention scores by ``head_dim ** -0.5``.
      scale_attn_by_inverse_layer_idx: Multiplies the scores of layer ``i`` by ``1 / (i + 1)`` (Mistral's GPT-2,
        https://github.com/stanford-crfm/mistral).
    """

    max_position_embeddings: int = 1024
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False

    def attention(self, layer: int) -> AttentionConfig:
        """Return the self-attention of ``layer``, counted from 0."""
        scale = self.head_width**-0.5 if self.scale_attn_weights else 1.0
        divisor = layer + 1 if self.scale_attn_by_inverse_layer_idx else 1
        return replace(super().attention(layer), attention_scale=scale / divisor)


def gpt_table(
    fields: Mapping[str, Field],
    *,
    max_position_embeddings: int,
    required: Mapping[str, Any] | None = None,
    read: Any = lambda _, __: {},
    write: Any = lambda _: {},
    **others: Any,
) -> FieldTable:
    """Return the fields of GPT and GPT-2, with those of one of them added.

    Args:
      fields: The model's own fields.
      max_position_embeddings: Default of ``n_positions``.
      required: Fields that are refused with another value; see ``FieldTable``.
      read: Returns values of further fields of the configuration; see ``FieldTable``.
      write: Returns further fields of the file; see ``FieldTable``.
      **others: Further attributes of ``FieldTable``.
    """

    def read_all(config_fields: ConfigFields, values: dict[str, object]) -> dict[str, object]:
        config_fields.must_be("n_ctx", values["max_position_embeddings"])
        if values["task"] == "multiple_choice":
            for name, value in _CHOICE_FIELDS.items():
                config_fields.must_be(name, value)
        return read(config_fields, values)

    common = {
        "vocab_size": Field("vocab_size"),
        "model_dim": Field("n_embd"),
        "num_heads": Field("n_head"),
        "num_layers": Field("n_layer"),
        "max_position_embeddings": Field("n_positions", max_position_embeddings),
        "norm_epsilon": Field("layer_norm_epsilon", 1e-5),
        "dropout_rate": Field("resid_pdrop", 0.1),
    }
    return FieldTable(
        fields={**common, **fields},
        required={"n_special": 0, **(required or {})},
        ignored=(
            *("attn_pdrop", "embd_pdrop", "predict_special_tokens", *SUMMARY_FIELDS),
            "reorder_and_upcast_attn",  # scores are always float32
        ),
        read=read_all,
        write=lambda config: {
            "attn_pdrop": config.dropout_rate,
            "embd_pdrop": config.dropout_rate,
            **(_CHOICE_FIELDS if config.task == "multiple_choice" else {}),
            **write(config),
        },
        **others,
    )


def gpt_weights(
    config: GPTLikeConfig, *, tokens: str, positions: str, norm_slot: NormSlot
) -> tuple[Weight, ...]:
    """Return the weight table of GPT or GPT-2, whose kernels are [in, out] and whose q, k and v are fused.

    Args:
      config: The model.
      tokens: Name of the word embeddings.
      positions: Name of the position embeddings.
      norm_slot: Position of the norms around each layer.
    """
    hf_name, split = "transformer.h.{layer}", split_columns(*[config.model_dim] * 3)
    kernels = {
        "self_attention/out": "attn.c_proj",
        "feed_forward/up": "mlp.c_fc",
        "feed_forward/down": "mlp.c_proj",
    }
    norms = {
        f"self_attention_residual/{norm_slot}": "ln_1",
        f"feed_forward_residual/{norm_slot}": "ln_2",
    }
    layer = [
        fused_qkv_row(f"{hf_name}.attn.c_attn.weight", split),
        fused_qkv_row(f"{hf_name}.attn.c_attn.bias", split, "bias"),
        *(
            Weight(f"{path}/{part}", f"{hf_name}.{name}.{whole}")
            for path, name in kernels.items()
            for part, whole in (("kernel", "weight"), ("bias", "bias"))
        ),
        *module_rows(norms, f"{hf_name}."),
    ]
    return decoder_weights(
        config.decoder,
        layer,
        tokens=tokens,
        positions=positions,
        final_norm="transformer.ln_f",
        choice="multiple_choice_head.summary",
    )


def _has_output_matrix(config: GPT2Config) -> bool:
    """Return whether an export has an output layer of its own; without one, transformers ties it to the embeddings.

    GPT2DoubleHeadsModel has an output layer even if the choices were trained without.
    """
    if config.task == "multiple_choice":
        return config.keep_lm_head and not config.tie_word_embeddings
    return not config.tie_word_embeddings


GPT2 = published(
    "gpt2",
    GPT2Config,
    {
        "GPT2LMHeadModel": "causal_lm",
        "GPT2ForSequenceClassification": "sequence_classification",
        "GPT2ForTokenClassification": "token_classification",
        "GPT2ForQuestionAnswering": "question_answering",
        "GPT2DoubleHeadsModel": "multiple_choice",
        "GPT2Model": "base",
    },
    gpt_table(
        {
            "activation": Field("activation_function", "gelu_new", ACTIVATION_NAMES),
            "scale_attn_weights": Field("scale_attn_weights", True),
            "scale_attn_by_inverse_layer_idx": Field("scale_attn_by_inverse_layer_idx", False),
            "tie_word_embeddings": Field("tie_word_embeddings", True),
        },
        max_position_embeddings=1024,
        read=lambda fields, values: {
            "mlp_dim": fields.take("n_inner", 4 * values["model_dim"]),
            # GPT2DoubleHeadsModel has the output layer, too.
            "keep_lm_head": values["task"] == "multiple_choice" and not values["tie_word_embeddings"],
        },
        write=lambda config: {
            "n_inner": config.mlp_dim,
            "tie_word_embeddings": not _has_output_matrix(config),
        },
    ),
    weights=lambda config: gpt_weights(
        config, tokens="transformer.wte", positions="transformer.wpe", norm_slot="before"
    ),
    prefix="transformer.",
    unused_weights=("*.attn.bias", "*.attn.masked_bias"),  # the causal mask
    special_ids={"bos_token_id": 50_256, "eos_token_id": 50_256},
)
