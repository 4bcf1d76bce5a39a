"""Heads on a stack's output: scores of the vocabulary, of tokens, and of pooled sequences."""

from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class, renamed
from t5x_like.model.layers.adaptive_softmax import AdaptiveSoftmax
from t5x_like.model.layers.dropout import dropout, fold
from t5x_like.model.layers.embedding import Embedding, EmbeddingsConfig
from t5x_like.model.layers.linear import FanIn, Initializer, Linear, Normal
from t5x_like.model.layers.masks import MASKED
from t5x_like.model.layers.modules import modules_of
from t5x_like.model.layers.norm import NormConfig
from t5x_like.model.layers.pooler import Pooler, PoolerConfig
from t5x_like.model.layers.transform import Transform, TransformConfig
from t5x_like.partitioning.activations import constrain_inner, gather_output

# Site of a family's dropout key that heads draw from; stacks use those before it.
HEADS_SITE = 3

# Name of the head that predicts the rewards to come after each token.
VALUE = "value"


@config_class
class LMHeadConfig:
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


@runtime_checkable
class UncomputedLogits(Protocol):
    """Logits that a loss computes itself, or reads in a form of its own."""

    def whole(self) -> Float[Array, "B L V"]:
        """Return the logits of all positions."""
        ...


class DeferredLogits(NamedTuple):
    """Logits that are not computed yet, so that a loss can compute those of a few positions at a time.

    Attributes:
      hidden: Input of the output layer.
      lm_head: Output layer.
      table: Word embeddings, which a tied layer needs.
    """

    hidden: Float[Array, "B L D"]
    lm_head: "LMHead"
    table: Embedding | None

    def whole(self) -> Float[Array, "B L V"]:
        """Return the logits of all positions."""
        return self.lm_head.logits(self.hidden, self.table)


def whole_logits(logits: Float[Array, "B L V"] | UncomputedLogits) -> Float[Array, "B L V"]:
    """Return logits as one array, for a model that reads its own."""
    return logits.whole() if isinstance(logits, UncomputedLogits) else logits


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
    for _, words in modules_of(model, LMHead):
        words.deferred = True


def can_defer_logits(model: nnx.Module) -> bool:
    """Return whether all output layers over the vocabulary can compute their logits in parts."""
    return not any(modules_of(model, AdaptiveSoftmax))


