"""Prompts of facts: texts whose next or masked token is the answer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t5x_like.inference.prompt_encoder import PromptEncoder
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

MASK = "[MASK]"


class FactPrompt(NamedTuple):
    """A prompt as a model reads it.

    Attributes:
      text: The prompt.
      ids: Its token ids, special tokens included, int32 [L].
      position: Position at which the answer is predicted.
    """

    text: str
    ids: np.ndarray
    position: int


def fact_prompts(model: Pretrained, texts: Sequence[str]) -> list[FactPrompt]:
    """Return prompts as a model reads them: with one ``[MASK]`` for encoders, and up to the answer for decoders.

    Args:
      model: Encoder or decoder with its tokenizer.
      texts: Prompts.

    Raises:
      ValueError: A prompt for an encoder has no mask, or several; one for a decoder has any, or no token.
    """
    checkpoint = model.checkpoint
    read = _masked if checkpoint.family == "encoder" else _continued
    return [read(checkpoint.prompt_encoder, text) for text in texts]


def answer_ids(model: Pretrained, answers: Sequence[str]) -> list[int]:
    """Return the token of each answer, which follows a space as in a text.

    Args:
      model: Encoder or decoder with its tokenizer.
      answers: Words.

    Raises:
      ValueError: One is another number of tokens, or none that the vocabulary knows.
    """
    tokenizer, tokens = model.checkpoint.tokenizer, []
    for answer in answers:
        ids = tokenizer.encode(f" {answer.strip()}")
        if len(ids) != 1 or ids[0] == tokenizer.special.unk:
            pieces = " ".join(map(tokenizer.piece, ids))
            raise ValueError(
                f"the answer {answer!r} is {len(ids)} tokens ({pieces}); give answers that are one known token each"
            )
        tokens.append(ids[0])
    return tokens


def _masked(encoder: PromptEncoder, text: str) -> FactPrompt:
    if text.count(MASK) != 1:
        raise ValueError(
            f"the prompt {text!r} has {text.count(MASK)} {MASK}; this encoder predicts the answer at a mask, so write "
            f"{MASK} once in its place"
        )
    mask = ids_of(encoder.tokenizer).mask
    if mask is None:
        raise ValueError("this model's vocabulary has no mask; take a masked language model")
    before, after = text.split(MASK)
    # A space before the mask belongs to the answer, as in texts.
    left, right = encoder.tokenizer.encode_all([before.removesuffix(" "), after])
    ids = encoder.with_special_ids([*left, mask, *right])
    return FactPrompt(text, np.array(ids, np.int32), len(encoder.prefix_ids) + len(left))


def _continued(encoder: PromptEncoder, text: str) -> FactPrompt:
    if MASK in text:
        raise ValueError(
            f"the prompt {text!r} has {MASK}, and a decoder predicts what follows; end the prompt before the answer"
        )
    ids = encoder.encode(text.rstrip())
    if not ids:
        raise ValueError(f"the prompt {text!r} has no token; give a longer one")
    return FactPrompt(text, np.array(ids, np.int32), len(ids) - 1)
