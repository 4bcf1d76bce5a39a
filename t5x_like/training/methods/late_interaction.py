"""Late interaction: a vector of each token, and texts of a pair whose tokens find each other."""

from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp

from t5x_like.config_class import config_class
from t5x_like.model.families.family import ExtraLoss, Family, Measure, predict
from t5x_like.model.multiple_choice import num_choices
from t5x_like.model.parameters import ModelConfig
from t5x_like.retrieval.max_sim import (
    PROJECTION,
    PROJECTION_DIM,
    QUERY_LENGTH,
    augment_queries,
    counted_tokens,
    max_sim,
    unit_vectors,
)
from t5x_like.text.batches.loader import Loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.vocabularies.tokenizer import Tokenizer
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.method import LossContext, OwnLossMethod
from t5x_like.training.metrics import Totals
from t5x_like.training.microbatches import Memories, Microbatch


@config_class
class LateInteraction(OwnLossMethod):
    """Each example has a query, the document that answers it, and perhaps further ones that don't (hard negatives).

    A score sums, over the query's tokens, the cosine with the most similar token of the document (Khattab and Zaharia
    2020, ColBERT, https://arxiv.org/abs/2004.12832). The loss is the cross entropy of the own document among those that
    it is compared with. With microbatches, each one has its own negatives.

    A task reads such examples by ``MultipleChoice(choices=("{query}", "{answer}", "{other}"), keeps_unlabeled=True)``.
    The model's ``task`` is "token_classification"; its ``num_labels`` is ``dim``.

    Attributes:
      dim: Width of the vectors.
      query_length: Tokens of a query that is filled up with mask tokens; 0 fills up none.
      mask_token_id: Id of the vocabulary's mask token, which fills up queries.
      ignored_ids: Ids whose vectors documents leave out: those of punctuation in the paper, for a vocabulary
        ``max_sim.punctuation_ids``.
      in_batch_negatives: Compare with the documents of all examples of the batch; otherwise only with those of the
        example, as in the paper's pairwise softmax.
      temperature: Divides the scores.
      margin: Stream with a teacher's score of the document minus that of the first hard negative, which the task
        declares; ``None`` for none.
      margin_weight: Weight of the squared difference of the model's margin from the teacher's (Hofstätter et al. 2020,
        https://arxiv.org/abs/2010.02666).
    """

    dim: int = PROJECTION_DIM
    query_length: int = QUERY_LENGTH
    mask_token_id: int | None = None
    ignored_ids: tuple[int, ...] = ()
    in_batch_negatives: bool = True
    temperature: float = 1.0
    margin: str | None = None
    margin_weight: float = 1.0

    measures: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "margin_error")
    learns_unlabeled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise ValueError(f"dim is {self.dim}; give the width of the vectors, such as 128")
        if not self.temperature > 0:
            raise ValueError(f"temperature is {self.temperature}; give a positive number, such as 1.0")
        if self.margin_weight < 0:
            raise ValueError(f"margin_weight is {self.margin_weight}; give 0 or more")
        if self.query_length < 0:
            raise ValueError(f"query_length is {self.query_length}; give 0 or more")
        if self.query_length and self.mask_token_id is None:
            raise ValueError(
                "queries are filled up with mask tokens: give mask_token_id, which is 103 in BERT's vocabulary, or "
                "query_length=0"
            )
        if self.loss != LossConfig(z_loss=self.loss.z_loss):
            raise ValueError(
                "LateInteraction has no loss of target tokens or labels; leave the options of loss out"
            )

    def streams(self) -> Sequence[str]:
        """Return the stream of a teacher's margins, if there is one."""
        return () if self.margin is None else (self.margin,)

    def model_head(self, head: tuple[str, int, str | None]) -> tuple[str, int, str | None]:
        """Return the head of the projection."""
        return (PROJECTION, self.dim, None)

    def check(self, model: ModelConfig, loader: Loader, train: LoaderConfig) -> None:
        """Check that each example has at least two texts, and that ids are those of the vocabulary."""
        if loader.head is None or loader.head[0] != "multiple_choice":
            raise ValueError(
                f"LateInteraction compares the texts of an example, and mixture {train.mixture!r} has one text in "
                "each; give its task head=MultipleChoice(choices=('{query}', '{answer}'), keeps_unlabeled=True)"
            )
        num_texts = loader.num_rows_of_example
        if num_texts < 3 and (self.margin is not None or not self.in_batch_negatives):
            needs = "margin" if self.margin is not None else "in_batch_negatives=False"
            raise ValueError(
                f"{needs} needs a hard negative in each example, and those of mixture {train.mixture!r} have "
                f"{num_texts} texts; name one by a third choice"
            )
        tokenizer = loader.vocabulary
        if self.query_length and isinstance(tokenizer, Tokenizer):
            mask_id = tokenizer.special.mask
            if mask_id != self.mask_token_id:
                has = "no mask token" if mask_id is None else f"the mask token {mask_id}"
                raise ValueError(
                    f"mask_token_id is {self.mask_token_id}, and the vocabulary has {has}; give that, or query_length=0"
                )

    def compute_loss(
        self, model: Family, microbatch: Microbatch, context: LossContext
    ) -> tuple[jax.Array, tuple[Totals, Memories]]:
        """Return the mean loss of the examples, and how often a document has its query's highest score."""
        batch = microbatch.batch
        tokens_BCL, real_BCL = batch.encoder_input_tokens, batch.encoder_segment_ids > 0
        is_example = jnp.all(jnp.any(real_BCL[:, :2], axis=-1), axis=-1).astype(jnp.float32)
        queries, are_of_queries = tokens_BCL[:, 0], real_BCL[:, 0]
        if self.query_length:
            assert self.mask_token_id is not None
            queries, are_of_queries = augment_queries(
                queries, are_of_queries, length=self.query_length, mask_id=self.mask_token_id
            )
        read = batch._replace(
            encoder_input_tokens=tokens_BCL.at[:, 0].set(queries),
            encoder_segment_ids=batch.encoder_segment_ids.at[:, 0].set(are_of_queries.astype(jnp.int32)),
            encoder_positions=None,
        )
        predictions = predict(model, read, dropout_key=context.dropout_key)
        outputs = unit_vectors((predictions.heads or {})[PROJECTION])
        vectors = outputs.reshape(*tokens_BCL.shape, -1)
        counted = counted_tokens(tokens_BCL[:, 1:], real_BCL[:, 1:], self.ignored_ids)
        scores = scores_of_documents(vectors, are_of_queries, counted)
        losses, is_best = ranking_losses(
            scores / self.temperature,
            jnp.any(real_BCL[:, 1:], axis=-1),
            in_batch_negatives=self.in_batch_negatives,
        )
        error = jnp.zeros(())
        weights = is_example
        divisor = jnp.maximum(jnp.sum(weights), 1e-9)
        total = jnp.sum(losses * weights)
        if self.margin is not None:
            assert batch.declared is not None
            errors, has_margin = margin_errors(scores, batch.declared[self.margin], num_choices(batch) - 1)
            error = jnp.sum(errors * weights * has_margin)
            total = total + self.margin_weight * error
        loss = ExtraLoss(total, 1.0, divisor, divisor * context.normalizers.parts)
        measures = {
            "accuracy": Measure(jnp.sum(is_best * weights), divisor),
            "margin_error": Measure(error, divisor),
        }
        own = predictions._replace(
            extra_losses={**(predictions.extra_losses or {}), "loss": loss},
            measures={**(predictions.measures or {}), **measures},
        )
        return self.own_total(own, microbatch, context)


