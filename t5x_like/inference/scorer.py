"""Log-likelihoods of given targets: for ranking answers, perplexity and metrics over probabilities."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from t5x_like.batch import Batch, bucket_length
from t5x_like.inference.length_batches import Ids, pad_prompts, place_rows
from t5x_like.model import parameters
from t5x_like.model.heads import DeferredLogits, can_defer_logits, defer_logits
from t5x_like.model.layers.position_chunks import map_position_chunks
from t5x_like.model.layers.top_k import argmax
from t5x_like.model.parameters import Parameters
from t5x_like.partitioning.shard import replicated

_TARGET_MULTIPLE = 8  # targets are padded to this, so that few programs are compiled
_LOGITS_AT_ONCE = 2**26  # of all rows; 256 MiB in float32


class LikelihoodRequest(NamedTuple):
    """Ids of a prompt, and ids after it whose log-likelihood is wanted."""

    prompt: Ids
    target: Ids


class Likelihoods(NamedTuple):
    """Log-likelihoods of targets.

    Attributes:
      log_likelihoods: float64 [B], in nats.
      is_greedy: bool [B]; True where greedy decoding would generate the targets.
    """

    log_likelihoods: np.ndarray
    is_greedy: np.ndarray


class Scorer:
    """Scores targets with a model, compiled once for each shape.

    Args:
      graphdef: The model's structure.
      mesh: Devices.
      vocab_size: Ids of the vocabulary; padding of the model's word table is ignored.
    """

    def __init__(self, graphdef: nnx.GraphDef, mesh: Mesh, *, vocab_size: int):
        def score(params: Parameters, batch: Batch) -> tuple[jax.Array, jax.Array]:
            model = parameters.merge(graphdef, params)
            if can_defer_logits(model):
                defer_logits(model)
            chosen, is_most_likely = _score_tokens(model(batch).logits, batch.target_tokens, vocab_size)
            weighted = batch.loss_weights > 0
            sums = jnp.sum(jnp.where(weighted, chosen * batch.loss_weights, 0.0), axis=-1)
            return sums, (is_most_likely | ~weighted).all(axis=-1)

        self._mesh = mesh
        self._score = jax.jit(score, out_shardings=replicated(mesh))

    def __call__(self, params: Parameters, batch: Batch) -> Likelihoods:
        """Score each row's targets where ``loss_weights`` are above 0."""
        with jax.set_mesh(self._mesh):  # by which kernels are split
            sums, is_greedy = self._score(params, place_rows(batch, self._mesh))
        return Likelihoods(np.asarray(sums).astype(np.float64), np.asarray(is_greedy))


