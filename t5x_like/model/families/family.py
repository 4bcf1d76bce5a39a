"""Interface of model families: a function from a batch to predictions."""

from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.batch import Batch
from t5x_like.model.families.segment_memory import Memory
from t5x_like.model.heads import UncomputedLogits
from t5x_like.model.layers.routing_sums import RoutingSums
from t5x_like.model.multiple_choice import flatten_choices

# Streams that a family of models reads, and the order in which it reads them. Each class has it as ``family_name``.
FamilyName = Literal[
    "encoder",
    "decoder",
    "encoder_decoder",
    "recurrent",
    "speech_encoder_decoder",
    "speech_pretraining",
    "two_stream",
]


class ExtraLoss(NamedTuple):
    """A loss next to that of the targets: its mean, times ``weight``, is minimized.

    Attributes:
      total: Sum over tokens or sequences.
      weight: Factor of the mean.
      count: Number of tokens or sequences; ``None`` for the real tokens of the targets' stream.
      divisor: Number of tokens or sequences of the whole batch, of which this may be a part. ``None`` is for the
        real tokens of the targets' stream.
      unlabeled: Without ``divisor``, the mean is over the real tokens of rows without targets alone.
    """

    total: Float[Array, ""]
    weight: float
    count: Float[Array, ""] | None = None
    divisor: Float[Array, ""] | None = None
    unlabeled: bool = False


class Measure(NamedTuple):
    """A logged mean, ``total / count``, where both are summed over batches first."""

    total: Float[Array, ""]
    count: Float[Array, ""]


class Predictions(NamedTuple):
    """Outputs of a model; ``None`` for parts that it lacks.

    Attributes:
      logits: Float32 scores of a vocabulary that may be padded to a round size; not computed yet where a loss computes
        them in chunks (see ``defer_logits``), of samples or of several predictions.
      encoder_output: The encoder's output.
      decoder_output: The decoder's output.
      pooled: One vector for each sequence.
      heads: Scores of other heads by name.
      routing: Losses and statistics of the routers of experts.
      memory: Memory for the following batch.
      extra_losses: Further losses by name.
      measures: Further logged means by name; one that ends with ``cross_entropy`` is logged with its perplexity.
    """

    logits: Float[Array, "B L V"] | UncomputedLogits | None = None
    encoder_output: Float[Array, "B M D"] | None = None
    decoder_output: Float[Array, "B L D"] | None = None
    pooled: Float[Array, "B E"] | None = None
    heads: dict[str, Array] | None = None
    routing: RoutingSums | None = None
    memory: Memory | None = None
    extra_losses: dict[str, ExtraLoss] | None = None
    measures: dict[str, Measure] | None = None


@runtime_checkable
class Family(Protocol):
    """A model. Without a ``dropout_key`` it is deterministic; ``named_activations`` says what it names inside."""

    def __call__(self, batch: Batch, *, dropout_key: Key[Array, ""] | None = None) -> Predictions: ...


@runtime_checkable
class GenerativeModel(Protocol):
    """A model that writes texts."""

    def prefill(
        self, prompts: Int[Array, "B M"], mask: Int[Array, "B M"], *, max_new_tokens: int, start_id: int
    ) -> tuple[Int[Array, " B"], object]:
        """Return the first token to read in generation, and the cache after the prompts."""
        ...

    def decode_step(self, tokens: Int[Array, " R"], cache: object) -> tuple[Float[Array, "R V"], object]:
        """Read one token of each row, and return scores of the next one and the updated cache.

        Args:
          tokens: Next token of each row.
          cache: Cache after the tokens before it.
        """
        ...


def can_decode(model: object) -> bool:
    """Return whether a model writes texts token by token."""
    return isinstance(model, GenerativeModel)


class PromptContinuation:
    """Generation by a model that reads its prompts into a cache and continues them."""

    start_cache: Any

    def prefill(
        self, prompts: Int[Array, "B M"], mask: Int[Array, "B M"], *, max_new_tokens: int, start_id: int
    ) -> tuple[Int[Array, " B"], Any]:
        """Return the first token to read in generation, and the cache after the prompts.

        Args:
          prompts: Token ids.
          mask: 1 for real tokens.
          max_new_tokens: Length of the continuations, at most.
          start_id: First id that an encoder-decoder's decoder reads, or the mask of a generative encoder.
        """
        del start_id
        return self.start_cache(prompts, mask, max_new_tokens=max_new_tokens)


def as_decoder_batch(batch: Batch) -> Batch:
    """Return a batch for a decoder; rows for a head, which have the encoder's stream only, become the decoder's."""
    if batch.decoder_input_tokens is not None:
        return batch
    return batch._replace(
        encoder_input_tokens=None,
        encoder_segment_ids=None,
        encoder_positions=None,
        decoder_input_tokens=batch.encoder_input_tokens,
        decoder_segment_ids=batch.encoder_segment_ids,
        decoder_positions=batch.encoder_positions,
    )


def with_decoder_stream(batch: Batch, start_id: int, *, rereads_all: bool = False) -> Batch:
    """Return a batch for an encoder-decoder; where it has no decoder's stream, the decoder reads the input again.

    It is shifted right (Lewis et al. 2020, §3.1).

    Args:
      batch: The batch.
      start_id: First id that the decoder reads.
      rereads_all: The stream ends where the decoder has read the last token, if the row has room for that.
    """
    if batch.decoder_input_tokens is not None:
        return batch
    shifted = jnp.roll(batch.encoder_input_tokens, 1, axis=1)
    segment_ids = batch.encoder_segment_ids
    if rereads_all and segment_ids is not None:
        segment_ids = jnp.roll(segment_ids, 1, axis=1).at[:, 0].set(1)
    return batch._replace(
        decoder_input_tokens=shifted.at[:, 0].set(start_id),
        decoder_segment_ids=segment_ids,
        decoder_positions=batch.encoder_positions,
    )


def unlabeled_tokens(batch: Batch) -> Bool[Array, "*B L"]:
    """Return True for real tokens of rows without any target, in the stream that targets belong to."""
    if batch.decoder_input_tokens is None:
        tokens, segment_ids = batch.encoder_input_tokens, batch.encoder_segment_ids
    else:
        tokens, segment_ids = batch.decoder_input_tokens, batch.decoder_segment_ids
    tokens = batch.target_tokens if tokens is None else tokens  # of speech, which has no tokens
    real = jnp.ones(tokens.shape, bool) if segment_ids is None else segment_ids > 0
    if batch.loss_weights is None:
        return real
    return real & ~jnp.any(batch.loss_weights > 0, axis=-1, keepdims=True)


def predict(
    model: Family, batch: Batch, *, dropout_key: Key[Array, ""] | None = None, memory: Memory | None = None
) -> Predictions:
    """Call a model on any batch.

    Args:
      model: The model.
      batch: Streams [B, L], or [B, C, L] for multiple choice, where each choice becomes a row.
      dropout_key: ``None`` for no dropout.
      memory: Memory of the batch before, for models that have one.
    """
    options: dict[str, Any] = {} if memory is None else {"memory": memory}
    return model(flatten_choices(batch), dropout_key=dropout_key, **options)


@runtime_checkable
class ModelWithMeasures(Protocol):
    """A model with further losses or logged means; ``measured`` has all their names."""

    @property
    def measured(self) -> tuple[str, ...]:
        """Names of the losses and means."""
        ...
