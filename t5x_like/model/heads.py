"""Heads on a stack's output: scores of the vocabulary, of tokens, and of pooled sequences."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.adaptive_softmax import AdaptiveSoftmax
from t5x_like.model.layers.dropout import dropout, fold
from t5x_like.model.layers.embedding import Embedding, EmbeddingsConfig
from t5x_like.model.layers.feed_forward import ACTIVATIONS, Activation
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.model.layers.masks import MASKED
from t5x_like.model.layers.norm import NormConfig, build_norm
from t5x_like.model.layers.sampled_softmax import SampledLogits

# Site of a family's dropout key that heads draw from; stacks use those before it.
HEADS_SITE = 3


@config_class
class Maxout:
    """Activation that takes the largest of several linear functions (Goodfellow et al. 2013).

    Attributes:
      num_pieces: Linear functions of each output.
    """

    num_pieces: int

    def __post_init__(self) -> None:
        if self.num_pieces < 1:
            raise ValueError(f"num_pieces of Maxout is {self.num_pieces}; give a positive number")


@config_class
class TransformConfig:
    """Layer before the scores: ``norm(activation(dense(x)))`` (Devlin et al. 2019, BERT's code).

    Attributes:
      dim: Width of the outputs.
      activation: Nonlinearity.
      norm: Norm of the outputs; ``None`` for none.
      bias: Adds a bias to the dense layer.
    """

    dim: int
    activation: Activation | Maxout
    norm: NormConfig | None = None
    bias: bool = True


class Transform(nnx.Module):
    """Computes ``norm(activation(dense(x)))``."""

    def __init__(
        self, config: TransformConfig, model_dim: int, *, key: Key[Array, ""], init: Initializer = FanIn()
    ):
        activation = config.activation
        width = config.dim * (activation.num_pieces if isinstance(activation, Maxout) else 1)
        self.dense = Linear(model_dim, width, axes=("embed", "mlp"), key=key, init=init, bias=config.bias)
        self.norm = None if config.norm is None else build_norm(config.norm, config.dim)
        self.config = config

    def __call__(self, x: Float[Array, "*rows D"]) -> Float[Array, "*rows E"]:
        activation, x = self.config.activation, self.dense(x)
        if isinstance(activation, Maxout):
            x = jnp.max(x.reshape(*x.shape[:-1], self.config.dim, activation.num_pieces), axis=-1)
        else:
            x = ACTIVATIONS[activation](x)
        return x if self.norm is None else self.norm(x)


@config_class
class WordsConfig:
    """Output layer over the vocabulary.

    Attributes:
      tie_word_embeddings: Scores with the word embeddings, without a kernel of its own.
      bias: Adds a bias for each word.
      transform: Layer before the scores; ``None`` for none.
      scale: Multiplies the layer's inputs (T5: ``model_dim ** -0.5``).
      final_logit_soft_cap: Replaces logits ``s`` by ``cap * tanh(s / cap)`` (Gemma 2); ``None`` leaves them.
    """

    tie_word_embeddings: bool
    bias: bool = False
    transform: TransformConfig | None = None
    scale: float = 1.0
    final_logit_soft_cap: float | None = None


class DeferredLogits(NamedTuple):
    """Logits that are not computed yet, so that a loss can compute those of a few positions at a time.

    Attributes:
      hidden: Input of the output layer.
      words: Output layer.
      table: Word embeddings, which a tied layer needs.
    """

    hidden: Float[Array, "B L D"]
    words: "Words"
    table: Embedding | None

    def whole(self) -> Float[Array, "B L V"]:
        """Return the logits of all positions."""
        return self.words.logits(self.hidden, self.table)


def whole_logits(logits: Float[Array, "B L V"] | DeferredLogits | SampledLogits) -> Float[Array, "B L V"]:
    """Return logits as one array, for a model that reads its own."""
    return logits.whole() if isinstance(logits, DeferredLogits | SampledLogits) else logits


def defer_logits(model: nnx.Module) -> None:
    """Make all output layers over the vocabulary return ``DeferredLogits``.

    Args:
      model: A copy that is used for one call.

    Raises:
      ValueError: The output layer can't compute its logits in parts.
    """
    if not can_defer_logits(model):
        raise ValueError(
            "logits_chunk_length with an adaptive softmax, which computes all log-probabilities at once; set "
            "logits_chunk_length=None"
        )
    for _, module in nnx.iter_modules(model):
        if isinstance(module, Words):
            module.deferred = True


def can_defer_logits(model: nnx.Module) -> bool:
    """Return whether all output layers over the vocabulary can compute their logits in parts."""
    return not any(isinstance(module, AdaptiveSoftmax) for _, module in nnx.iter_modules(model))


class Words(nnx.Module):
    """Output layer over the vocabulary. Rows that pad the vocabulary get a score that is never chosen.

    Attributes:
      deferred: A call returns ``DeferredLogits`` in place of logits (see ``defer_logits``).
    """

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
        self.deferred = False
        self.config = config
        self.vocab_size = embeddings.vocab_size

    def __call__(
        self, x: Float[Array, "B L D"], table: Embedding | None
    ) -> Float[Array, "B L V"] | DeferredLogits:
        """Return logits, or what computes them.

        Args:
          x: Outputs of the stack.
          table: Word embeddings, which a tied layer needs.
        """
        return DeferredLogits(x, self, table) if self.deferred else self.logits(x, table)

    def logits(self, x: Float[Array, "B L D"], table: Embedding | None) -> Float[Array, "B L V"]:
        """Return float32 logits; in bfloat16, logits near 30 would be rounded to multiples of 0.125."""
        x = x if self.transform is None else self.transform(x)
        if self.config.scale != 1.0:
            x = x * self.config.scale
        if self.projection is not None:
            logits = self.projection(x, output_dtype=jnp.dtype(jnp.float32))
        else:
            assert table is not None, "a tied head needs the word embeddings"
            logits = table.logits(x)
        if self.bias is not None:
            logits = logits + self.bias[...][None, None]
        if (cap := self.config.final_logit_soft_cap) is not None:
            logits = cap * jnp.tanh(logits / cap)
        if logits.shape[-1] == self.vocab_size:
            return logits
        is_word = jnp.arange(logits.shape[-1]) < self.vocab_size
        return jnp.where(is_word[None, None], logits, MASKED)


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
      dropout_rate: Dropout of the transform's input.
    """

    pooling: Literal["first", "first_real", "last", "mean", "concat", "self_attentive"] = "first"
    norm: NormConfig | None = None
    transform: TransformConfig | None = None
    dropout_rate: float = 0.0

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
        self.norm = None if config.norm is None else build_norm(config.norm, width)
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
        pooled = self._pool(x, segment_ids > 0)
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
    x: Float[Array, "B L D"], real: Bool[Array, "B L"], pooling: Literal["first", "last", "mean", "concat"]
) -> Float[Array, "B E"]:
    """Return one vector for each row. A row of padding has a mean and a maximum of 0.

    Args:
      x: Vectors of tokens.
      real: True for tokens that are not padding.
      pooling: See ``PoolerConfig``; ``"first"`` is the first real token here.
    """
    if pooling == "concat":
        parts = (pool(x, real, "last"), _largest(x, real), pool(x, real, "mean"))
        return jnp.concatenate(parts, axis=-1)
    if pooling == "mean":
        weights = real.astype(jnp.float32)
        total = jnp.einsum("bld,bl->bd", x, weights, preferred_element_type=jnp.float32)
        return (total / jnp.maximum(weights.sum(1, keepdims=True), 1.0)).astype(x.dtype)
    places = jnp.arange(x.shape[1])[None]
    last = jnp.max(jnp.where(real, places, 0), axis=1)
    chosen = jnp.argmax(real, axis=1) if pooling == "first" else last
    return jnp.take_along_axis(x, chosen[:, None, None], axis=1)[:, 0]