def _score_tokens(
    logits: jax.Array | DeferredLogits, targets: jax.Array, vocab_size: int
) -> tuple[jax.Array, jax.Array]:
    """Return the log-likelihood of each target [B, L], and whether it has the highest score."""
    if isinstance(logits, DeferredLogits):
        lm_head, table = logits.lm_head, logits.table
        length = max(_LOGITS_AT_ONCE // (len(targets) * vocab_size), 1)
        return map_position_chunks(
            lambda hidden, targets: _score_tokens(lm_head.logits(hidden, table), targets, vocab_size),
            (logits.hidden, targets),
            length,
        )
    logits = logits[..., :vocab_size].astype(jnp.float32)
    log_probs = jax.nn.log_softmax(logits, axis=-1)
    chosen = jnp.take_along_axis(log_probs, targets[..., None], axis=-1).squeeze(-1)
    return chosen, argmax(logits) == targets


def scoring_batch(
    requests: Sequence[LikelihoodRequest], *, is_decoder: bool, start_id: int, batch_size: int, limit: int
) -> Batch:
    """Return a batch of requests, in which targets have weight 1 and everything else 0.

    Args:
      requests: At most ``batch_size`` requests.
      is_decoder: A decoder reads the prompt before the target. An encoder-decoder encodes the prompt.
      start_id: Id that an encoder-decoder's decoder reads before the target.
      batch_size: Number of rows.
      limit: Longest bucket of tokens (see ``bucket_length``).
    """
    prompts, targets = (
        [np.asarray(ids, np.int32) for ids in column] for column in zip(*requests, strict=True)
    )
    if is_decoder:
        longest = max(len(prompt) + len(target) for prompt, target in zip(prompts, targets, strict=True)) - 1
        inputs = [np.concatenate(pair)[:-1] for pair in zip(prompts, targets, strict=True)]
        expected = [np.concatenate(pair)[1:] for pair in zip(prompts, targets, strict=True)]
        starts = [len(prompt) - 1 for prompt in prompts]
        return _decoder_batch(inputs, expected, starts, batch_size, bucket_length(longest, limit))
    length = bucket_length(max(map(len, prompts)), limit)
    tokens, mask = pad_prompts(prompts, length=length, batch_size=batch_size)
    longest = max(map(len, targets))
    length = -(-max(longest, 1) // _TARGET_MULTIPLE) * _TARGET_MULTIPLE
    inputs = [np.concatenate([[start_id], target[:-1]])[: len(target)] for target in targets]
    batch = _decoder_batch(inputs, targets, [0] * len(targets), batch_size, length)
    return batch._replace(encoder_input_tokens=tokens, encoder_segment_ids=mask)


def masked_scoring_batch(
    requests: Sequence[LikelihoodRequest], *, mask_id: int, batch_size: int, limit: int
) -> Batch:
    """Return a batch of requests for a generative encoder (see ``Encoder.decode_step``), scored in one pass.

    A row is the prompt, the target, and a mask for each token of the target, at its position. A mask attends to the
    prompt, to earlier tokens of the target and to itself; its prediction has weight 1.

    Args:
      requests: At most ``batch_size`` requests.
      mask_id: Id of the mask.
      batch_size: Number of rows.
      limit: Longest bucket of prompts in tokens (see ``bucket_length``).
    """
    longest = max(len(prompt) + 2 * len(target) for prompt, target in requests)
    length = bucket_length(longest, max(limit, longest))
    tokens, real, positions, types, expected = (np.zeros((batch_size, length), np.int32) for _ in range(5))
    weights = np.zeros((batch_size, length), np.float32)
    seen = np.zeros((batch_size, length, length), bool)
    real[:, 0] = 1  # a row with nothing real in it would give no number
    seen[:, 0, 0] = True
    for row, (prompt, target) in enumerate(requests):
        start, count = len(prompt), len(target)
        masks, end = start + count, start + 2 * count
        tokens[row, :end] = [*prompt, *target, *[mask_id] * count]
        positions[row, :end] = [*range(masks), *range(start, masks)]
        types[row, start:end] = 1
        real[row, :end] = 1
        expected[row, masks:end], weights[row, masks:end] = target, 1.0
        seen[row, :end, :start] = True
        seen[row, start:masks, start:masks] = np.tri(count, dtype=bool)
        seen[row, masks:end, start:masks] = np.tri(count, k=-1, dtype=bool)
        seen[row, masks:end, masks:end] = np.eye(count, dtype=bool)
    return Batch(
        encoder_input_tokens=tokens,
        encoder_segment_ids=real,
        encoder_positions=positions,
        token_types=types,
        attention_mask=seen,
        target_tokens=expected,
        loss_weights=weights,
    )


def masked_token_batch(
    rows: Sequence[tuple[Ids, int]], *, mask_id: int, offset: int, batch_size: int, limit: int
) -> Batch:
    """Return a batch of an encoder's rows, each with one masked token that is its only target.

    The sum over a text's tokens is its pseudo-log-likelihood (Salazar et al. 2020, section 2.2,
    https://arxiv.org/abs/1910.14659).

    Args:
      rows: At most ``batch_size`` rows: ids with their special ones, and the position to mask.
      mask_id: Id of the mask.
      offset: Positions from a mask back to its prediction: 0, or 1 for masked next-token prediction.
      batch_size: Number of rows.
      limit: Longest bucket of tokens (see ``bucket_length``).
    """
    length = bucket_length(max(len(ids) for ids, _ in rows), limit)
    tokens, real = pad_prompts([ids for ids, _ in rows], length=length, batch_size=batch_size)
    targets, weights = np.zeros_like(tokens), np.zeros(tokens.shape, np.float32)
    for row, (ids, position) in enumerate(rows):
        tokens[row, position] = mask_id
        targets[row, position - offset], weights[row, position - offset] = ids[position], 1.0
    return Batch(
        encoder_input_tokens=tokens,
        encoder_segment_ids=real,
        token_types=np.zeros_like(tokens),
        target_tokens=targets,
        loss_weights=weights,
    )


def _decoder_batch(
    inputs: Sequence[np.ndarray],
    targets: Sequence[np.ndarray],
    starts: Sequence[int],
    batch_size: int,
    length: int,
) -> Batch:
    """Return rows of inputs and targets; targets from ``starts`` on have weight 1."""
    tokens, real = pad_prompts(inputs, length=length, batch_size=batch_size)
    expected, _ = pad_prompts(targets, length=length, batch_size=batch_size)
    weights = np.zeros((batch_size, length), np.float32)
    for row, (read, start) in enumerate(zip(inputs, starts, strict=True)):
        weights[row, start : len(read)] = 1.0
    return Batch(
        decoder_input_tokens=tokens,
        decoder_segment_ids=real,
        target_tokens=expected,
        loss_weights=weights,
    )


def window_batch(
    windows: Sequence[tuple[np.ndarray, np.ndarray, int]], *, batch_size: int, length: int
) -> Batch:
    """Return a batch of windows over texts for a decoder.

    Args:
      windows: Inputs, the token after each, and the index from which on these are scored.
      batch_size: Number of rows.
      length: Length of rows.
    """
    inputs, targets, starts = zip(*windows, strict=True)
    return _decoder_batch(inputs, targets, starts, batch_size, length)