def scores_of_documents(vectors: jax.Array, are_of_queries: jax.Array, counted: jax.Array) -> jax.Array:
    """Return the score of each example's query with the documents of all examples, float32 [B, B * (C - 1)].

    Args:
      vectors: Vectors of length 1, [B, C, L, D]; the first text is the query.
      are_of_queries: Tokens of queries that count, [B, L].
      counted: Tokens of documents that count, [B, C - 1, L].
    """
    length, dim = vectors.shape[2:]
    documents = vectors[:, 1:].reshape(-1, length, dim)
    return max_sim(vectors[:, 0], are_of_queries, documents, counted.reshape(-1, length))


def ranking_losses(
    scores: jax.Array, are_texts: jax.Array, *, in_batch_negatives: bool
) -> tuple[jax.Array, jax.Array]:
    """Return the cross entropy of each example's first document, and 1 where it has the highest score: [B] each.

    Args:
      scores: Scores with all documents, [B, B * N].
      are_texts: False for documents that only fill up an example, [B, N].
      in_batch_negatives: Compare with the documents of all examples, not only of the same.
    """
    num_examples, num_documents = are_texts.shape
    example = jnp.arange(num_examples)
    is_compared = jnp.broadcast_to(are_texts.reshape(1, -1), scores.shape)
    if not in_batch_negatives:
        is_compared &= (jnp.arange(scores.shape[1]) // num_documents)[None] == example[:, None]
    compared = jnp.where(is_compared, scores, -1e9)
    own = example * num_documents
    losses = -jnp.take_along_axis(jax.nn.log_softmax(compared, axis=-1), own[:, None], axis=-1)[:, 0]
    return losses, (jnp.argmax(compared, axis=-1) == own).astype(jnp.float32)


def margin_errors(scores: jax.Array, margins: jax.Array, num_documents: int) -> tuple[jax.Array, jax.Array]:
    """Return the squared differences of margins from a teacher's, and 1 where there is a margin: [B] each.

    Args:
      scores: Scores with all documents, [B, B * N].
      margins: A teacher's margins of the first document over the second, [B]; not-a-number where there is none.
      num_documents: Number of documents of an example, N.
    """
    own = jnp.arange(len(scores)) * num_documents
    pairs = jnp.take_along_axis(scores, own[:, None] + jnp.arange(2)[None], axis=-1)
    has_margin = jnp.isfinite(margins)
    differences = pairs[:, 0] - pairs[:, 1] - jnp.where(has_margin, margins, 0.0)
    return jnp.where(has_margin, jnp.square(differences), 0.0), has_margin.astype(jnp.float32)
