"""Encoders of tokens and of the entities that they mention (Zhang et al. 2019, https://arxiv.org/abs/1905.07129)."""

from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.batch import ENTITIES, ENTITY_TARGETS, Batch
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.families.encoder import encoder_context
from t5x_like.model.families.family import FamilyName, Predictions
from t5x_like.model.families.virtual_tokens import prepend, with_virtual_tokens
from t5x_like.model.heads import HEADS_SITE, Heads, HeadsConfig
from t5x_like.model.layers.dropout import fold
from t5x_like.model.layers.embedding import Embedding, Embeddings, EmbeddingsConfig
from t5x_like.model.layers.entity_stack import EntityStack, EntityStackConfig, FusedStreams
from t5x_like.model.layers.masks import MASKED
from t5x_like.model.layers.stack import Stack, StackConfig

# Head of the denoising entity autoencoder: its scores are products with the vectors of entities.
ENTITY_HEAD = "entity"


@config_class
class EntityEncoderConfig:
    """A stack that reads tokens (T-encoder), one that reads tokens and entities (K-encoder), and heads.

    Attributes:
      embeddings: Input embeddings of tokens.
      stack: Blocks of the T-encoder.
      entity_stack: Blocks of the K-encoder.
      num_entities: Rows of the table of entities' vectors.
      heads: Heads on the tokens' output. One named ``"entity"`` has ``entity_dim`` outputs for each token.
      compute_dtype: Type of activations. Weights are float32.
    """

    embeddings: EmbeddingsConfig
    stack: StackConfig
    entity_stack: EntityStackConfig
    num_entities: int
    heads: HeadsConfig = HeadsConfig()
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    def build(self, key: Key[Array, ""]) -> "EntityEncoder":
        """Build the model with fresh weights drawn from ``key``."""
        return EntityEncoder(self, key=key)


class EntityEncoder(nnx.Module):
    """Reads a batch's encoder stream, and the declared stream ``entities``: an entity for each token, or -1.

    An entity belongs to the first token of its mention. Without the stream no token has one.
    """

    family_name: ClassVar[FamilyName] = "encoder"

    def __init__(self, config: EntityEncoderConfig, *, key: Key[Array, ""]):
        keys = jax.random.split(key, 5)
        model_dim, init = config.stack.model_dim, config.stack.blocks[0].init
        self.embedding = Embeddings(config.embeddings, model_dim, key=keys[0])
        self.encoder = Stack(config.stack, key=keys[1])
        self.heads = Heads(config.heads, config.embeddings, model_dim, key=keys[2], init=init)
        self.entity_encoder = EntityStack(config.entity_stack, key=keys[3])
        self.entities = Embedding(
            config.num_entities,
            config.entity_stack.entity_dim,
            key=keys[4],
            stddev=config.embeddings.stddev,
            axes=("entities", "embed_factor"),
        )
        self.config = config

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Predictions:
        """Return scores of every position, and of pooled sequences.

        With the stream ``entity_targets``, scores of the head ``"entity"`` are those of ``entity_scores``.
        """
        num_virtual = self.embedding.num_virtual_tokens
        streams = {} if batch.declared is None else batch.declared.token
        entities = streams.get(ENTITIES)
        entities = jnp.full_like(batch.encoder_input_tokens, -1) if entities is None else entities
        entities = prepend(-1, jnp.asarray(entities), num_virtual)
        has_entity = entities >= 0
        whole = with_virtual_tokens(batch, num_virtual, "encoder")
        dtype = jnp.dtype(self.config.compute_dtype)
        embedded = self.embedding(
            whole.encoder_input_tokens,
            dtype=dtype,
            positions=whole.encoder_positions,
            token_types=whole.token_types,
            task_types=whole.task_types,
        )
        context = encoder_context(whole)
        with named_activations.scope("encoder", num_virtual=num_virtual):
            encoded = self.encoder(embedded, context, dropout_key=dropout_key)
        context = self.encoder.prepared(encoded.output, context, is_dropping=dropout_key is not None)
        vectors = jnp.where(
            has_entity[..., None], self.entities(jnp.where(has_entity, entities, 0), dtype), 0
        )
        with named_activations.scope("entity_encoder", num_virtual=num_virtual):
            output = self.entity_encoder(
                FusedStreams(encoded.output, vectors),
                context,
                has_entity,
                dropout_key=fold(dropout_key, HEADS_SITE + 1),
            ).tokens[:, num_virtual:]
        logits, pooled, scores = self.heads(
            output,
            self.embedding.tokens,
            batch.encoder_segment_ids,
            dropout_key=fold(dropout_key, HEADS_SITE),
        )
        targets, linear = streams.get(ENTITY_TARGETS), scores.pop(ENTITY_HEAD, None)
        if targets is not None and linear is not None:
            targets = jnp.asarray(targets)
            rows = self.entities(jnp.maximum(targets, 0), jnp.dtype(jnp.float32))
            scores[ENTITY_HEAD] = entity_scores(linear, rows, targets)
        return Predictions(
            logits=logits,
            encoder_output=output,
            pooled=pooled,
            heads=scores,
            routing=encoded.routing,
        )


def entity_scores(
    linear: Float[Array, "B L E"], vectors: Float[Array, "B L E"], entities: Int[Array, "B L"]
) -> Float[Array, "B L L"]:
    """Return the score of each token for the entity at each place of its row (Zhang et al. 2019, §3.5).

    Places without an entity, and those whose entity occurs before in the row, are never chosen.

    Args:
      linear: Linear function of each token's output.
      vectors: Vector of the entity at each place.
      entities: Entity at each place; -1 for none.
    """
    scores_BLL = jnp.einsum("ble,bme->blm", linear, vectors, preferred_element_type=jnp.float32)
    return jnp.where(is_first_mention(entities)[:, None, :], scores_BLL, MASKED)


def is_first_mention(entities: Int[Array, "B L"]) -> Bool[Array, "B L"]:
    """Return True where an entity occurs for the first time in its row."""
    return (entities >= 0) & (first_mention(entities) == jnp.arange(entities.shape[1])[None])


def first_mention(entities: Int[Array, "B L"]) -> Int[Array, "B L"]:
    """Return the first place in the row that has the same entity."""
    return jnp.argmax(entities[:, :, None] == entities[:, None, :], axis=-1)
