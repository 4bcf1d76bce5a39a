"""Rows of causal or masked language modeling from texts, to measure a loss on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from t5x_like.analysis.traced_model import traced, traced_inputs
from t5x_like.inference.length_batches import length_batches
from t5x_like.inference.prompt_encoder import PromptEncoder
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.text.vocabularies.vocabulary_ids import ids_of


class LanguageModelRows(NamedTuple):
    """A batch of rows.

    Attributes:
      inputs: Inputs of ``TracedModel.logits``.
      targets: Token that each position predicts, int32 [B, L].
      weights: 1 where a position predicts one, float32 [B, L].
    """

    inputs: dict[str, PyTree]
    targets: np.ndarray
    weights: np.ndarray


def language_model_rows(
    model: Pretrained,
    texts: Sequence[str],
    *,
    batch_size: int,
    max_length: int | None,
    mask_rate: float,
    rng: np.random.Generator,
) -> list[LanguageModelRows]:
    """Return texts as batches: decoders predict each next token, encoders the tokens behind masks.

    Args:
      model: Encoder or decoder with its tokenizer.
      texts: Texts.
      batch_size: Number of rows of a batch.
      max_length: Number of tokens to cut texts to; ``None`` for as many as the model reads.
      mask_rate: Share of an encoder's tokens that are masked, at least one of each text.
      rng: Draws the masked tokens.

    Raises:
      ValueError: There is no token to predict, or the vocabulary has no mask.
    """
    structure, _ = traced(model)
    encoder, is_encoder = model.checkpoint.prompt_encoder, model.checkpoint.family == "encoder"
    limit = min((each for each in (max_length, structure.max_positions) if each), default=None)
    rows = [model.encode(text, max_length=limit)["input_ids"][0] for text in texts]
    mask = ids_of(encoder.tokenizer).mask if is_encoder else None
    if is_encoder and mask is None:
        raise ValueError("this model's vocabulary has no mask; take a masked language model")
    batches = []
    for indices in length_batches(list(map(len, rows)), batch_size):
        read, targets, places = [], [], []
        for index in indices:
            ids = rows[index]
            if mask is None:
                read.append(ids)
                targets.append(ids[1:])
                places.append(np.arange(len(ids) - 1))
                continue
            places.append(_masked_places(encoder, len(ids), mask_rate, rng))
            targets.append(ids[places[-1]])
            read.append(np.where(np.isin(np.arange(len(ids)), places[-1]), mask, ids).astype(np.int32))
        inputs = traced_inputs(model, structure, read, batch_size)
        shape = inputs["input_ids"].shape
        batch = LanguageModelRows(inputs, np.zeros(shape, np.int32), np.zeros(shape, np.float32))
        for row, (columns, tokens) in enumerate(zip(places, targets, strict=True)):
            batch.targets[row, columns], batch.weights[row, columns] = tokens, 1.0
        batches.append(batch)
    if not sum(batch.weights.sum() for batch in batches):
        raise ValueError("the texts have no token to predict; give longer ones")
    return batches


def _masked_places(
    encoder: PromptEncoder, length: int, mask_rate: float, rng: np.random.Generator
) -> np.ndarray:
    """Return positions to mask, of those between the special tokens."""
    own = np.arange(len(encoder.prefix_ids), length - len(encoder.suffix_ids))
    return np.sort(rng.permutation(own)[: max(round(mask_rate * len(own)), 1)])