@config_class
class ScoresConfig:
    """Scores of classes, or one number, for each token or each pooled sequence.

    Attributes:
      name: Key of the scores in ``Predictions.heads``.
      input: Scores of each token, or of the pooled sequence.
      num_outputs: Number of scores.
      transform: Layer before the scores; ``None`` for none.
      bias: Adds a bias to the scores.
      dropout_rate: Dropout after the transform (as in the code of Devlin et al. 2019).
    """

    name: str
    input: Literal["tokens", "pooled"]
    num_outputs: int
    transform: TransformConfig | None = None
    bias: bool = True
    dropout_rate: float = 0.0


class Scores(nnx.Module):
    """Computes scores of sequences (such as classes or choices) or of tokens (such as entities or spans)."""

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
        """Return float32 scores."""
        x = x if self.transform is None else self.transform(x)
        x = dropout(x, self.config.dropout_rate, dropout_key)
        return self.projection(x, output_dtype=jnp.dtype(jnp.float32))


@config_class
class HeadsConfig:
    """Heads of a stack, each of them optional.

    Attributes:
      words: Output layer over the vocabulary.
      pooler: Reduction of sequences to vectors, which some scores need.
      scores: Further heads.
      cloze: The output layer scores candidates for a blank, in place of every token (GLM, Du et al. 2022).
    """

    words: WordsConfig | None = None
    pooler: PoolerConfig | None = None
    scores: tuple[ScoresConfig, ...] = ()
    cloze: bool = False

    def __post_init__(self) -> None:
        if self.cloze and self.words is None:
            raise ValueError("candidates for a blank are scored by the output layer, but there is none")
        if self.pooler is None and any(head.input == "pooled" for head in self.scores):
            raise ValueError("a head reads the pooled sequence, but there is no pooler")


