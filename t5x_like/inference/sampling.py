"""Greedy decoding, and sampling with temperature, top-k and top-p."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from t5x_like.inference.decodable import Cache, Step, check_length, is_any_of, log_probabilities
from t5x_like.inference.logits_processors import LogitsProcessors
from t5x_like.inference.unfinished_rows import KeepInputs, decode_until_done
from t5x_like.model.layers.masks import MASKED
from t5x_like.model.layers.top_k import argmax
from t5x_like.model.layers.top_k import top_k as find_top_k
from t5x_like.nested_values import one_or_several

_DRAWN_TOGETHER = 128  # tokens of a block


class Sample(NamedTuple):
    """One continuation of each row.

    Attributes:
      tokens: int32 [B, max_new_tokens], padded after the end.
      log_probs: float32 [B], log-likelihood under the model, the end included, without processors, temperature and
        truncation.
    """

    tokens: Array
    log_probs: Array


class Drawn(NamedTuple):
    """Continuations so far; each field but the cache has an entry for each row.

    Attributes:
      last: int32 [B], the token that is read next.
      ended: bool [B], True after an end or the last token.
      counts: int32 [B], number of tokens.
      limits: int32 [B], the most tokens.
      tokens: int32 [B, L], padded after the end.
      before: int32 [B, M], tokens before the first one, for processors; no columns without any.
      log_probs: float32 [B], see ``Sample``.
      draws: Sampling settings.
      cache: Cache after the tokens before ``last``.
    """

    last: Array
    ended: Array
    counts: Array
    limits: Array
    tokens: Array
    before: Array
    log_probs: Array
    draws: "RowDraws"
    cache: Cache


class RowDraws(NamedTuple):
    """Sampling settings of each row.

    Attributes:
      keys: Data of random keys, uint32 [B, K].
      temperature: float32 [B]; 0 takes the best token.
      top_k: int32 [B]; 0 keeps all tokens.
      top_p: float32 [B]; 1 keeps all tokens.
    """

    keys: Array
    temperature: Array
    top_k: Array
    top_p: Array


def sample(
    step: Step,
    cache: Cache,
    *,
    start_tokens: Int[Array, " B"],
    max_new_tokens: int,
    eos_token_id: int | tuple[int, ...] | list[int] | None,
    pad_token_id: int = 0,
    key: Key[Array, "*rows"] | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    processors: LogitsProcessors | None = None,
    before: Int[Array, "B M"] | None = None,
    keep_inputs: KeepInputs | None = None,
    num_last_inputs: int | None = None,
) -> Sample:
    """Continue every row of the cache until its end or ``max_new_tokens``.

    Draws of a row depend on its key only, or on the common key and the row's index.

    Args:
      step: Reads one token of each row and scores the next.
      cache: Cache of the prompts.
      start_tokens: Token that each row reads first.
      max_new_tokens: Limit of the length.
      eos_token_id: Ids that end a sequence; ``None`` for none.
      pad_token_id: Id after the end.
      key: Random key, or one for each row (``row_keys``); without one decoding is greedy.
      temperature: Divides logits; 0 for greedy decoding.
      top_k: Keeps the best tokens (Fan et al. 2018, https://arxiv.org/abs/1805.04833); ``None`` for all.
      top_p: Then keeps the smallest set with this probability (Holtzman et al. 2020,
        https://arxiv.org/abs/1904.09751); ``None`` for all.
      processors: Changes of logits before all these; ``None`` for none.
      before: Tokens that processors count before the first decoded one; see ``LogitsProcessors.history_before``.
      keep_inputs: See ``decode_until_done``.
      num_last_inputs: See ``decode_until_done``.
    """
    check_length(max_new_tokens)
    check_temperature(temperature)
    num_rows = start_tokens.shape[0]
    if key is None:
        temperature, key = 0.0, jax.random.key(0)
    if not key.ndim:
        key = row_keys(key, num_rows)

    def choose(logits_BV: Array, drawn: Drawn) -> Array:
        if temperature == 0:
            return argmax(logits_BV)
        logits_BV = truncate_logits(_drawable(logits_BV) / temperature, top_k=top_k, top_p=top_p)
        return draw_tokens(_step_keys(drawn), logits_BV)

    def advance(drawn: Drawn) -> Drawn:
        return next_tokens(
            step,
            drawn,
            choose,
            eos_ids=one_or_several(eos_token_id),
            pad_token_id=pad_token_id,
            processors=processors,
        )

    start = Drawn(
        last=start_tokens.astype(jnp.int32),
        ended=jnp.zeros(num_rows, bool),
        counts=jnp.zeros(num_rows, jnp.int32),
        limits=jnp.full(num_rows, max_new_tokens, jnp.int32),
        tokens=jnp.full((num_rows, max_new_tokens), pad_token_id, jnp.int32),
        before=jnp.zeros((num_rows, 0), jnp.int32) if before is None else before,
        log_probs=jnp.zeros(num_rows, jnp.float32),
        draws=RowDraws(
            keys=jax.random.key_data(key),
            temperature=jnp.full(num_rows, temperature, jnp.float32),
            top_k=jnp.full(num_rows, top_k or 0, jnp.int32),
            top_p=jnp.full(num_rows, 1.0 if top_p is None else top_p, jnp.float32),
        ),
        cache=cache,
    )
    drawn = decode_until_done(
        lambda drawn: ~drawn.ended.all(),
        advance,
        start,
        ended=lambda drawn: drawn.ended,
        keep_inputs=keep_inputs,
        num_last_inputs=num_last_inputs,
    )
    return Sample(drawn.tokens, drawn.log_probs)


def next_tokens(
    step: Step,
    drawn: Drawn,
    choose: Callable[[Array, Drawn], Array],
    *,
    eos_ids: tuple[int, ...],
    pad_token_id: int,
    processors: LogitsProcessors | None,
) -> Drawn:
    """Return continuations with one more token in each row that has not ended.

    Args:
      step: Reads one token of each row and scores the next.
      drawn: Continuations so far.
      choose: Returns the next token of each row, given its scores.
      eos_ids: Ids that end a sequence.
      pad_token_id: Id after the end.
      processors: Changes of the scores; ``None`` for none.
    """
    logits_BV, cache = step(drawn.last, drawn.cache)
    changed_BV = logits_BV
    if processors is not None:
        changed_BV = processors(
            logits_BV, drawn.before, drawn.tokens, drawn.counts, eos_ids=eos_ids, lengths=drawn.limits
        )
    next_B = choose(changed_BV, drawn)
    log_prob_B = jnp.take_along_axis(log_probabilities(logits_BV), next_B[:, None], 1)[:, 0]
    next_B = jnp.where(drawn.ended, pad_token_id, next_B)
    counts = jnp.where(drawn.ended, drawn.counts, drawn.counts + 1)
    places = jnp.where(drawn.ended, drawn.tokens.shape[1], drawn.counts)
    return drawn._replace(
        last=next_B,
        ended=drawn.ended | is_any_of(next_B, eos_ids) | (counts >= drawn.limits),
        counts=counts,
        tokens=drawn.tokens.at[jnp.arange(len(places)), places].set(next_B, mode="drop"),
        log_probs=drawn.log_probs + jnp.where(drawn.ended, 0.0, log_prob_B),
        cache=cache,
    )


def choose_by_row(logits: Float[Array, "B V"], drawn: Drawn) -> Int[Array, " B"]:
    """Return the next token of each row, by the row's own temperature and truncation.

    Args:
      logits: Scores of the next token.
      drawn: Continuations so far.
    """
    draws = drawn.draws
    is_drawn = (draws.temperature > 0) & ~drawn.ended
    is_cut = is_drawn & ((draws.top_k > 0) | (draws.top_p < 1))

    def draw(logits: Array) -> Array:
        scaled = _drawable(logits) / jnp.where(is_drawn, draws.temperature, 1.0)[:, None]
        cut = jax.lax.cond(
            is_cut.any(), lambda logits: _truncate_rows(logits, draws), lambda logits: logits, scaled
        )
        return jnp.where(is_drawn, draw_tokens(_step_keys(drawn), cut), argmax(logits))

    return jax.lax.cond(is_drawn.any(), draw, argmax, logits)


def _step_keys(drawn: Drawn) -> Key[Array, " B"]:
    """Return the keys of the next draws, which depend on the row's key and place alone."""
    return jax.vmap(jax.random.fold_in)(jax.random.wrap_key_data(drawn.draws.keys), drawn.counts)


def _drawable(logits: Array) -> Array:
    """No temperature is so high that ids which only pad the vocabulary are drawn."""
    return jnp.where(logits > MASKED, logits, -jnp.inf)


def _truncate_rows(logits: Float[Array, "B V"], draws: RowDraws) -> Float[Array, "B V"]:
    """Return logits after ``truncate_logits``, with each row's own settings."""
    sorted_BV = jnp.sort(logits, axis=-1, descending=True)
    last_B = jnp.where(draws.top_k > 0, jnp.minimum(draws.top_k, logits.shape[-1]), logits.shape[-1]) - 1
    worst_B1 = jnp.take_along_axis(sorted_BV, last_B[:, None], axis=1)
    sorted_BV = jnp.where(sorted_BV < worst_B1, -jnp.inf, sorted_BV)
    probs_BV = jax.nn.softmax(sorted_BV, axis=-1)
    stays_BV = jnp.cumsum(probs_BV, axis=-1) - probs_BV < draws.top_p[:, None]
    worst_B1 = jnp.where(stays_BV & (sorted_BV >= worst_B1), sorted_BV, jnp.inf).min(-1, keepdims=True)
    return jnp.where(logits < worst_B1, -jnp.inf, logits)


def row_keys(key: Key[Array, ""], num_rows: int) -> Key[Array, " B"]:
    """Return the key of each row.

    Args:
      key: Key of all rows.
      num_rows: Number of rows.
    """
    return jax.vmap(lambda row: jax.random.fold_in(key, row))(jnp.arange(num_rows))


def draw_tokens(keys: Key[Array, " B"], logits: Float[Array, "B V"]) -> Int[Array, " B"]:
    """Return a token of each row, drawn from the softmax of its logits.

    Two random numbers a row choose a block of tokens, and a token of it. ``jax.random.categorical`` draws one for each
    token of the vocabulary, which takes longer than a small model's step.

    Args:
      keys: Random key of each row.
      logits: Scores; minus infinity for tokens that are never drawn.
    """
    num_rows, vocab_size = logits.shape
    weights_BV = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True)).astype(jnp.float32)
    padded_BV = jnp.pad(weights_BV, ((0, 0), (0, -vocab_size % _DRAWN_TOGETHER)))
    weights_BNW = padded_BV.reshape(num_rows, -1, _DRAWN_TOGETHER)
    uniform_B2 = jax.vmap(lambda key: jax.random.uniform(key, (2,)))(keys)
    block_B = _draw(uniform_B2[:, 0], jnp.sum(weights_BNW, axis=-1))
    weights_BW = jnp.take_along_axis(weights_BNW, block_B[:, None, None], axis=1)[:, 0]
    return block_B * _DRAWN_TOGETHER + _draw(uniform_B2[:, 1], weights_BW)


