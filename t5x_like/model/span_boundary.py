"""Span-boundary objective: predicts a masked span's tokens from its ends (Joshi et al. 2020, §3.2).

https://arxiv.org/abs/1907.10529.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.heads import DeferredLogits, LMHead, LMHeadConfig
from t5x_like.model.layers.embedding import Embedding, EmbeddingsConfig
from t5x_like.model.layers.linear import FanIn, Initializer
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.transform import Transform, TransformConfig


@config_class
class SpanBoundaryConfig:
    """Head of two dense layers with GELU, over the vectors at both ends and the position in the span.

    Attributes:
      norm: Norm after each dense layer.
      max_span_length: Number of position embeddings; later positions share the last one. As in the paper's code.
      position_dim: Width of the position embeddings. As in the paper's code.
    """

    norm: NormConfig
    max_span_length: int = 20
    position_dim: int = 200


class SpanBoundary(nnx.Module):
    """Scores every word at every masked position without reading the position itself.

    A span is a run of targets inside a segment, so adjacent spans count as one.
    """

    def __init__(
        self,
        config: SpanBoundaryConfig,
        embeddings: EmbeddingsConfig,
        model_dim: int,
        *,
        key: Key[Array, ""],
        init: Initializer = FanIn(),
    ):
        position_key, first_key, second_key = jax.random.split(key, 3)
        self.positions = Embedding(
            config.max_span_length,
            config.position_dim,
            key=position_key,
            stddev=embeddings.stddev,
            axes=("positions", "embed"),
        )

        def layer(dim: int) -> TransformConfig:
            return TransformConfig(dim=dim, activation="gelu", norm=config.norm)

        num_inputs = 2 * model_dim + config.position_dim
        self.first = Transform(layer(model_dim), num_inputs, key=first_key, init=init)
        words = LMHeadConfig(tie_word_embeddings=True, bias=True, transform=layer(embeddings.embed_dim))
        self.words = LMHead(words, embeddings, model_dim, key=second_key, init=init)
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        table: Embedding,
        is_target: Bool[Array, "B L"],
        segment_ids: Int[Array, "B L"] | None,
    ) -> Float[Array, "B L V"] | DeferredLogits:
        """Return word scores; those at positions that are not masked have no meaning.

        Args:
          x: Encoder outputs.
          table: Word embeddings, which the scores are products with.
          is_target: True at masked positions.
          segment_ids: Spans don't cross segments; ``None`` for one segment a row.
        """
        starts_BL, ends_BL = spans_of(is_target, segment_ids)
        inside_BL = jnp.clip(jnp.arange(x.shape[1])[None] - starts_BL, 0, self.config.max_span_length - 1)
        left_BLD, right_BLD = _at(x, starts_BL - 1), _at(x, ends_BL + 1)
        ends = jnp.concatenate([left_BLD, right_BLD, self.positions(inside_BL, x.dtype)], axis=-1)
        return self.words(self.first(ends), table)


def spans_of(
    is_target: Bool[Array, "B L"], segment_ids: Int[Array, "B L"] | None
) -> tuple[Int[Array, "B L"], Int[Array, "B L"]]:
    """Return the first and last position of the span that each target belongs to, and any numbers elsewhere.

    Args:
      is_target: True for tokens to predict.
      segment_ids: Number of each token's segment, which no span crosses; None for one segment.
    """
    positions = jnp.broadcast_to(jnp.arange(is_target.shape[1]), is_target.shape)
    continues = is_target[:, 1:] & is_target[:, :-1]
    if segment_ids is not None:
        continues &= segment_ids[:, 1:] == segment_ids[:, :-1]
    is_start = is_target & ~jnp.pad(continues, ((0, 0), (1, 0)))
    is_end = is_target & ~jnp.pad(continues, ((0, 0), (0, 1)))
    starts = jax.lax.cummax(jnp.where(is_start, positions, 0), axis=1)
    ends = jax.lax.cummin(jnp.where(is_end, positions, is_target.shape[1] - 1), axis=1, reverse=True)
    return starts, ends


def _at(x: Float[Array, "B L D"], positions: Int[Array, "B L"]) -> Float[Array, "B L D"]:
    """Return the vectors at ``positions``, clipped to the row."""
    return jnp.take_along_axis(x, jnp.clip(positions, 0, x.shape[1] - 1)[..., None], axis=1)
