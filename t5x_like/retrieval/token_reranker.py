"""Reranking by late interaction: vectors of tokens, which a model of ``LateInteraction`` has learned."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.inference.length_batches import pad_prompts, round_length, run_by_length
from t5x_like.io.damaged_files import refusing_damage
from t5x_like.io.files import PathLike, as_path, read_json
from t5x_like.model import parameters
from t5x_like.model.families.family import predict
from t5x_like.model.model_traits import traits_of
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.retrieval.max_sim import (
    PROJECTION,
    QUERY_LENGTH,
    augment_queries,
    counted_tokens,
    max_sim,
    punctuation_ids,
    rows_of,
    unit_vectors,
)
from t5x_like.retrieval.reranker import Reranker
from t5x_like.retrieval.vector_index import RankedPassage, sort_results

_RECORD = "experiment.json"  # of a run
_MOST_TOKENS = 512  # of a document
_DOCUMENTS = 64  # that are compared with a query at once


@dataclass(frozen=True, kw_only=True)
class TokenVectors:
    """Vectors of one text's tokens.

    Attributes:
      vectors: Vectors of length 1, float32 [L, D].
      counted: Tokens that count, bool [L].
    """

    vectors: np.ndarray
    counted: np.ndarray


class TokenReranker:
    """Orders search results by the similarities of tokens.

    Args:
      opened: Checkpoint with a projection of tokens, and its tokenizer.
      query_length: Tokens of a query that is filled up with mask tokens, as in training; 0 fills up none.
      ignored_ids: Ids whose vectors documents leave out; punctuation if not given.
      batch_size: Texts in a batch.
      max_length: Tokens of a document; by default as many as the model reads, at most 512.

    Raises:
      ValueError: The checkpoint has no projection, or its tokenizer no mask token.
    """

    def __init__(
        self,
        opened: Checkpoint,
        *,
        query_length: int = QUERY_LENGTH,
        ignored_ids: tuple[int, ...] | None = None,
        batch_size: int = 32,
        max_length: int | None = None,
    ):
        task = traits_of(opened.config).task
        if task != PROJECTION:
            raise ValueError(
                f"{opened.directory} has a head for {task or 'nothing'}, and vectors of tokens are the outputs of one "
                f"for {PROJECTION}; train the model by LateInteraction"
            )
        mask_id = opened.tokenizer.special.mask
        if query_length and mask_id is None:
            raise ValueError(
                f"the tokenizer of {opened.directory} has no mask token, which fills up queries; give query_length=0"
            )
        longest = min(opened.max_positions or _MOST_TOKENS, max_length or _MOST_TOKENS)
        self._opened, self._batch_size = opened, batch_size
        self._query_length, self._mask_id = min(query_length, longest), mask_id or 0
        self._max_length = longest
        self._ignored = punctuation_ids(opened.tokenizer) if ignored_ids is None else ignored_ids
        self._project, self._compare = jax.jit(self._projected), jax.jit(max_sim)

    def embed_queries(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the vectors of queries, which mask tokens fill up."""
        return self._embed(texts, self._query_length or self._max_length, fills_up=self._query_length > 0)

    def embed_documents(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return the vectors of documents."""
        return self._embed(texts, self._max_length, fills_up=False)

    def scores(self, query: TokenVectors, documents: Sequence[TokenVectors]) -> np.ndarray:
        """Return the score of a query with each document, float32 [N].

        Args:
          query: Vectors of the query.
          documents: Vectors of documents.
        """
        parts = []
        for start in range(0, len(documents), _DOCUMENTS):
            part = documents[start : start + _DOCUMENTS]
            length = max(len(each.counted) for each in part)
            vectors = np.stack([_padded(each.vectors, length) for each in part])
            counted = np.stack([_padded(each.counted, length) for each in part])
            parts.append(self._compare(query.vectors[None], query.counted[None], vectors, counted)[0])
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def rerank(
        self, queries: Sequence[str], results: Sequence[Sequence[RankedPassage]]
    ) -> list[list[RankedPassage]]:
        """Order the results of queries by late interaction; of equal scores the order stays.

        Args:
          queries: Queries without a prompt.
          results: Results of each query.
        """
        texts = list(dict.fromkeys(result.passage.text for of_query in results for result in of_query))
        documents = dict(zip(texts, self.embed_documents(texts), strict=True)) if texts else {}
        vectors = self.embed_queries(queries)
        return [
            sort_results(
                of_query, self.scores(query, [documents[result.passage.text] for result in of_query])
            )
            for query, of_query in zip(vectors, results, strict=True)
        ]

    def _embed(self, texts: Sequence[str], max_length: int, *, fills_up: bool) -> list[TokenVectors]:
        encoder = self._opened.prompt_encoder
        rows = [encoder.encode(text, max_length) for text in texts]

        def run(indices: list[int]) -> list[TokenVectors]:
            batch = [rows[index] for index in indices]
            longest = self._query_length if fills_up else max(map(len, batch))
            num_rows = min(1 << (len(batch) - 1).bit_length(), max(self._batch_size, len(batch)))
            ids, mask = pad_prompts(
                batch,
                length=round_length(longest, self._max_length),
                batch_size=num_rows,
                fill=self._opened.special_ids.fill,
            )
            tokens, real = jnp.asarray(ids), jnp.asarray(mask) > 0
            if fills_up:
                tokens, counted = augment_queries(
                    tokens, real, length=self._query_length, mask_id=self._mask_id
                )
                real = counted
            else:
                counted = counted_tokens(tokens, real, self._ignored)
            vectors = np.asarray(self._project(self._opened.params, tokens, real))
            if not np.isfinite(vectors[: len(batch)]).all():
                raise ValueError(
                    f"{self._opened.directory} computes vectors that are not finite; is it damaged?"
                )
            return [
                TokenVectors(vectors=each, counted=kept)
                for each, kept in zip(vectors[: len(batch)], np.asarray(counted), strict=False)
            ]

        return run_by_length([len(row) for row in rows], self._batch_size, run)

    def _projected(self, params: Any, tokens: jax.Array, real: jax.Array) -> jax.Array:
        model = parameters.merge(self._opened.graphdef, params)
        return unit_vectors((predict(model, rows_of(tokens, real)).heads or {})[PROJECTION])


def open_reranker(
    directory: PathLike, *, batch_size: int = 32, max_length: int | None = None
) -> Reranker | TokenReranker:
    """Open a cross-encoder, or a model of late interaction, by the head that it has.

    The latter reads queries with the length that its run was trained with, and leaves out the same ids.

    Args:
      directory: Run, or a Hugging Face directory.
      batch_size: Pairs or texts in a batch.
      max_length: Tokens of a pair or of a document.

    Raises:
      ValueError: There is no checkpoint, or it has neither head.
    """
    opened = open_checkpoint(directory, needs_tokenizer=True)
    if traits_of(opened.config).task != PROJECTION:
        return Reranker(opened, batch_size=batch_size, max_length=max_length)
    return TokenReranker(opened, **_trained_with(directory), batch_size=batch_size, max_length=max_length)


def _trained_with(directory: PathLike) -> dict[str, Any]:
    """Return the settings of queries and documents in the record of a run; none for other directories."""
    record = as_path(directory) / _RECORD
    method = read_json(record, dict).get("method") if record.exists() else None
    if not isinstance(method, dict) or "query_length" not in method:
        return {}
    with refusing_damage(record):
        return {
            "query_length": int(method["query_length"]),
            "ignored_ids": tuple(int(each) for each in method["ignored_ids"]),
        }


def _padded(rows: np.ndarray, length: int) -> np.ndarray:
    return np.pad(rows, [(0, length - len(rows)), *[(0, 0)] * (rows.ndim - 1)])
