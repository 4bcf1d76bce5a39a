"""Vectors of queries and documents by one model, each with its own beginning, in batches of similar length."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from t5x_like.inference.length_batches import pad_prompts, round_length, run_by_length
from t5x_like.io.files import PathLike, as_path, read_json
from t5x_like.pretrained.checkpoint import Checkpoint, Dtype
from t5x_like.pretrained.sentence_transformers import SentenceEmbedding
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained, from_pretrained
from t5x_like.text.vocabularies.tokenizer import Tokenizer

TextRole = Literal["query", "document"]
Similarity = Literal["cosine", "dot"]

_PROMPTS = "config_sentence_transformers.json"
# Names of prompts in files of sentence-transformers, by what they begin.
_PROMPT_NAMES: dict[TextRole, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}
_FAMILIES = ("encoder", "decoder", "encoder_decoder")


@dataclass(frozen=True, kw_only=True)
class EmbeddingSettings:
    """Settings on which vectors depend, next to the model.

    Attributes:
      query_prompt: Beginning of every query; ``None`` for that of a sentence-transformers directory, or none.
      document_prompt: Beginning of every document; ``None`` likewise.
      similarity: "cosine" scales vectors to length 1; "dot" leaves them as they are.
      pooling: Pooling of hidden states; ``None`` for that of a sentence-transformers directory, or the mean.
      max_length: Number of tokens to cut texts to, special tokens included; ``None`` for as many as the model reads.
      dtype: Type of computation.
    """

    query_prompt: str | None = None
    document_prompt: str | None = None
    similarity: Similarity = "cosine"
    pooling: str | None = None
    max_length: int | None = None
    dtype: Dtype = "float32"

    def __post_init__(self) -> None:
        if self.similarity not in get_args(Similarity):
            raise ValueError(
                f"similarity is {self.similarity!r}; give one of {', '.join(get_args(Similarity))}"
            )


class TextEmbedder:
    """A model that makes one vector of each text.

    >>> embedder = TextEmbedder.open("path/to/e5-small", EmbeddingSettings(query_prompt="query: "))
    >>> embedder.embed(["Who wrote Ulysses?"], "query").shape
    (1, 384)

    Args:
      pretrained: The model with its tokenizer.
      settings: Settings of the vectors.
      batch_size: Texts in a batch.
      checkpoint: Path or name by which the model was opened.

    Raises:
      ValueError: The model makes no vectors of padded texts.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        settings: EmbeddingSettings | None = None,
        *,
        batch_size: int = 32,
        checkpoint: str = "",
    ):
        opened = pretrained.checkpoint
        if opened.family not in _FAMILIES:
            raise ValueError(
                f"{opened.directory} is a {type(opened.config).__name__}, which makes no vectors of texts in batches; "
                f"models of these families do: {', '.join(_FAMILIES)}"
            )
        settings = settings or EmbeddingSettings()
        own = pretrained.sentence_embedding or SentenceEmbedding()
        prompts = _prompts_of(checkpoint) if checkpoint and pretrained.sentence_embedding else {}
        self.settings = replace(
            settings,
            query_prompt=_first(settings.query_prompt, prompts.get("query"), own.prompt),
            document_prompt=_first(settings.document_prompt, prompts.get("document"), own.prompt),
            pooling=settings.pooling or own.pooling,
            max_length=_shortest(settings.max_length, own.max_length, opened.max_positions),
        )
        self.checkpoint = checkpoint or opened.directory
        self.identity = opened.identity
        self.batch_size = batch_size
        self._pretrained, self._own, self._encoder = pretrained, own, pretrained.embedding_encoder
        self._max_positions = opened.max_positions

    @classmethod
    def open(
        cls, directory: PathLike, settings: EmbeddingSettings | None = None, *, batch_size: int = 32
    ) -> "TextEmbedder":
        """Open a checkpoint as ``from_pretrained`` does.

        Args:
          directory: Run, or a directory of Hugging Face or sentence-transformers.
          settings: Settings of the vectors.
          batch_size: Texts in a batch.

        Raises:
          ValueError: There is no checkpoint, or it makes no vectors.
        """
        settings = settings or EmbeddingSettings()
        pretrained = from_pretrained(directory, dtype=settings.dtype)
        # A name on the Hub stays as it is; a path is found from other folders, too.
        path = os.path.abspath(directory) if os.path.exists(directory) else os.fspath(directory)
        return cls(pretrained, settings, batch_size=batch_size, checkpoint=path)

    @property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the model."""
        return self._pretrained.checkpoint.tokenizer

    @property
    def opened(self) -> Checkpoint:
        """Checkpoint of the model."""
        return self._pretrained.checkpoint

    def num_text_tokens(self, role: TextRole = "document") -> int | None:
        """Return how many tokens of a text the model reads next to special ones and the prompt; ``None`` for any.

        Raises:
          ValueError: The prompt leaves no room for a text.
        """
        limit = self.settings.max_length
        if limit is None:
            return None
        prompt = self._prompt(role)
        num_prompt = len(self.tokenizer.encode(prompt)) if prompt else 0
        room = limit - num_prompt - len(self._encoder.prefix_ids) - len(self._encoder.suffix_ids)
        if room < 1:
            raise ValueError(
                f"the {role} prompt {prompt!r} has {num_prompt} tokens, and the model reads {limit} with special ones; "
                "give a shorter prompt, or a larger max_length"
            )
        return room

    def embed(
        self, texts: Sequence[str], role: TextRole, *, on_texts: Callable[[int], None] | None = None
    ) -> np.ndarray:
        """Return a vector for each text, float32 [N, D].

        Args:
          texts: Texts without their prompt.
          role: Queries and documents have different prompts.
          on_texts: Called after each batch with the number of its texts.

        Raises:
          ValueError: There are no texts, or a vector is not finite.
        """
        if not len(texts):
            raise ValueError("there is no text to embed; give at least one")
        words = replace(self._own, prompt=self._prompt(role))
        rows = [self._encoder.encode(words.word(text), self.settings.max_length) for text in texts]

        def run(indices: list[int]) -> list[np.ndarray]:
            batch = [rows[index] for index in indices]
            # Each number of rows compiles a program, so there are few.
            num_rows = min(1 << (len(batch) - 1).bit_length(), max(self.batch_size, len(batch)))
            length = round_length(max(map(len, batch)), self._max_positions)
            ids, mask = pad_prompts(
                batch, length=length, batch_size=num_rows, fill=self._pretrained.special_ids.fill
            )
            options: Any = {
                "pooling": self.settings.pooling,
                "normalized": self.settings.similarity == "cosine",
            }
            vectors = self._pretrained.embed(ids, mask, **options)
            if on_texts is not None:
                on_texts(len(batch))
            return list(vectors[: len(batch)])

        vectors = np.stack(run_by_length([len(row) for row in rows], self.batch_size, run)).astype(np.float32)
        self._check_finite(vectors, texts)
        return vectors

    def _prompt(self, role: TextRole) -> str:
        prompt = self.settings.query_prompt if role == "query" else self.settings.document_prompt
        return prompt or ""

    def _check_finite(self, vectors: np.ndarray, texts: Sequence[str]) -> None:
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=-1))
        if len(bad):
            raise ValueError(
                f"{self.checkpoint} computes a vector that is not finite of {texts[bad[0]][:60]!r}, and of {len(bad)} "
                f"of {len(texts)} texts; its weights are damaged, or too large for {self.settings.dtype}"
            )


def _prompts_of(directory: PathLike) -> dict[TextRole, str]:
    """Return the prompts of queries and documents in the files of a sentence-transformers directory."""
    path = as_path(directory) / _PROMPTS
    prompts = read_json(path, dict).get("prompts") if path.exists() else None
    if not isinstance(prompts, dict):
        return {}
    named: dict[TextRole, str] = {}
    for role, names in _PROMPT_NAMES.items():
        for name in names:
            if role not in named and isinstance(prompts.get(name), str):
                named[role] = prompts[name]
    return named


def _first(*values: str | None) -> str:
    return next((value for value in values if value is not None), "")


def _shortest(*lengths: int | None) -> int | None:
    return min((length for length in lengths if length is not None), default=None)
