"""Heads on a stack's output: scores of words, of classes of tokens, of classes of whole sequences."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.model.layers.attention import MASKED
from t5x_like.model.layers.dropout import dropout, fold
from t5x_like.model.layers.embedding import Embedding, EmbeddingsConfig
from t5x_like.model.layers.feed_forward import ACTIVATIONS, Activation
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.model.layers.norm import NormConfig, build_norm

# Which part of a family's dropout key heads draw from; stacks have those before it.
HEADS_SITE = 3


@dataclass(frozen=True, kw_only=True)
class TransformConfig:
    """A dense layer, an activation and, if it has one, a norm before the scores (Devlin et al. 2019, BERT's code)."""

    dim: int
    activation: Activation
    norm: NormConfig | None = None
    bias: bool = True


class Transform(nnx.Module):
    """``norm(activation(dense(x)))``."""

    def __init__(
        self, config: TransformConfig, model_dim: int, *, key: Key[Array, ""], init: Initializer = FanIn()
    ):
        self.dense = Linear(
            model_dim, config.dim, axes=("embed", "mlp"), key=key, init=init, bias=config.bias
        )
        self.norm = None if config.norm is None else build_norm(config.norm, config.dim)
        self.config = config

    def __call__(self, x: Float[Array, "*rows D"]) -> Float[Array, "*rows E"]:
        x = ACTIVATIONS[self.config.activation](self.dense(x))
        return x if self.norm is None else self.norm(x)


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    """The output layer over the vocabulary.

    Attributes:
      tie_word_embeddings: multiplies with the table of words, and has no kernel of its own.
      bias: adds one to each word's logit.
      transform: comes before the scores, where there is one.
      scale: multiplies what is scored (T5: the width to the power -1/2).
      final_logit_soft_cap: bends logits into this range by a tanh (Gemma 2).
    """

    tie_word_embeddings: bool
    bias: bool = False
    transform: TransformConfig | None = None
    scale: float = 1.0
    final_logit_soft_cap: float | None = None


class Words(nnx.Module):
    """The output layer over a vocabulary; rows that belong to no word get a score that nothing chooses."""

    def __init__(
        self,
        config: WordsConfig,
        embeddings: EmbeddingsConfig,
        model_dim: int,
        *,
        key: Key[Array, ""],
        init: Initializer = FanIn(),
    ):
        transform_key, projection_key = jax.random.split(key)
        transform = config.transform
        self.transform = transform and Transform(transform, model_dim, key=transform_key, init=init)
        width = model_dim if transform is None else transform.dim
        num_columns = embeddings.padded_vocab_size
        self.projection = (
            None
            if config.tie_word_embeddings
            else Linear(width, num_columns, axes=("embed", "vocab"), key=projection_key, init=init)
        )
        self.bias = nnx.Param(jnp.zeros((num_columns,)), axes=("vocab",)) if config.bias else None
        self.config = config
        self.vocab_size = embeddings.vocab_size

    def __call__(self, x: Float[Array, "B L D"], table: Embedding | None) -> Float[Array, "B L V"]:
        """Summed in float32 and left so: rounded to bfloat16, logits of 30 would stand 0.125 apart."""
        x = x if self.transform is None else self.transform(x)
        if self.config.scale != 1.0:
            x = x * self.config.scale
        if self.projection is not None:
            logits = self.projection(x, output_dtype=jnp.dtype(jnp.float32))
        else:
            assert table is not None, "a tied head needs the table of words"
            logits = table.logits(x)
        if self.bias is not None:
            logits = logits + self.bias[...][None, None]
        if (cap := self.config.final_logit_soft_cap) is not None:
            logits = cap * jnp.tanh(logits / cap)
        if logits.shape[-1] == self.vocab_size:
            return logits
        is_word = jnp.arange(logits.shape[-1]) < self.vocab_size
        return jnp.where(is_word[None, None], logits, MASKED)


@dataclass(frozen=True, kw_only=True)
class PoolerConfig:
    """One vector for a sequence: of the ``first`` token, of the ``last`` real one, or the ``mean`` over all real ones.

    The first token is that of the row, as in transformers, even where a row is padded on the left; ``first_real`` is
    the one after such padding. ``dropout_rate`` is of what the transform reads.
    """

    pooling: Literal["first", "first_real", "last", "mean"] = "first"
    transform: TransformConfig | None = None
    dropout_rate: float = 0.0


class Pooler(nnx.Module):
    """Sentence embeddings, and what classifiers of sequences read."""

    def __init__(
        self, config: PoolerConfig, model_dim: int, *, key: Key[Array, ""], init: Initializer = FanIn()
    ):
        transform = config.transform
        self.transform = transform and Transform(transform, model_dim, key=key, init=init)
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        segment_ids: Int[Array, "B L"] | None,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B D"]:
        """Ignores padding, where segment ids are 0; ``pooling="first"`` reads the first place even if it is padding."""
        if segment_ids is None or self.config.pooling == "first":
            segment_ids = jnp.ones(x.shape[:2], jnp.int32)
        pooling = self.config.pooling
        pooled = pool(x, segment_ids > 0, "first" if pooling == "first_real" else pooling)
        pooled = dropout(pooled, self.config.dropout_rate, dropout_key)
        return pooled if self.transform is None else self.transform(pooled)


def pool(
    x: Float[Array, "B L D"], real: Bool[Array, "B L"], pooling: Literal["first", "last", "mean"]
) -> Float[Array, "B D"]:
    """One vector a row."""
    if pooling == "mean":
        weights = real.astype(jnp.float32)
        total = jnp.einsum("bld,bl->bd", x, weights, preferred_element_type=jnp.float32)
        return (total / jnp.maximum(weights.sum(1, keepdims=True), 1.0)).astype(x.dtype)
    places = jnp.arange(x.shape[1])[None]
    last = jnp.max(jnp.where(real, places, 0), axis=1)
    chosen = jnp.argmax(real, axis=1) if pooling == "first" else last
    return jnp.take_along_axis(x, chosen[:, None, None], axis=1)[:, 0]


@dataclass(frozen=True, kw_only=True)
class ScoresConfig:
    """Scores of ``num_outputs`` classes (or one number) for each token, or for the pooled sequence.

    ``name`` is where they are found in ``Predictions.heads``. ``dropout_rate`` is of what the scores are made of, after
    the transform (Devlin et al. 2019's code).
    """

    name: str
    input: Literal["tokens", "pooled"]
    num_outputs: int
    transform: TransformConfig | None = None
    bias: bool = True
    dropout_rate: float = 0.0


class Scores(nnx.Module):
    """Next sentence, sentence order, classes, regression, choices: of sequences. Entities, spans: of tokens."""

    def __init__(
        self, config: ScoresConfig, model_dim: int, *, key: Key[Array, ""], init: Initializer = FanIn()
    ):
        transform_key, out_key = jax.random.split(key)
        transform = config.transform
        self.transform = transform and Transform(transform, model_dim, key=transform_key, init=init)
        self.projection = Linear(
            model_dim if transform is None else transform.dim,
            config.num_outputs,
            axes=("embed", "classes"),
            key=out_key,
            init=init,
            bias=config.bias,
        )
        self.config = config

    def __call__(
        self, x: Float[Array, "*rows D"], *, dropout_key: Key[Array, ""] | None = None
    ) -> Float[Array, "*rows C"]:
        x = x if self.transform is None else self.transform(x)
        x = dropout(x, self.config.dropout_rate, dropout_key)
        return self.projection(x, output_dtype=jnp.dtype(jnp.float32))


@dataclass(frozen=True, kw_only=True)
class HeadsConfig:
    """The heads of a stack, each of them optional."""

    words: WordsConfig | None = None
    pooler: PoolerConfig | None = None
    scores: tuple[ScoresConfig, ...] = ()

    def __post_init__(self) -> None:
        if self.pooler is None and any(head.input == "pooled" for head in self.scores):
            raise ValueError("a head reads the pooled sequence, but there is no pooler")


class Heads(nnx.Module):
    """All heads of one stack."""

    def __init__(
        self,
        config: HeadsConfig,
        embeddings: EmbeddingsConfig | None,
        model_dim: int,
        *,
        key: Key[Array, ""],
        init: Initializer = FanIn(),
    ):
        words_key, pooler_key, scores_key = jax.random.split(key, 3)
        words, pooler = config.words, config.pooler
        assert embeddings is not None or words is None, "a head for words needs to know how many there are"
        self.words = words and embeddings and Words(words, embeddings, model_dim, key=words_key, init=init)
        self.pooler = pooler and Pooler(pooler, model_dim, key=pooler_key, init=init)
        self.scores = nnx.Dict(
            {
                head.name: Scores(head, model_dim, key=jax.random.fold_in(scores_key, number), init=init)
                for number, head in enumerate(config.scores)
            }
        )

    def __call__(
        self,
        x: Float[Array, "B L D"],
        table: Embedding | None,
        segment_ids: Int[Array, "B L"] | None,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B L V"] | None, Float[Array, "B D"] | None, dict[str, Array]]:
        """Logits, the pooled sequence, and the scores of other heads."""
        logits = None if self.words is None else self.words(x, table)
        pooled = self.pooler and self.pooler(x, segment_ids, dropout_key=fold(dropout_key, 0))
        read = {"tokens": x, "pooled": pooled}
        scores = {
            name: head(read[head.config.input], dropout_key=fold(dropout_key, number))
            for number, (name, head) in enumerate(self.scores.items(), start=1)
        }
        return logits, pooled, scores
