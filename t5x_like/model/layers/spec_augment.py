"""SpecAugment: spans of time steps and of features are hidden in training (Park et al. 2019, §2).

https://arxiv.org/abs/1904.08779. Spans are drawn as by wav2vec 2.0 (Baevski et al. 2020, §3.1).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class


@config_class
class SpecAugmentConfig:
    """Spans that training hides.

    Attributes:
      time_rate: Share of time steps that spans would cover if none overlapped; 0 hides none.
      time_length: Time steps of a span.
      min_time_spans: Smallest number of spans in a row.
      feature_rate: Share of features that spans would cover; 0 hides none.
      feature_length: Features of a span.
      min_feature_spans: Smallest number of spans of features.
      enabled: Hides spans in training. ``False`` keeps the vector of hidden steps among the weights.
    """

    time_rate: float = 0.05
    time_length: int = 10
    min_time_spans: int = 2
    feature_rate: float = 0.0
    feature_length: int = 10
    min_feature_spans: int = 0
    enabled: bool = True

    def __post_init__(self) -> None:
        for name in ("time_length", "feature_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give 1 or more")
        for name in ("time_rate", "feature_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a share from 0 to 1")

    @property
    def has_vector(self) -> bool:
        """True if the model has a vector in place of hidden time steps."""
        return self.time_rate > 0 or self.feature_rate > 0


def hide_spans(
    x: Float[Array, "B L D"],
    hidden: Float[Array, " D"] | None,
    lengths: Int[Array, " B"],
    config: SpecAugmentConfig,
    key: Key[Array, ""],
) -> Float[Array, "B L D"]:
    """Return rows in which spans of time steps are the vector ``hidden``, and spans of features are 0.

    Args:
      x: Rows.
      hidden: Vector of hidden time steps; None where nothing is hidden.
      lengths: Number of real time steps of each row.
      config: Spans.
      key: Random key.
    """
    if not config.enabled or hidden is None:
        return x
    time_key, feature_key = jax.random.split(key)
    if config.time_rate > 0:
        is_hidden = draw_spans(
            time_key,
            lengths,
            x.shape[1],
            rate=config.time_rate,
            length=config.time_length,
            min_spans=config.min_time_spans,
        )
        x = jnp.where(is_hidden[..., None], hidden.astype(x.dtype)[None, None], x)
    if config.feature_rate > 0:
        widths = jnp.full(len(x), x.shape[2])
        is_hidden = draw_spans(
            feature_key,
            widths,
            x.shape[2],
            rate=config.feature_rate,
            length=config.feature_length,
            min_spans=config.min_feature_spans,
        )
        x = jnp.where(is_hidden[:, None], jnp.zeros((), x.dtype), x)
    return x


def draw_spans(
    key: Key[Array, ""],
    lengths: Int[Array, " B"],
    size: int,
    *,
    rate: float,
    length: int,
    min_spans: int,
) -> Bool[Array, "B L"]:
    """Return True inside of spans that begin at different places, drawn at random.

    A row has ``rate * its length / length`` spans, rounded up or down at random, the same way in all rows.

    Args:
      key: Random key.
      lengths: Length of each row.
      size: Length of the longest row.
      rate: Share of the row that spans would cover if none overlapped.
      length: Length of a span.
      min_spans: Smallest number of spans, as far as they have room.
    """
    round_key, place_key = jax.random.split(key)
    wanted = jnp.floor(rate * lengths / length + jax.random.uniform(round_key)).astype(jnp.int32)
    wanted = jnp.minimum(jnp.maximum(wanted, min_spans), size // length)
    num_starts = jnp.maximum(lengths - (length - 1), 0)
    wanted = jnp.minimum(wanted, num_starts)
    places = jnp.arange(size)
    is_start = places[None] < num_starts[:, None]
    draws = jnp.where(is_start, jax.random.uniform(place_key, (len(lengths), size)), -1.0)
    rank = jnp.argsort(jnp.argsort(-draws, axis=1), axis=1)
    begun = jnp.cumsum(rank < wanted[:, None], axis=1)
    ended = jnp.pad(begun, ((0, 0), (length, 0)))[:, :size]
    return begun > ended
