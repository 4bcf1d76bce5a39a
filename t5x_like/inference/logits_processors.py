"""Changes to the scores of the next token by Hugging Face's rules: penalties, banned tokens and forced tokens.

Shape letters here: N rows or beams, T tokens before and after the start of decoding, V vocabulary, W banned sequences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

# In a history, a position without a token: padding, or still to be decoded.
NO_TOKEN = -1


@dataclass(frozen=True, kw_only=True)
class LogitsProcessors:
    """Rules for the scores of the next token, applied in Hugging Face's order: that of the attributes.

    Greedy decoding and sampling apply them to logits, beam search to log-probabilities.

    Attributes:
      repetition_penalty: Divides positive scores of tokens in the history and multiplies negative ones (Keskar et al.
        2019, §4.1, https://arxiv.org/abs/1909.05858).
      no_repeat_ngram_size: No n-gram of this size is written twice (Paulus et al. 2017, §2.5,
        https://arxiv.org/abs/1705.04304); 0 allows all.
      bad_words_ids: Sequences of ids that are never written.
      min_new_tokens: Tokens before the first that may end a sequence.
      forced_first_id: The first token; ``None`` for any.
      forced_last_ids: Tokens of which one is written where the length ends a sequence; empty for any.
      suppress_tokens: Ids that are never written.
      begin_suppress_tokens: Ids that are not written at ``begin_index``.
      begin_index: Number of tokens before the one that ``begin_suppress_tokens`` is about.
      counts_prompt: Whether the history has the prompt, as in decoders, or the start token alone.
      renormalize_logits: Make log-probabilities of the scores in the end, so that those of beams sum to 1 without the
        tokens that are never written.
    """

    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    min_new_tokens: int = 0
    forced_first_id: int | None = None
    forced_last_ids: tuple[int, ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    begin_index: int = 0
    counts_prompt: bool = True
    renormalize_logits: bool = False

    def history_before(
        self, prompts: Int[Array, "B M"], mask: Int[Array, "B M"], start_tokens: Int[Array, " B"]
    ) -> Int[Array, "B _"]:
        """Return the tokens before the first decoded one, on the right, after ``NO_TOKEN`` where there is padding.

        Args:
          prompts: Ids of the prompts.
          mask: 1 where a prompt has a token.
          start_tokens: Token that each row of an encoder-decoder's decoder reads first.
        """
        if not self.counts_prompt:
            return start_tokens[:, None].astype(jnp.int32)
        order = jnp.argsort(mask > 0, axis=1, stable=True)
        return jnp.take_along_axis(jnp.where(mask > 0, prompts, NO_TOKEN), order, 1).astype(jnp.int32)

    def __call__(
        self,
        scores: Float[Array, "N V"],
        before: Int[Array, "N _"],
        tokens: Int[Array, "N L"],
        index: Int[Array, "*N"],
        *,
        eos_ids: Sequence[int],
        lengths: Int[Array, " N"] | None = None,
    ) -> Float[Array, "N V"]:
        """Return the changed scores of the next token.

        Args:
          scores: Logits or log-probabilities.
          before: Ids of the tokens before the first decoded one, int32 [B, M]; ``NO_TOKEN`` is padding.
          tokens: Decoded tokens; those from ``index`` on are ignored.
          index: Number of tokens decoded so far, of all rows or of each.
          eos_ids: Ids that end a sequence.
          lengths: Number of tokens that end a sequence, of each row; the columns of ``tokens`` if not given.
        """
        index_N1 = index.reshape(-1, 1)
        lengths_N1 = tokens.shape[1] if lengths is None else lengths[:, None]
        decoded = jnp.where(jnp.arange(tokens.shape[1])[None] < index_N1, tokens, NO_TOKEN)
        history = jnp.concatenate([before, decoded], axis=1)
        end = before.shape[1] + index_N1
        if self.repetition_penalty != 1:
            scores = _penalize(scores, history, self.repetition_penalty)
        if self.no_repeat_ngram_size:
            scores = _ban_repeated_ngrams(scores, history, end, self.no_repeat_ngram_size)
        for _, words in groupby(sorted(self.bad_words_ids, key=len), key=len):
            scores = _ban_words(scores, history, end, jnp.asarray([*words], jnp.int32))
        scores = _ban(scores, eos_ids, index_N1 < self.min_new_tokens)
        if self.forced_first_id is not None:
            scores = jnp.where(index_N1 == 0, _only(scores, (self.forced_first_id,)), scores)
        if self.forced_last_ids:
            scores = jnp.where(index_N1 == lengths_N1 - 1, _only(scores, self.forced_last_ids), scores)
        scores = _ban(scores, self.suppress_tokens, True)
        scores = _ban(scores, self.begin_suppress_tokens, index_N1 == self.begin_index)
        return jax.nn.log_softmax(scores, axis=-1) if self.renormalize_logits else scores


def _penalize(scores: Array, history: Array, penalty: float) -> Array:
    penalized = jnp.where(scores < 0, scores * penalty, scores / penalty)
    return jnp.where(_marked(scores, history, history != NO_TOKEN), penalized, scores)


def _ban_repeated_ngrams(scores: Array, history: Array, end: Array, size: int) -> Array:
    """Ban every token that followed the last ``size - 1`` tokens earlier."""
    padded, last = _last_tokens(history, end, size - 1)
    follows = history != NO_TOKEN
    for index in range(size - 1):
        same = padded[:, index : index + history.shape[1]] == last[:, index : index + 1]
        follows &= same & (last[:, index : index + 1] != NO_TOKEN)
    return jnp.where(_marked(scores, history, follows), -jnp.inf, scores)


def _ban_words(scores: Array, history: Array, end: Array, words: Int[Array, "W _"]) -> Array:
    """Ban the last token of each sequence whose other tokens end the history; all sequences are equally long."""
    _, last = _last_tokens(history, end, words.shape[1] - 1)
    follows = (last[:, None] == words[None, :, :-1]).all(-1)
    ends = jnp.broadcast_to(words[:, -1], follows.shape)
    return jnp.where(_marked(scores, ends, follows), -jnp.inf, scores)


def _last_tokens(history: Array, end: Array, count: int) -> tuple[Array, Array]:
    """Return the history after ``count`` columns without tokens, and its last ``count`` tokens before ``end``."""
    padded = jnp.pad(history, ((0, 0), (count, 0)), constant_values=NO_TOKEN)
    places = jnp.broadcast_to(end + jnp.arange(count)[None], (len(history), count))
    return padded, jnp.take_along_axis(padded, places, axis=1)


def _marked(scores: Array, tokens: Int[Array, "N K"], chosen: Array) -> Array:
    """Return a mask [N, V] with True for the chosen tokens of each row."""
    rows = jnp.arange(len(scores))[:, None]
    beyond = scores.shape[1]  # is dropped
    return jnp.zeros(scores.shape, bool).at[rows, jnp.where(chosen, tokens, beyond)].set(True, mode="drop")


def _ban(scores: Array, ids: Sequence[int], condition: Array | bool) -> Array:
    if not ids:
        return scores
    return jnp.where(condition, scores.at[:, jnp.asarray(ids)].set(-jnp.inf), scores)


def _only(scores: Array, ids: Sequence[int]) -> Array:
    return jnp.full_like(scores, -jnp.inf).at[:, jnp.asarray(ids)].set(0.0)
