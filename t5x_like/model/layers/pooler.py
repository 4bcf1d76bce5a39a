"""Poolers: one vector for each sequence."""

from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.dropout import dropout
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.model.layers.masks import MASKED
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.transform import Transform, TransformConfig

# Poolings of vectors that are compared with each other: those of sentence-transformers.
VectorPooling: TypeAlias = Literal["mean", "first", "last", "max", "weighted_mean"]


@config_class
class PoolerConfig:
    """Reduction of a sequence to one vector.

    Attributes:
      pooling: ``"first"`` takes the row's first token, as in transformers, even if it is padding. ``"first_real"``
        skips padding on the left, ``"last"`` takes the last real token, ``"mean"`` averages all real tokens.
        ``"concat"`` concatenates the last real token, the maximum and the mean of all (Howard and Ruder 2018, §3.3).
        ``"self_attentive"`` concatenates the maximum, the mean, the minimum and a learned weighted mean (McCann et al.
        2017, §4).
      norm: Norm of the vector; ``None`` for none.
      transform: Layer on the vector; ``None`` for none.
      transform_tokens: The layer is on each token, before pooling.
      dropout_rate: Dropout of the transform's input.
    """

    pooling: Literal["first", "first_real", "last", "mean", "concat", "self_attentive"] = "first"
    norm: NormConfig | None = None
    transform: TransformConfig | None = None
    transform_tokens: bool = False
    dropout_rate: float = 0.0

    def __post_init__(self) -> None:
        if self.transform_tokens and (
            self.transform is None or self.pooling in ("concat", "self_attentive") or self.norm is not None
        ):
            raise ValueError(
                f"transform_tokens with pooling={self.pooling!r}, transform={self.transform} and norm={self.norm}; "
                "give a transform, no norm, and a pooling that keeps the width"
            )

    def pooled_dim(self, model_dim: int) -> int:
        """Return the width of the vector before the transform."""
        return {"concat": 3, "self_attentive": 4}.get(self.pooling, 1) * model_dim

    def output_dim(self, model_dim: int) -> int:
        """Return the width of the vector."""
        return self.pooled_dim(model_dim) if self.transform is None else self.transform.dim


class Pooler(nnx.Module):
    """Computes one vector for each sequence: sentence embeddings, and inputs of sequence classifiers."""

    def __init__(
        self, config: PoolerConfig, model_dim: int, *, key: Key[Array, ""], init: Initializer = FanIn()
    ):
        transform, width = config.transform, config.pooled_dim(model_dim)
        self.score = (
            Linear(model_dim, 1, axes=("embed", "classes"), key=jax.random.fold_in(key, 1), init=init)
            if config.pooling == "self_attentive"
            else None
        )
        self.norm = None if config.norm is None else config.norm.build(width)
        self.transform = transform and Transform(transform, width, key=key, init=init)
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        segment_ids: Int[Array, "B L"] | None,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B E"]:
        """Pool each row; padding, where segment ids are 0, is ignored except by ``"first"``."""
        if segment_ids is None or self.config.pooling == "first":
            segment_ids = jnp.ones(x.shape[:2], jnp.int32)
        if self.config.transform_tokens:
            return self._pool(self.finished(x, dropout_key=dropout_key), segment_ids > 0)
        return self.finished(self._pool(x, segment_ids > 0), dropout_key=dropout_key)

    def finished(
        self, pooled: Float[Array, "*rows D"], *, dropout_key: Key[Array, ""] | None = None
    ) -> Float[Array, "*rows E"]:
        """Return pooled vectors, normalized and transformed.

        Args:
          pooled: Vectors before the norm.
          dropout_key: ``None`` for no dropout.
        """
        pooled = pooled if self.norm is None else self.norm(pooled)
        pooled = dropout(pooled, self.config.dropout_rate, dropout_key)
        return pooled if self.transform is None else self.transform(pooled)

    def _pool(self, x: Float[Array, "B L D"], real: Bool[Array, "B L"]) -> Float[Array, "B E"]:
        pooling = self.config.pooling
        if pooling != "self_attentive":
            return pool(x, real, "first" if pooling == "first_real" else pooling)
        assert self.score is not None
        scores_BL = self.score(x, output_dtype=jnp.dtype(jnp.float32))[..., 0]
        weights_BL = jax.nn.softmax(jnp.where(real, scores_BL, MASKED), axis=-1)
        attended = jnp.einsum("bld,bl->bd", x, weights_BL, preferred_element_type=jnp.float32)
        parts = (_largest(x, real), pool(x, real, "mean"), -_largest(-x, real), attended.astype(x.dtype))
        return jnp.concatenate(parts, axis=-1)


def _largest(x: Float[Array, "B L D"], real: Bool[Array, "B L"]) -> Float[Array, "B D"]:
    """Return the maximum over real tokens; 0 for a row of padding."""
    largest = jnp.max(jnp.where(real[..., None], x, -jnp.inf), axis=1)
    return jnp.where(jnp.any(real, axis=1)[:, None], largest, 0.0).astype(x.dtype)


def pool(
    x: Float[Array, "B L D"], real: Bool[Array, "B L"], pooling: VectorPooling | Literal["concat"]
) -> Float[Array, "B E"]:
    """Return one vector for each row. A row of padding has a mean and a maximum of 0.

    Args:
      x: Vectors of tokens.
      real: True for tokens that are not padding.
      pooling: Reduction, named as in ``PoolerConfig``; ``"first"`` is the first real token here.
        ``"weighted_mean"`` weighs the k-th real token by k, as later tokens of a decoder have read more (SGPT,
        Muennighoff 2022, https://arxiv.org/abs/2202.08904).
    """
    if pooling == "concat":
        parts = (pool(x, real, "last"), _largest(x, real), pool(x, real, "mean"))
        return jnp.concatenate(parts, axis=-1)
    if pooling == "max":
        return _largest(x, real)
    if pooling in ("mean", "weighted_mean"):
        weights = real.astype(jnp.float32)
        if pooling == "weighted_mean":
            weights = weights * jnp.cumsum(weights, axis=1)
        total = jnp.einsum("bld,bl->bd", x, weights, preferred_element_type=jnp.float32)
        return (total / jnp.maximum(weights.sum(1, keepdims=True), 1.0)).astype(x.dtype)
    indices = jnp.arange(x.shape[1])[None]
    last = jnp.max(jnp.where(real, indices, 0), axis=1)
    chosen = jnp.argmax(real, axis=1) if pooling == "first" else last
    return jnp.take_along_axis(x, chosen[:, None, None], axis=1)[:, 0]
