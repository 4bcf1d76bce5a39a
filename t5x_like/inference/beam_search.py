"""Beam search with Hugging Face's rules, and a choice of length penalties.

Each step takes the best ``2 * num_beams`` continuations of a row. Those that end and rank among the first ``num_beams``
are finished; the row keeps the best of them by penalized score. The best others become its beams. A row is done when
its ``num_beams`` finished sequences can't be beaten any more.

Shape letters here: B rows, J beams of a row, C candidates of a row, L new tokens, V vocabulary.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from t5x_like.inference.decodable import (
    IMPOSSIBLE,
    Cache,
    Reorder,
    Step,
    check_length,
    is_any_of,
    log_probabilities,
)
from t5x_like.inference.logits_processors import LogitsProcessors
from t5x_like.inference.unfinished_rows import KeepInputs, decode_until_done
from t5x_like.model.layers.top_k import top_k
from t5x_like.nested_values import one_or_several


@dataclass(frozen=True)
class PowerLengthPenalty:
    """Divides scores by ``length ** power``: Hugging Face's ``length_penalty``.

    Attributes:
      power: Values above 0 favor long sequences.
    """

    power: float = 1.0

    def __call__(self, length: Array) -> Array:
        return length.astype(jnp.float32) ** self.power


@dataclass(frozen=True)
class T5LengthPenalty:
    """Divides scores by ``((5 + length) / 6) ** alpha`` (Wu et al. 2016, https://arxiv.org/abs/1609.08144).

    Attributes:
      alpha: T5 uses 0.6 for its long tasks (Raffel et al. 2020, §3.1.2).
    """

    alpha: float = 0.6

    def __call__(self, length: Array) -> Array:
        return ((5.0 + length.astype(jnp.float32)) / 6.0) ** self.alpha


LengthPenalty: TypeAlias = PowerLengthPenalty | T5LengthPenalty
EarlyStopping: TypeAlias = bool | Literal["never"]


class Beams(NamedTuple):
    """Sequences found, best first.

    Attributes:
      tokens: int32 [B, num_return_sequences, max_new_tokens], padded after the end.
      scores: float32 [B, num_return_sequences], penalized.
    """

    tokens: Array
    scores: Array


class _Search(NamedTuple):
    index: Array  # int32 [], tokens decoded so far
    last: Array  # [B, J] the token that is read next
    tokens: Array  # [B, J, L] running beams
    scores: Array  # [B, J] their summed log-probabilities
    finished: Array  # [B, J, L]
    finished_scores: Array  # [B, J] penalized; minus infinity where there is none yet
    done: Array  # [B]
    before: Array  # [B, M] tokens before the first decoded one; no columns without processors
    cache: Cache


def beam_search(
    step: Step,
    reorder: Reorder,
    cache: Cache,
    *,
    start_tokens: Int[Array, " B"],
    max_new_tokens: int,
    eos_token_id: int | tuple[int, ...] | list[int] | None,
    num_beams: int,
    pad_token_id: int = 0,
    length_penalty: LengthPenalty = PowerLengthPenalty(1.0),
    early_stopping: EarlyStopping = False,
    num_return_sequences: int = 1,
    processors: LogitsProcessors | None = None,
    before: Int[Array, "B M"] | None = None,
    keep_inputs: KeepInputs | None = None,
    num_last_inputs: int | None = None,
    are_log_probs: bool = False,
) -> Beams:
    """Find for every row of the cache the continuations with the best penalized log-likelihood.

    Args:
      step: Reads one token of each row and scores the next.
      reorder: Rearranges the beams of a cache.
      cache: Cache of the prompts, one row each.
      start_tokens: Token that each row reads first.
      max_new_tokens: Limit of the length.
      eos_token_id: Ids that end a sequence; ``None`` for none.
      num_beams: Beams of each row.
      pad_token_id: Id after the end.
      length_penalty: Divides scores; lengths count new tokens, the end included.
      early_stopping: Condition that ends a row with ``num_beams`` finished sequences. ``True`` ends it at once.
        ``False`` ends it when the best continuation ending now would not beat the worst of them. ``"never"`` ends it
        when no continuation could at any length.
      num_return_sequences: Sequences to return for each row.
      processors: Changes of log-probabilities; ``None`` for none.
      before: Tokens that processors count before the first decoded one; see ``LogitsProcessors.history_before``.
      keep_inputs: See ``decode_until_done``.
      num_last_inputs: See ``decode_until_done``.
      are_log_probs: ``step`` returns log-probabilities or weighted ones, which are added as they are, and no logits.
    """
    check_length(max_new_tokens)
    if not 1 <= num_return_sequences <= num_beams:
        raise ValueError(
            f"num_return_sequences is {num_return_sequences}; {num_beams} beams give 1 to {num_beams}"
        )
    eos_ids = one_or_several(eos_token_id)
    num_rows = start_tokens.shape[0]

    def advance(search: _Search) -> _Search:
        logits, cache = step(search.last.reshape(-1), search.cache)
        length = search.index + 1
        log_probs = logits if are_log_probs else log_probabilities(logits)
        candidates = _best_candidates(search, log_probs, eos_ids, processors)
        finished_BJL, finished_scores_BJ = _merge_finished(search, candidates, length_penalty(length))
        tokens_BJL, scores_BJ, origins_BJ = _keep_running(candidates, num_beams)
        best_B = scores_BJ[:, 0]  # an ending candidate is no continuation
        attainable_B = best_B / length_penalty(length)
        if early_stopping == "never":
            attainable_B = jnp.maximum(attainable_B, best_B / length_penalty(jnp.asarray(max_new_tokens)))
        worst_B = finished_scores_BJ.min(-1)
        full_B = worst_B > -jnp.inf
        return _Search(
            index=length,
            last=tokens_BJL[:, :, search.index],
            tokens=tokens_BJL,
            scores=scores_BJ,
            finished=jnp.where(search.done[:, None, None], search.finished, finished_BJL),
            finished_scores=jnp.where(search.done[:, None], search.finished_scores, finished_scores_BJ),
            before=search.before,
            done=search.done | (full_B if early_stopping is True else full_B & (worst_B >= attainable_B)),
            cache=reorder(cache, origins_BJ),
        )

    def continues(search: _Search) -> Array:
        return (search.index < max_new_tokens) & ~search.done.all()

    blank_BJL = jnp.full((num_rows, num_beams, max_new_tokens), pad_token_id, jnp.int32)
    start = _Search(
        index=jnp.zeros((), jnp.int32),
        last=jnp.broadcast_to(start_tokens[:, None].astype(jnp.int32), (num_rows, num_beams)),
        tokens=blank_BJL,
        # All beams start alike: only the first may be continued, or they would stay alike.
        scores=jnp.full((num_rows, num_beams), IMPOSSIBLE, jnp.float32).at[:, 0].set(0.0),
        finished=blank_BJL,
        finished_scores=jnp.full((num_rows, num_beams), -jnp.inf, jnp.float32),
        done=jnp.zeros(num_rows, bool),
        before=jnp.zeros((num_rows, 0), jnp.int32) if before is None else before,
        cache=reorder(cache, jnp.zeros((num_rows, num_beams), jnp.int32)),
    )
    search = decode_until_done(
        continues,
        advance,
        start,
        ended=lambda search: search.done,
        keep_inputs=keep_inputs,
        num_last_inputs=num_last_inputs,
    )
    tokens_BJL, scores_BJ = _add_unfinished(search, length_penalty(search.index))
    return Beams(tokens_BJL[:, :num_return_sequences], scores_BJ[:, :num_return_sequences])


class _Candidates(NamedTuple):
    """Best continuations of each row, best first."""

    tokens: Array  # [B, C, L]
    scores: Array  # [B, C]
    origins: Array  # [B, C] the beam that each continues
    ends: Array  # [B, C]


def _best_candidates(
    search: _Search, log_probs: Array, eos_ids: tuple[int, ...], processors: LogitsProcessors | None
) -> _Candidates:
    num_rows, num_beams = search.scores.shape
    vocab_size = log_probs.shape[-1]
    if processors is not None:
        before = jnp.repeat(search.before, num_beams, axis=0)
        tokens = search.tokens.reshape(num_rows * num_beams, -1)
        log_probs = processors(log_probs, before, tokens, search.index, eos_ids=eos_ids)
    # Enough that num_beams of them continue even if every beam ends in every possible way.
    count = min(max(2, 1 + len(eos_ids)) * num_beams, num_beams * vocab_size)
    scores_BJV = log_probs.reshape(num_rows, num_beams, vocab_size) + search.scores[..., None]
    scores_BC, flat_BC = top_k(scores_BJV.reshape(num_rows, -1), count)
    origins_BC, new_BC = flat_BC // vocab_size, (flat_BC % vocab_size).astype(jnp.int32)
    tokens_BCL = jnp.take_along_axis(search.tokens, origins_BC[..., None], 1)
    tokens_BCL = tokens_BCL.at[:, :, search.index].set(new_BC)
    return _Candidates(tokens_BCL, scores_BC, origins_BC, is_any_of(new_BC, eos_ids))


def _merge_finished(search: _Search, candidates: _Candidates, penalty: Array) -> tuple[Array, Array]:
    """Return the best of earlier finished sequences and of those that end now and rank among the first beams."""
    num_beams = search.scores.shape[1]
    ending_BC = jnp.where(candidates.ends, candidates.scores / penalty, -jnp.inf)
    return _best(
        jnp.concatenate([search.finished, candidates.tokens[:, :num_beams]], 1),
        jnp.concatenate([search.finished_scores, ending_BC[:, :num_beams]], 1),
        num_beams,
    )


def _keep_running(candidates: _Candidates, num_beams: int) -> tuple[Array, Array, Array]:
    going_BC = jnp.where(candidates.ends, -jnp.inf, candidates.scores)
    scores_BJ, which_BJ = jax.lax.top_k(going_BC, num_beams)
    tokens_BJL = jnp.take_along_axis(candidates.tokens, which_BJ[..., None], 1)
    return tokens_BJL, scores_BJ, jnp.take_along_axis(candidates.origins, which_BJ, 1)


def _add_unfinished(search: _Search, penalty: Array) -> tuple[Array, Array]:
    """Count running beams of rows that are not done as finished, at the length limit."""
    running_BJ = jnp.where(search.done[:, None], -jnp.inf, search.scores / penalty)
    return _best(
        jnp.concatenate([search.finished, search.tokens], 1),
        jnp.concatenate([search.finished_scores, running_BJ], 1),
        search.scores.shape[1],
    )


def _best(tokens_BCL: Array, scores_BC: Array, count: int) -> tuple[Array, Array]:
    scores_BJ, which_BJ = jax.lax.top_k(scores_BC, count)
    return jnp.take_along_axis(tokens_BCL, which_BJ[..., None], 1), scores_BJ
