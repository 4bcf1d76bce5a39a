"""Vectors of texts by an open model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from t5x_like.deprecated_names import renamed_arguments
from t5x_like.inference.length_batches import run_by_length
from t5x_like.inference.prompt_encoder import PromptEncoder
from t5x_like.nested_values import one_or_several
from t5x_like.pretrained.sentence_transformers import Pooling, SentenceEmbedding
from t5x_like.pretrained.transformers_api.call_arguments import is_text
from t5x_like.pretrained.transformers_api.callable_model import CallableModel
from t5x_like.pretrained.transformers_api.head_outputs import one_choice


class EmbeddingModel(CallableModel):
    """A model that embeds texts.

    Attributes:
      sentence_embedding: Settings of the vectors, for a directory of sentence-transformers or a run that trained them;
        else ``None``.
    """

    sentence_embedding: SentenceEmbedding | None

    @renamed_arguments("Pretrained.embed")
    def embed(
        self,
        input_ids: Any,
        attention_mask: object = None,
        *,
        pooling: Pooling | None = None,
        normalized: bool | None = None,
        dimensions: int | None = None,
        batch_size: int | None = None,
        **arguments: Any,
    ) -> np.ndarray:
        """Return a vector for each text (Reimers and Gurevych 2019, https://arxiv.org/abs/1908.10084).

        Args:
          input_ids: Token ids [B, L], or a text or list of texts.
          attention_mask: Mask with 1 where a token is real, [B, L]; made for texts.
          pooling: Mean or maximum over a text's tokens, a mean whose weights rise with the position, or the state of
            its first or last token. If not given, that of ``sentence_embedding``, else the mean.
          normalized: Scale vectors to length 1, so that inner products are cosines. If not given, that of
            ``sentence_embedding``, else True.
          dimensions: Number of the first dimensions to keep, for models that were trained for several widths.
          batch_size: Number of texts that are read together, those of similar length; all of them if not given.
          **arguments: Other arguments of a call, such as ``token_type_ids``.

        Returns:
          Array of float32 [B, D]; [D] for a single string.

        Raises:
          ValueError: A text has no token, vectors are not finite, or they have fewer dimensions.
        """
        settings = self.sentence_embedding or SentenceEmbedding()
        options = {"pooling": pooling, "normalized": normalized}
        settings = replace(settings, **{name: value for name, value in options.items() if value is not None})
        if is_text(input_ids):
            vectors = self._embed_texts(
                one_or_several(input_ids), settings, dimensions, batch_size, arguments
            )
            return vectors[0] if isinstance(input_ids, str) else vectors
        if batch_size is not None:
            raise ValueError(f"batch_size={batch_size} is for texts; give token ids in batches of your own")
        if attention_mask is not None:
            arguments["attention_mask"] = attention_mask
        # An encoder-decoder embeds by its encoder. To a model of choices each text is the only one of its example.
        arguments = self._decoder_start(input_ids) | arguments
        if self.config.task == "multiple_choice":
            input_ids, arguments = one_choice(input_ids, arguments)
        outputs = self(input_ids, **arguments)
        states = outputs.get("encoder_last_hidden_state")
        states = outputs["last_hidden_state"] if states is None else states
        real = np.ones(states.shape[:2], bool) if attention_mask is None else np.asarray(attention_mask) > 0
        return settings.vectors(states, real, dimensions=dimensions)

    @property
    def embedding_encoder(self) -> PromptEncoder:
        """Encoder of texts whose vectors are compared."""
        opened = self._opened
        return opened.prompt_encoder if self.sentence_embedding is None else opened.embedding_encoder

    def embedding_ids(self, text: str) -> list[int]:
        """Return the token ids of a text as ``embed`` reads it, cut and with special ids.

        Raises:
          ValueError: There is no tokenizer, or the text has no token.
        """
        settings = self.sentence_embedding or SentenceEmbedding()
        ids = self.embedding_encoder.encode(settings.word(text), settings.max_length)
        if not ids:
            raise ValueError(f"{text!r} has no token; give a text, or a list of at least one text")
        return ids

    def _embed_texts(
        self,
        texts: Sequence[str],
        settings: SentenceEmbedding,
        dimensions: int | None,
        batch_size: int | None,
        arguments: dict[str, Any],
    ) -> np.ndarray:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; give 1 or more")
        if not texts:
            raise ValueError("there is no text to embed; give a text, or a list of at least one text")
        rows = [self.embedding_ids(text) for text in texts]

        def run(numbers: Sequence[int]) -> list[np.ndarray]:
            encoded = self.padded([rows[number] for number in numbers], padding_side="right")
            return list(
                self.embed(
                    **encoded,
                    pooling=settings.pooling,
                    normalized=settings.normalized,
                    dimensions=dimensions,
                    **arguments,
                )
            )

        if batch_size is None or batch_size >= len(rows):
            return np.stack(run(range(len(rows))))
        return np.stack(run_by_length([len(row) for row in rows], batch_size, run))
