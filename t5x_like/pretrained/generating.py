"""What ``generate`` does around decoding: prompts in, sequences out."""

from typing import Any

import numpy as np

from t5x_like.inference.decodable import check_length
from t5x_like.model.families.encoder_decoder import EncoderDecoder
from t5x_like.pretrained.call_arguments import mask_rows, token_rows
from t5x_like.pretrained.generation_framing import frame, new_columns, visible, widen
from t5x_like.pretrained.special_ids import SpecialIds


def read_prompts(
    input_ids: Any,
    attention_mask: Any,
    config: Any,
    special: SpecialIds,
    eos_ids: tuple[int, ...],
    pad: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Prompts and their masks, int32 [B, M]. Without a mask, padding is not looked at.

    Raises:
      ValueError: ids or masks that make no sense, or no prompt and nothing to start with.
    """
    if input_ids is None:
        if special.bos is None:
            raise ValueError("generate needs input_ids: this model has no id that begins a text")
        input_ids = [[special.bos]]
    ids = token_rows(input_ids, "input_ids", config.vocab_size)
    mask = mask_rows(attention_mask, "attention_mask", ids)
    return ids, visible(ids, pad=pad, eos_ids=eos_ids) if mask is None else mask


def padding_of(asked: int | None, special: SpecialIds, eos_ids: tuple[int, ...]) -> int | None:
    """The id of padding; a model that has none pads with the id that ends a sequence, if there is one."""
    if asked is not None:
        return asked
    if special.knows_padding:
        return special.pad
    return eos_ids[0] if eos_ids else None


def num_new_tokens(
    model: Any, prompts: np.ndarray, mask: np.ndarray, *, max_new_tokens: int | None, max_length: int
) -> int:
    """How many tokens to write; ``max_length`` counts what a decoder has before: its prompt, or a start token.

    Raises:
      ValueError: no room for any, or more than the model has positions for.
    """
    is_encoder_decoder = isinstance(model, EncoderDecoder)
    before = 1 if is_encoder_decoder else prompts.shape[1]
    number = max_length - before if max_new_tokens is None else max_new_tokens
    if max_new_tokens is not None:
        check_length(max_new_tokens)
    if number < 1:
        raise ValueError(
            f"max_length={max_length} leaves no room after {before} tokens; raise it, or give max_new_tokens"
        )
    own = getattr(model.config, "decoder_embeddings", None)
    embeddings = own or getattr(model.config, "embeddings", None)
    learned = None if embeddings is None else embeddings.positions
    longest = (1 if is_encoder_decoder else int(mask.sum(axis=1).max())) + number
    if learned is not None and longest - 1 > learned.max_position_embeddings:
        raise ValueError(
            f"prompt and new tokens are up to {longest} long together, the model has "
            f"{learned.max_position_embeddings} learned positions; give a shorter prompt or lower max_new_tokens"
        )
    return number


def widen_prompts(model: Any, ids: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both with columns added that nothing looks at, so that prompts of near lengths share a compiled program."""
    if not isinstance(model, EncoderDecoder):
        return widen(ids, mask, on_the_left=True)
    learned = model.config.embeddings.positions
    return widen(ids, mask, longest=None if learned is None else learned.max_position_embeddings)


def to_sequences(
    model: Any, prompts: np.ndarray, written: np.ndarray, *, start: int, eos_ids: tuple[int, ...]
) -> np.ndarray:
    """What transformers answers: a decoder's prompts, or the start token, before what was written."""
    if isinstance(model, EncoderDecoder):
        return frame(written, start=start, eos_ids=eos_ids)
    new = new_columns(written, eos_ids=eos_ids)
    before = np.repeat(prompts, len(written) // len(prompts), axis=0)
    return np.concatenate([before, new], axis=1)