def _draw(uniform_B: Array, weights_BK: Array) -> Array:
    """Return an index of each row by numbers of [0, 1), int32 [B], with probabilities as the weights."""
    sums_BK = jnp.cumsum(weights_BK, axis=-1)
    drawn_B = jnp.sum(sums_BK <= uniform_B[:, None] * sums_BK[:, -1:], axis=-1, dtype=jnp.int32)
    drawn_B = jnp.minimum(drawn_B, weights_BK.shape[-1] - 1)
    # Sums are rounded, so that an index of weight 0 might have a share of them.
    has_weight_B = jnp.take_along_axis(weights_BK, drawn_B[:, None], axis=-1)[:, 0] > 0
    return jnp.where(has_weight_B, drawn_B, argmax(weights_BK))


def check_temperature(temperature: float) -> None:
    """Raise ValueError unless a temperature is 0 or a positive finite number."""
    if not 0 <= temperature < math.inf:
        raise ValueError(
            f"temperature is {temperature}; give 0 for greedy decoding or a positive, finite number"
        )


def check_truncation(top_k: int | None, top_p: float | None) -> None:
    """Raise ValueError for a truncation that keeps no token, or more than all.

    Args:
      top_k: Number of best tokens to keep; ``None`` for all.
      top_p: Probability that the tokens to keep have together; ``None`` for all.
    """
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k is {top_k}; keep at least 1 token, or None for all")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}; it is a probability above 0, or None for all")


def truncate_logits(
    logits: Float[Array, "B V"], *, top_k: int | None = None, top_p: float | None = None
) -> Float[Array, "B V"]:
    """Set logits of unlikely tokens to minus infinity.

    Equal logits are kept together; the best token always stays.

    Args:
      logits: Scores of the next token.
      top_k: Number of best tokens to keep; None for all.
      top_p: The fewest of those that have this probability together are kept; None for all.
    """
    check_truncation(top_k, top_p)
    if top_k is not None:
        worst_kept = find_top_k(logits, min(top_k, logits.shape[-1]))[0][:, -1:]
        logits = jnp.where(logits < worst_kept, -jnp.inf, logits)
    if top_p is not None:
        sorted_BV = jnp.sort(logits, axis=-1, descending=True)
        probs_BV = jax.nn.softmax(sorted_BV, axis=-1)
        # A token stays while the better ones hold less than top_p together.
        stays_BV = jnp.cumsum(probs_BV, axis=-1) - probs_BV < top_p
        worst_kept = jnp.where(stays_BV, sorted_BV, jnp.inf).min(-1, keepdims=True)
        logits = jnp.where(logits < worst_kept, -jnp.inf, logits)
    return logits
