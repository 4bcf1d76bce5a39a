"""Words of a masked span from the tokens at its ends (Joshi et al. 2020, §3.2, https://arxiv.org/abs/1907.10529)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.model.heads import Transform, TransformConfig, Words, WordsConfig
from t5x_like.model.layers.embedding import Embedding, EmbeddingsConfig
from t5x_like.model.layers.linear import FanIn, Initializer
from t5x_like.model.layers.norm import NormConfig


@dataclass(frozen=True, kw_only=True)
class SpanBoundaryConfig:
    """Two dense layers with GELU and ``norm`` over both ends and a vector for the place inside the span.

    Sizes of that table are those of the paper's code. Places beyond it share the last one.
    """

    norm: NormConfig
    num_positions: int = 20
    position_dim: int = 200


class SpanBoundary(nnx.Module):
    """Scores every word at every masked position without looking at the position itself.

    A span is a run of targets inside a segment, so spans without a word between them count as one.
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
            config.num_positions,
            config.position_dim,
            key=position_key,
            stddev=embeddings.stddev,
            axes=("positions", "embed"),
        )

        def layer(dim: int) -> TransformConfig:
            return TransformConfig(dim=dim, activation="gelu", norm=config.norm)

        num_inputs = 2 * model_dim + config.position_dim
        self.first = Transform(layer(model_dim), num_inputs, key=first_key, init=init)
        words = WordsConfig(tie_word_embeddings=True, bias=True, transform=layer(embeddings.embed_dim))
        self.words = Words(words, embeddings, model_dim, key=second_key, init=init)
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        table: Embedding,
        is_target: Bool[Array, "B L"],
        segment_ids: Int[Array, "B L"] | None,
    ) -> Float[Array, "B L V"]:
        """Scores of words. Those at places that aren't masked have no meaning."""
        starts_BL, ends_BL = spans_of(is_target, segment_ids)
        inside_BL = jnp.clip(jnp.arange(x.shape[1])[None] - starts_BL, 0, self.config.num_positions - 1)
        left_BLD, right_BLD = _at(x, starts_BL - 1), _at(x, ends_BL + 1)
        ends = jnp.concatenate([left_BLD, right_BLD, self.positions(inside_BL, x.dtype)], axis=-1)
        return self.words(self.first(ends), table)


def spans_of(
    is_target: Bool[Array, "B L"], segment_ids: Int[Array, "B L"] | None
) -> tuple[Int[Array, "B L"], Int[Array, "B L"]]:
    """The first and the last place of the span that a target belongs to; anything elsewhere."""
    places = jnp.broadcast_to(jnp.arange(is_target.shape[1]), is_target.shape)
    goes_on = is_target[:, 1:] & is_target[:, :-1]
    if segment_ids is not None:
        goes_on &= segment_ids[:, 1:] == segment_ids[:, :-1]
    is_start = is_target & ~jnp.pad(goes_on, ((0, 0), (1, 0)))
    is_end = is_target & ~jnp.pad(goes_on, ((0, 0), (0, 1)))
    starts = jax.lax.cummax(jnp.where(is_start, places, 0), axis=1)
    ends = jax.lax.cummin(jnp.where(is_end, places, is_target.shape[1] - 1), axis=1, reverse=True)
    return starts, ends


def _at(x: Float[Array, "B L D"], places: Int[Array, "B L"]) -> Float[Array, "B L D"]:
    """Vectors at ``places``; a place beyond the row counts as its nearest end."""
    return jnp.take_along_axis(x, jnp.clip(places, 0, x.shape[1] - 1)[..., None], axis=1)