class LMHead(nnx.Module):
    """Output layer over the vocabulary. Rows that pad the vocabulary get a score that is never chosen.

    Attributes:
      deferred: A call returns ``DeferredLogits`` in place of logits (see ``defer_logits``).
    """

    def __init__(
        self,
        config: LMHeadConfig,
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
        if self.deferred:
            return DeferredLogits(x, self, table)
        return constrain_inner(self.logits(gather_output(x), table), -1)

    def logits(self, x: Float[Array, "B L D"], table: Embedding | None) -> Float[Array, "B L V"]:
        """Return float32 logits; in bfloat16, logits near 30 would be rounded to multiples of 0.125.

        Args:
          x: Final hidden states.
          table: Word embeddings, for a head that is tied to them.
        """
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
class ScoreHeadConfig:
    """Scores of classes, or one number, for each token or each pooled sequence.

    Attributes:
      name: Key of the scores in ``Predictions.heads``.
      input: Scores of each token, or of the pooled sequence.
      num_outputs: Number of scores.
      first_token_norm: Norm of each token's sum with the first token, before the transform (DeBERTa v3's
        discriminator); ``None`` leaves tokens as they are.
      transform: Layer before the scores; ``None`` for none.
      bias: Adds a bias to the scores.
      dropout_rate: Dropout after the transform (as in the code of Devlin et al. 2019).
    """

    name: str
    input: Literal["tokens", "pooled"]
    num_outputs: int
    first_token_norm: NormConfig | None = None
    transform: TransformConfig | None = None
    bias: bool = True
    dropout_rate: float = 0.0


class ScoreHead(nnx.Module):
    """Computes scores of sequences (such as classes or choices) or of tokens (such as entities or spans)."""

    def __init__(
        self, config: ScoreHeadConfig, model_dim: int, *, key: Key[Array, ""], init: Initializer = FanIn()
    ):
        transform_key, out_key = jax.random.split(key)
        transform = config.transform
        self.first_token_norm = config.first_token_norm and config.first_token_norm.build(model_dim)
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
        if self.first_token_norm is not None:
            x = self.first_token_norm(x + x[..., :1, :])
        x = x if self.transform is None else self.transform(x)
        x = dropout(x, self.config.dropout_rate, dropout_key)
        return self.projection(x, output_dtype=jnp.dtype(jnp.float32))


def value_head(model_dim: int, key: Key[Array, ""]) -> ScoreHead:
    """Return a head that predicts one number of each token, at first 0.

    Args:
      model_dim: Width of the stack.
      key: Random key.
    """
    config = ScoreHeadConfig(name=VALUE, input="tokens", num_outputs=1)
    return ScoreHead(config, model_dim, key=key, init=Normal(0.0))


@config_class
class HeadsConfig:
    """Heads of a stack, each of them optional.

    Attributes:
      lm_head: Output layer over the vocabulary.
      pooler: Reduction of sequences to vectors, which some scores need.
      scores: Further heads.
      cloze: The output layer scores candidates for a blank, in place of every token (GLM, Du et al. 2022; PET, Schick
        and Schütze 2021).
    """

    lm_head: LMHeadConfig | None = renamed("words", default=None)
    pooler: PoolerConfig | None = None
    scores: tuple[ScoreHeadConfig, ...] = ()
    cloze: bool = False

    def __post_init__(self) -> None:
        if self.cloze and self.lm_head is None:
            raise ValueError("candidates for a blank are scored by the output layer, but there is none")
        if self.pooler is None and any(head.input == "pooled" for head in self.scores):
            raise ValueError("a head reads the pooled sequence, but there is no pooler")


def candidate_scores(
    logits: Float[Array, "B L V"],
    targets: Int[Array, "B L"],
    in_blank: Bool[Array, "B L"],
    *,
    mean: bool = False,
) -> Float[Array, "B 1"]:
    """Return the log-likelihood of each row's candidate over its tokens in the blank.

    Rows without a blank, which fill up an example with few candidates, are never likelier than others.

    Args:
      logits: Scores of the vocabulary.
      targets: Token ids of the candidate, at the blank.
      in_blank: True at tokens of the candidate.
      mean: Return the mean over tokens in place of the sum.
    """
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    chosen = jnp.take_along_axis(log_probs, targets[..., None], axis=-1)[..., 0]
    total, size = (
        jnp.sum(each, axis=1, keepdims=True) for each in (jnp.where(in_blank, chosen, 0.0), in_blank)
    )
    return jnp.where(size > 0, total / jnp.maximum(size, 1) if mean else total, MASKED)


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
        lm_head_key, pooler_key, scores_key = jax.random.split(key, 3)
        lm_head, pooler = config.lm_head, config.pooler
        assert embeddings is not None or lm_head is None, "a head over the vocabulary needs its size"
        self.lm_head = (
            lm_head and embeddings and LMHead(lm_head, embeddings, model_dim, key=lm_head_key, init=init)
        )
        self.pooler = pooler and Pooler(pooler, model_dim, key=pooler_key, init=init)
        self.cloze = config.cloze
        widths = {
            "tokens": model_dim,
            "pooled": model_dim if pooler is None else pooler.output_dim(model_dim),
        }
        self.scores = nnx.Dict(
            {
                head.name: ScoreHead(
                    head, widths[head.input], key=jax.random.fold_in(scores_key, index), init=init
                )
                for index, head in enumerate(config.scores)
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
        logits = None if self.lm_head is None else self.lm_head(x, table)
        pooled = self.pooler and self.pooler(x, segment_ids, dropout_key=fold(dropout_key, 0))
        read = {"tokens": x, "pooled": pooled}
        scores = {
            name: head(read[head.config.input], dropout_key=fold(dropout_key, head_index))
            for head_index, (name, head) in enumerate(self.scores.items(), start=1)
        }
        return logits, pooled, scores
