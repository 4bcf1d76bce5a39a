"""The first GLM (Du et al. 2022, https://arxiv.org/abs/2103.10360): a text with blanks, and then what belongs there."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int

from t5x_like.model.layers.embedding import EmbeddingsConfig, LearnedPositions
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.config_fields import ConfigFields
from t5x_like.model.zoo.gpt2 import gpt_rows
from t5x_like.model.zoo.gpt_like import GPTLikeConfig
from t5x_like.model.zoo.model_tasks import ModelTask, num_labels_of, problem_type_of, task_of
from t5x_like.model.zoo.weights import TRANSPOSED, Weight, dense, norm, split_columns


@dataclass(frozen=True, kw_only=True)
class GLMOrigConfig(GPTLikeConfig):
    """A GLM of any size, as its authors published it.

    Attributes:
      block_positions: gives a token of a blank two positions: the place of the blank in the text, and its own place
        inside the blank, from 1 on. Both tables then have a row more than ``max_position_embeddings``.
    """

    max_position_embeddings: int = 512
    block_positions: bool = True

    @property
    def labels_are_next_tokens(self) -> bool:
        """Labels of a position are the tokens predicted there, as its authors give them."""
        return True

    @property
    def embeddings(self) -> EmbeddingsConfig:
        """Words, positions, and positions inside of blanks."""
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
) -> dict[str, Any]:
    """Arguments of ``start_cache`` for prompts of which one blank each is filled, the one at ``places``.

    Prompts are texts and, as the last token of all, the one that starts a blank's answer.

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


_CLASSES: dict[str, ModelTask] = {"GLMForConditionalGeneration": "causal_lm"}


def from_hugging_face(config: Mapping[str, Any]) -> GLMOrigConfig:
    """The configuration that a ``config.json`` of ``model_type`` glm_orig describes.

    Raises:
      ValueError: a field is missing, unknown, or has a value that this model can't express; it is named.
    """
    fields = ConfigFields(config)
    fields.ignore("mask_token_id", "sop_token_id", "eop_token_id")
    fields.ignore("attention_dropout_prob", "embedding_dropout_prob")
    fields.must_be("relative_encoding", False)
    fields.must_be("attention_scale", 1.0)  # only guards float16 against overflow
    fields.must_be("tie_word_embeddings", True)
    fields.must_be("hidden_act", "gelu_tanh")
    model_dim = fields.take("hidden_size")
    ours = GLMOrigConfig(
        vocab_size=fields.take("vocab_size"),
        model_dim=model_dim,
        mlp_dim=4 * model_dim,
        num_heads=fields.take("num_attention_heads"),
        num_layers=fields.take("num_layers"),
        max_position_embeddings=fields.take("max_sequence_length", 512),
        block_positions=fields.take("block_position_encoding", True),
        norm_epsilon=fields.take("layernorm_epsilon", 1e-5),
        task=task_of(config, _CLASSES, "causal_lm"),
        num_labels=num_labels_of(config),
        problem_type=problem_type_of(config),
        dropout_rate=fields.take("output_dropout_prob", 0.1),
    )
    fields.finish()
    return ours


def to_hugging_face(config: GLMOrigConfig) -> dict[str, Any]:
    """The fields of a ``config.json``.

    Raises:
      ValueError: they have no place for something in ``config``.
    """
    if config.mlp_dim != 4 * config.model_dim:
        raise ValueError(
            f"mlp_dim={config.mlp_dim} can't be written: GLM's is 4 times model_dim={config.model_dim}"
        )
    return {
        "attention_dropout_prob": config.dropout_rate,
        "attention_scale": 1.0,
        "block_position_encoding": config.block_positions,
        "embedding_dropout_prob": config.dropout_rate,
        "hidden_act": "gelu_tanh",
        "hidden_size": config.model_dim,
        "layernorm_epsilon": config.norm_epsilon,
        "max_sequence_length": config.max_position_embeddings,
        "model_type": "glm_orig",
        "num_attention_heads": config.num_heads,
        "num_layers": config.num_layers,
        "output_dropout_prob": config.dropout_rate,
        "relative_encoding": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": config.vocab_size,
    }


def hugging_face_weights(config: GLMOrigConfig) -> tuple[Weight, ...]:
    """Our weights by the names of its authors."""
    theirs, names = "transformer.layers.{layer}", ("query", "key", "value")
    split = split_columns(*[config.model_dim] * 3)
    fused = f"{theirs}.attention.query_key_value"
    layer = [
        Weight(
            tuple(f"self_attention/{name}/kernel" for name in names),
            f"{fused}.weight",
            TRANSPOSED.then(split),
        ),
        Weight(tuple(f"self_attention/{name}/bias" for name in names), f"{fused}.bias", split),
        *dense("self_attention/out", f"{theirs}.attention.dense"),
        *dense("feed_forward/up", f"{theirs}.mlp.dense_h_to_4h"),
        *dense("feed_forward/down", f"{theirs}.mlp.dense_4h_to_h"),
        *norm("around_self_attention/before", f"{theirs}.input_layernorm"),
        *norm("around_feed_forward/before", f"{theirs}.post_attention_layernorm"),
    ]
    table = gpt_rows(
        config.decoder, layer, words="word_embeddings", positions="transformer.position_embeddings"
    )
    blocks = Weight("embedding/block_positions/table", "transformer.block_position_embeddings.weight")
    return (
        *table,
        *norm("decoder/final_norm", "transformer.final_layernorm"),
        *([blocks] if config.block_positions else []),
    )


GLM_ORIG = Architecture(
    name="glm_orig",
    config_class=GLMOrigConfig,
    model_types=("glm_orig",),
    classes=_CLASSES,
    from_hugging_face=from_hugging_face,
    to_hugging_face=to_hugging_face,
    hugging_face_weights=hugging_face_weights,
    prefix="glm.",
)
