"""ELECTRA's pretraining: a discriminator detects tokens that a generator replaced (Clark et al. 2020).

https://arxiv.org/abs/2003.10555. DeBERTa v3 shares the word table in another way (He et al. 2021,
https://arxiv.org/abs/2111.09543, §3.3).
"""

from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.encoder import EncoderConfig, encoder_context
from t5x_like.model.families.family import ExtraLoss, Measure, Predictions
from t5x_like.model.heads import Heads, whole_logits
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.embedding import Embeddings, projection_to
from t5x_like.model.layers.stack import Stack, StackOutput

REPLACED = "replaced_tokens"  # the discriminator's head

# "shared": both learn the same tables. "gradient_disentangled": the generator alone learns its word table. The
# discriminator adds a table of its own, at first 0, to what the generator's has become.
EmbeddingSharing: TypeAlias = Literal["shared", "gradient_disentangled"]


@config_class
class GeneratorDiscriminatorConfig:
    """Two encoders, each with a projection from the tables to its own width.

    Attributes:
      generator: Encoder with a head over the vocabulary.
      discriminator: Encoder with the head ``"replaced_tokens"``, one score for each token.
      discriminator_weight: Weight of the discriminator's loss, a mean over real tokens.
      embedding_sharing: Which tables the models share (see ``EmbeddingSharing``).
    """

    generator: EncoderConfig
    discriminator: EncoderConfig
    discriminator_weight: float = 50.0
    embedding_sharing: EmbeddingSharing = "shared"


class GeneratorDiscriminator(nnx.Module):
    """Both models. ``embedding``, ``encoder`` and ``heads`` are the discriminator's, named as in ``Encoder``.

    With ``"gradient_disentangled"`` the word table in ``embedding`` is what is added to the generator's.
    """

    def __init__(self, config: GeneratorDiscriminatorConfig, *, key: Key[Array, ""]):
        keys = jax.random.split(key, 6)
        self.embedding, self.encoder, self.heads = _encoder(config.discriminator, keys[:3])
        tables, width = config.generator.embeddings, config.generator.stack.model_dim
        self.generator_projection = projection_to(width, tables, key=keys[3])
        init = config.generator.stack.blocks[0].init
        self.generator = Stack(config.generator.stack, key=keys[4])
        self.generator_heads = Heads(config.generator.heads, tables, width, key=keys[5], init=init)
        is_shared = config.embedding_sharing == "shared"
        self.generator_embedding = (
            None if is_shared else Embeddings(tables, width, key=jax.random.fold_in(key, 6))
        )
        if not is_shared:
            difference = self.embedding.tokens
            assert difference is not None
            difference.table[...] = jnp.zeros_like(difference.table[...])
        self.config = config

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of losses and means that are logged next to the generator's loss."""
        return "discriminator_loss", "discriminator_precision", "discriminator_recall", "replaced_share"

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Predictions:
        """Return the generator's logits, and the discriminator's scores of tokens drawn from them.

        Draws use the dropout key; without one they are always the same. A draw that equals the target is no replacement
        (§3.1). A batch without targets is not changed.
        """
        generated = self._read(batch, fold(dropout_key, 0), by_generator=True)
        table = (self.embedding if self.generator_embedding is None else self.generator_embedding).tokens
        segment_ids = batch.encoder_segment_ids
        logits, _, _ = self.generator_heads(generated.output, table, segment_ids)
        assert logits is not None, "a generator scores words"
        tokens, is_replaced = _replace(batch, whole_logits(logits), fold(dropout_key, 1))
        batch = batch._replace(encoder_input_tokens=tokens)
        read = self._read(batch, fold(dropout_key, 2), by_generator=False)
        _, pooled, heads = self.heads(read.output, table, segment_ids)
        scores = heads[REPLACED][..., 0]
        real = jnp.ones(tokens.shape, bool) if segment_ids is None else segment_ids > 0
        # Binary cross entropy from one score.
        losses = jax.nn.softplus(scores) - scores * is_replaced
        return Predictions(
            logits=logits,
            encoder_output=read.output,
            pooled=pooled,
            heads=heads,
            extra_losses={
                "discriminator_loss": ExtraLoss(_count(real, losses), self.config.discriminator_weight)
            },
            measures=_measures(batch, scores > 0, is_replaced, real),
        )

    def _read(self, batch: Batch, dropout_key: Key[Array, ""] | None, *, by_generator: bool) -> StackOutput:
        stack = self.generator if by_generator else self.encoder
        embedded = self._embed(batch, by_generator=by_generator)
        with named_activations.scope("generator" if by_generator else "encoder"):
            return stack(embedded, encoder_context(batch), dropout_key=dropout_key)

    def _embed(self, batch: Batch, *, by_generator: bool) -> Float[Array, "B L D"]:
        tokens, dtype = batch.encoder_input_tokens, jnp.dtype(self.config.discriminator.compute_dtype)
        others = {"positions": batch.encoder_positions, "token_types": batch.token_types}
        if self.generator_embedding is not None:
            tables = self.generator_embedding if by_generator else self.embedding
            words = tables.words(tokens, dtype)
            if not by_generator:
                words = words + jax.lax.stop_gradient(self.generator_embedding.words(tokens, dtype))
            return tables.project(tables.unprojected(words, tokens, **others))
        projection = self.generator_projection if by_generator else self.embedding.projection
        embedded = self.embedding.unprojected(self.embedding.words(tokens, dtype), tokens, **others)
        return embedded if projection is None else projection(embedded)


def _encoder(config: EncoderConfig, keys: Key[Array, " 3"]) -> tuple[Embeddings, Stack, Heads]:
    model_dim, init = config.stack.model_dim, config.stack.blocks[0].init
    return (
        Embeddings(config.embeddings, model_dim, key=keys[0]),
        Stack(config.stack, key=keys[1]),
        Heads(config.heads, config.embeddings, model_dim, key=keys[2], init=init),
    )


def _replace(
    batch: Batch, logits: Float[Array, "B L V"], key: Key[Array, ""] | None
) -> tuple[Int[Array, "B L"], Bool[Array, "B L"]]:
    """Return the discriminator's input, and the positions where it differs from the text."""
    tokens = batch.encoder_input_tokens
    if batch.loss_weights is None:
        return tokens, jnp.zeros(tokens.shape, bool)
    # Drawing is not differentiable: the generator learns from its own targets alone.
    drawn = jax.random.categorical(jax.random.key(0) if key is None else key, jax.lax.stop_gradient(logits))
    is_target = batch.loss_weights > 0
    tokens = jnp.where(is_target, drawn.astype(tokens.dtype), tokens)
    return tokens, is_target & (tokens != batch.target_tokens)


def _measures(
    batch: Batch, is_detected: Bool[Array, "B L"], is_replaced: Bool[Array, "B L"], real: Bool[Array, "B L"]
) -> dict[str, Measure]:
    detected, replaced = _count(real, is_detected), _count(real, is_replaced)
    right = _count(real, is_detected & is_replaced)
    targets = jnp.zeros(real.shape, bool) if batch.loss_weights is None else batch.loss_weights > 0
    return {
        "discriminator_precision": Measure(right, detected),
        "discriminator_recall": Measure(right, replaced),
        "replaced_share": Measure(replaced, _count(real, targets)),
    }


def _count(where: Bool[Array, "B L"], what: Array) -> Float[Array, ""]:
    return jnp.sum(jnp.where(where, what, 0), dtype=jnp.float32)
