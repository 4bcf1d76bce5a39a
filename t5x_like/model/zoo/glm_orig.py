"""The first GLM (Du et al. 2022, https://arxiv.org/abs/2103.10360): fills blanks in a text, autoregressively."""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Int

from t5x_like.config_class import config_class
from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.zoo.architecture import FieldTable, published
from t5x_like.model.zoo.config_fields import Field
from t5x_like.model.zoo.decoder_like import decoder_weights, fused_qkv_row
from t5x_like.model.zoo.gpt_like import GPTLikeConfig
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, module_rows, split_columns


@config_class
class GLMOrigConfig(GPTLikeConfig):
    """A GLM of any size, as its authors published it: ``GPTLikeConfig`` and one field.

    Attributes:
      block_positions: A token of a blank has two positions: that of the blank in the text, and its own inside the
        blank, from 1 on. Both tables then have ``max_position_embeddings + 1`` rows.
    """

    max_position_embeddings: int = 512
    block_positions: bool = True

    @property
    def labels_are_next_tokens(self) -> bool:
        """True: the authors' labels are not shifted; the label of a position is the token predicted there."""
        return True

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions, and positions inside blanks."""
        positions = LearnedPositions(
            max_position_embeddings=self.max_position_embeddings + self.block_positions
        )
        inside = positions if self.block_positions else None
        return replace(super().embeddings, positions=positions, block_positions=inside)


def blank_settings(
    config: GLMOrigConfig,
    prompt_mask: Int[Array, "B M"],
    places: Int[Array, " B"],
    *,
    max_new_tokens: int,
) -> dict[str, object]:
    """Return arguments of ``start_cache`` for prompts with one blank to fill each.

    Args:
      config: The model.
      prompt_mask: 1 for the prompts' tokens. Their last token is the one that starts a blank's answer.
      places: Index of the blank's token in each prompt.
      max_new_tokens: Length of the answer.

    >>> settings = blank_settings(config, mask, places, max_new_tokens=8)
    >>> first, cache = model.start_cache(prompts, mask, max_new_tokens=8, **settings)
    """
    is_text = prompt_mask.at[:, -1].set(0)
    if not config.block_positions:
        return {"prefix": is_text}
    counted = jnp.maximum(jnp.cumsum(prompt_mask, axis=1) - 1, 0)
    new = jnp.take_along_axis(counted, places[:, None], axis=1)
    new = jnp.broadcast_to(new, (len(places), 1 + max_new_tokens))
    inside = jnp.broadcast_to(jnp.arange(1, 2 + max_new_tokens), new.shape)
    outside = jnp.zeros_like(counted[:, :-1])
    return {
        "prefix": is_text,
        "positions": jnp.concatenate([counted[:, :-1], new], axis=1),
        "block_positions": jnp.concatenate([outside, inside], axis=1),
    }


def _write(config: GLMOrigConfig) -> dict[str, object]:
    if config.mlp_dim != 4 * config.model_dim:
        raise ValueError(
            f"mlp_dim={config.mlp_dim} can't be written: GLM's is 4 times model_dim={config.model_dim}"
        )
    fixed = {"activation": "gelu_tanh", "tie_word_embeddings": True}
    for name, value in vars(config).items():
        if value != fixed.get(name, value):
            raise ValueError(f"{name}={value!r} can't be written: GLM's is {fixed[name]!r}")
    return {
        "attention_dropout_prob": config.dropout_rate,
        "embedding_dropout_prob": config.dropout_rate,
    }


def _weights(config: GLMOrigConfig) -> tuple[Weight, ...]:
    hf_name, split = "transformer.layers.{layer}.", split_columns(*[config.model_dim] * 3)
    names = {
        "self_attention/out": "attention.dense",
        "feed_forward/up": "mlp.dense_h_to_4h",
        "feed_forward/down": "mlp.dense_4h_to_h",
        "self_attention_residual/before": "input_layernorm",
        "feed_forward_residual/before": "post_attention_layernorm",
    }
    fused = f"{hf_name}attention.query_key_value"
    layer = [
        fused_qkv_row(f"{fused}.weight", TRANSPOSED.then(split)),
        fused_qkv_row(f"{fused}.bias", split, "bias"),
        *module_rows(names, hf_name),
    ]
    rows = decoder_weights(
        config.decoder,
        layer,
        tokens="word_embeddings",
        positions="transformer.position_embeddings",
        final_norm="transformer.final_layernorm",
    )
    blocks = Weight("embedding/block_positions/table", "transformer.block_position_embeddings.weight")
    return (*rows, blocks) if config.block_positions else rows


GLM_ORIG = published(
    "glm_orig",
    GLMOrigConfig,
    {"GLMForConditionalGeneration": "causal_lm"},
    FieldTable(
        fields={
            "vocab_size": Field("vocab_size"),
            "model_dim": Field("hidden_size"),
            "num_heads": Field("num_attention_heads"),
            "num_layers": Field("num_layers"),
            "max_position_embeddings": Field("max_sequence_length", 512),
            "block_positions": Field("block_position_encoding", True),
            "norm_epsilon": Field("layernorm_epsilon", 1e-5),
            "dropout_rate": Field("output_dropout_prob", 0.1),
        },
        fixed={
            "relative_encoding": False,
            "attention_scale": 1.0,  # only guards float16 against overflow
            "tie_word_embeddings": True,
            "hidden_act": "gelu_tanh",
        },
        ignored=(
            *("mask_token_id", "sop_token_id", "eop_token_id"),
            *("attention_dropout_prob", "embedding_dropout_prob"),
        ),
        default_task="causal_lm",
        read=lambda _, values: {"mlp_dim": 4 * values["model_dim"]},
        write=_write,
    ),
    weights=_weights,
    prefix="glm.",
)
