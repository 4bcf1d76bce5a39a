"""Late interaction: the similarity of two texts from the vectors of their tokens (Khattab and Zaharia 2020).

ColBERT, https://arxiv.org/abs/2004.12832. A head of the task ``token_classification`` is the linear projection of each
token; its number of labels is the width of the vectors. Training and scoring use these functions alike.
"""

import string
from typing import Protocol

import jax
import jax.numpy as jnp

from t5x_like.batch import Batch

# The head whose outputs are vectors of tokens, and the width in the paper.
PROJECTION, PROJECTION_DIM = "token_classification", 128
QUERY_LENGTH = 32  # tokens of an augmented query (section 3.2)
_FILLED = -1e9  # similarity with a token that doesn't count


class _Encoding(Protocol):
    def encode(self, text: str) -> list[int]: ...


def punctuation_ids(tokenizer: _Encoding) -> tuple[int, ...]:
    """Return the ids of punctuation marks, whose vectors documents leave out (section 3.2).

    Args:
      tokenizer: Tokenizer; a mark of several tokens is kept.
    """
    ids = [tokenizer.encode(mark) for mark in string.punctuation]
    return tuple(sorted({each[0] for each in ids if len(each) == 1}))


def augment_queries(
    tokens: jax.Array, real: jax.Array, *, length: int, mask_id: int
) -> tuple[jax.Array, jax.Array]:
    """Replace padding up to a length by mask tokens, whose vectors add words to the query (section 3.2).

    Args:
      tokens: Token ids, int32 [B, L].
      real: True for tokens that are not padding, [B, L].
      length: Number of tokens that queries then have; those that are longer stay as they are.
      mask_id: Id of the mask token.

    Returns:
      Token ids, and which of them count.
    """
    is_added = ~real & (jnp.arange(tokens.shape[1]) < length)[None]
    return jnp.where(is_added, mask_id, tokens), real | is_added


def rows_of(tokens: jax.Array, real: jax.Array) -> Batch:
    """Return rows as a batch for a model.

    Args:
      tokens: Token ids, int32 [B, L].
      real: True for tokens that are not padding, [B, L].
    """
    return Batch(encoder_input_tokens=tokens, encoder_segment_ids=real.astype(jnp.int32))


def unit_vectors(outputs: jax.Array) -> jax.Array:
    """Return outputs of the projection at length 1, float32 [B, L, D]."""
    outputs = outputs.astype(jnp.float32)
    squares = jnp.sum(jnp.square(outputs), axis=-1, keepdims=True)
    return outputs * jax.lax.rsqrt(jnp.maximum(squares, 1e-12))


def counted_tokens(tokens: jax.Array, real: jax.Array, ignored_ids: tuple[int, ...]) -> jax.Array:
    """Return which tokens of documents count: real ones that are not ignored, [B, L].

    Args:
      tokens: Token ids, int32 [B, L].
      real: True for tokens that are not padding, [B, L].
      ignored_ids: Ids whose vectors are left out.
    """
    return real & ~jnp.isin(tokens, jnp.asarray(ignored_ids, tokens.dtype)) if ignored_ids else real


def max_sim(
    queries: jax.Array, are_of_queries: jax.Array, documents: jax.Array, are_of_documents: jax.Array
) -> jax.Array:
    """Return the score of each query with each document, float32 [Q, N] (section 3.3, eq. 3).

    A query's token has the similarity of the document's token that is most similar to it; they are summed.

    Args:
      queries: Vectors of length 1, [Q, L, D].
      are_of_queries: Tokens of queries that count, [Q, L].
      documents: Vectors of length 1, [N, M, D].
      are_of_documents: Tokens of documents that count, [N, M]. A document without any has a very low score.
    """
    similarities = jnp.einsum("qld,nmd->qnlm", queries, documents, preferred_element_type=jnp.float32)
    best = jnp.max(jnp.where(are_of_documents[None, :, None], similarities, _FILLED), axis=-1)
    return jnp.sum(jnp.where(are_of_queries[:, None], best, 0.0), axis=-1)