def candidate_scores(
    logits: Float[Array, "B L V"], targets: Int[Array, "B L"], in_blank: Bool[Array, "B L"]
) -> Float[Array, "B 1"]:
    """Return the log-likelihood of each row's candidate: the sum over its tokens in the blank."""
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    chosen = jnp.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]
    return jnp.sum(jnp.where(in_blank, chosen, 0.0), axis=1, keepdims=True)


class Heads(nnx.Module):
    """All heads of a stack.

    Args:
      config: Heads.
      embeddings: Sizes of the vocabulary, for a head over it.
      model_dim: Width of the stack.
      key: Random key of fresh weights.
      init: Distribution of fresh kernels.
    """

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
        assert embeddings is not None or words is None, "a head over the vocabulary needs its size"
        self.words = words and embeddings and Words(words, embeddings, model_dim, key=words_key, init=init)
        self.pooler = pooler and Pooler(pooler, model_dim, key=pooler_key, init=init)
        self.cloze = config.cloze
        widths = {
            "tokens": model_dim,
            "pooled": model_dim if pooler is None else pooler.output_dim(model_dim),
        }
        self.scores = nnx.Dict(
            {
                head.name: Scores(
                    head, widths[head.input], key=jax.random.fold_in(scores_key, number), init=init
                )
                for number, head in enumerate(config.scores)
            }
        )

    @property
    def num_outputs(self) -> dict[str, int]:
        """Number of scores of each head by name, except the output layer over the vocabulary."""
        scores = {name: head.config.num_outputs for name, head in self.scores.items()}
        return scores | ({"cloze": 1} if self.cloze else {})

    def __call__(
        self,
        x: Float[Array, "B L D"],
        table: Embedding | None,
        segment_ids: Int[Array, "B L"] | None,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B L V"] | DeferredLogits | None, Float[Array, "B E"] | None, dict[str, Any]]:
        """Return logits, pooled sequences, and the scores of other heads by name.

        Args:
          x: Outputs of the stack.
          table: Word embeddings, for tied logits.
          segment_ids: 0 for padding; ``None`` for no padding.
          dropout_key: ``None`` for no dropout.
        """
        logits = None if self.words is None else self.words(x, table)
        pooled = self.pooler and self.pooler(x, segment_ids, dropout_key=fold(dropout_key, 0))
        read = {"tokens": x, "pooled": pooled}
        scores = {
            name: head(read[head.config.input], dropout_key=fold(dropout_key, number))
            for number, (name, head) in enumerate(self.scores.items(), start=1)
        }
        return logits, pooled, scores
