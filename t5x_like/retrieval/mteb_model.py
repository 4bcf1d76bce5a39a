"""A checkpoint as the model of an evaluation by mteb (Muennighoff et al. 2023, https://arxiv.org/abs/2210.07316)."""

import functools
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from t5x_like.retrieval.text_embedder import EmbeddingSettings, TextEmbedder, TextRole

_DOCUMENTS = ("document", "passage")


class MtebModel:
    """Model that ``mteb.evaluate`` takes, with the vectors of a ``TextEmbedder``.

    >>> model = MtebModel("path/to/e5-small", settings=EmbeddingSettings(query_prompt="query: "))
    >>> mteb.evaluate(model, mteb.get_tasks(["SciFact"]))

    Documents of retrieval tasks have the document prompt. All other texts have the query prompt, also in tasks without
    questions.

    Args:
      model_name: Path of the checkpoint.
      revision: Not used; results name the hash of the weights.
      device: Not used; JAX chooses.
      settings: Settings of the vectors.
      batch_size: Texts in a batch, where mteb gives none.

    Raises:
      ValueError: There is no checkpoint, or it makes no vectors.
    """

    def __init__(
        self,
        model_name: str,
        revision: str | None = None,
        *,
        device: str | None = None,
        settings: EmbeddingSettings | None = None,
        batch_size: int = 32,
    ):
        del revision, device
        self.embedder = TextEmbedder.open(model_name, settings, batch_size=batch_size)

    def encode(
        self,
        inputs: Iterable[str] | Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any = None,
        hf_split: str = "",
        hf_subset: str = "",
        prompt_type: Any = None,
        **options: Any,
    ) -> np.ndarray:
        """Return a vector for each text, float32 [N, D].

        Args:
          inputs: Texts, or batches with a list of texts in ``text``, as mteb's data loaders have.
          task_metadata: Not used; prompts don't depend on the task.
          hf_split: Not used.
          hf_subset: Not used.
          prompt_type: "query" or "document", also as mteb's ``PromptType``; ``None`` counts as a query.
          **options: ``batch_size``; others are not used.
        """
        del task_metadata, hf_split, hf_subset
        texts: list[str] = []
        for each in inputs:
            texts += [each] if isinstance(each, str) else each["text"]
        role: TextRole = "document" if getattr(prompt_type, "value", prompt_type) in _DOCUMENTS else "query"
        self.embedder.batch_size = options.get("batch_size") or self.embedder.batch_size
        return self.embedder.embed(texts, role)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """Return the similarity of each vector with each other one, float32 [N, M].

        Args:
          embeddings1: Vectors, [N, D].
          embeddings2: Vectors, [M, D].
        """
        return self._scaled(embeddings1) @ self._scaled(embeddings2).T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """Return the similarity of each pair of vectors, float32 [N].

        Args:
          embeddings1: First vectors, [N, D].
          embeddings2: Second vectors, [N, D].
        """
        return np.sum(self._scaled(embeddings1) * self._scaled(embeddings2), axis=-1)

    @functools.cached_property
    def mteb_model_meta(self) -> Any:
        """Description of the model for mteb's results."""
        from mteb.models.model_meta import (  # pyright: ignore[reportMissingImports] - optional
            ModelMeta,
            ScoringFunction,
        )

        is_cosine = self.embedder.settings.similarity == "cosine"
        return ModelMeta.create_empty(
            overwrites={
                "name": f"t5x_like/{os.path.basename(self.embedder.checkpoint)}",
                "revision": self.embedder.identity,
                "framework": ["JAX"],
                "max_tokens": self.embedder.settings.max_length,
                "similarity_fn_name": ScoringFunction.COSINE if is_cosine else ScoringFunction.DOT_PRODUCT,
            }
        )

    def _scaled(self, vectors: Any) -> np.ndarray:
        array = np.atleast_2d(np.asarray(vectors, np.float32))
        if self.embedder.settings.similarity == "dot":
            return array
        return array / np.maximum(np.linalg.norm(array, axis=-1, keepdims=True), 1e-12)
