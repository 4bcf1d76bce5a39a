"""Prompts before ``generate`` and sequences after it, in transformers' forms."""

from typing import NamedTuple

import numpy as np

from t5x_like.index_checks import check_token_ids
from t5x_like.inference.beam_search import EarlyStopping, PowerLengthPenalty
from t5x_like.inference.decodable import check_length
from t5x_like.inference.length_batches import pad_prompts, round_length
from t5x_like.model.model_traits import learned_positions, traits_of
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.speecht5 import SpeechT5Config
from t5x_like.pretrained.transformers_api.call_arguments import mask_rows, token_rows
from t5x_like.pretrained.transformers_api.speech_arguments import read_encoder_inputs
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds

_DEFAULT_NEW_TOKENS = 20  # of transformers, where neither arguments nor files set a length


class Prompts(NamedTuple):
    """Prompts of one call.

    Attributes:
      ids: Ids of the prompts, int32 [B, M], or waveforms, float32 [B, S].
      mask: Mask of the prompts, int32 of the same shape, 1 where a token or sample is real.
      in_encoder: Whether an encoder reads them, and the decoder begins with a start token.
    """

    ids: np.ndarray
    mask: np.ndarray
    in_encoder: bool

    @property
    def num_before(self) -> int:
        """Tokens that the decoder has before it writes, padding included."""
        return 1 if self.in_encoder else self.ids.shape[1]

    def num_new_tokens(
        self, config: ModelConfig, *, max_new_tokens: int | None, max_length: int | None
    ) -> int:
        """Return the number of tokens to write; without a limit as many as transformers.

        Args:
          config: Configuration of the model, for its positions.
          max_new_tokens: Number of new tokens, if given.
          max_length: Length that counts the prompt or the start token, too.

        Raises:
          ValueError: There is space for none, or they are more than the model has positions for.
        """
        if max_new_tokens is not None:
            check_length(max_new_tokens)
        if max_length is None:
            max_length = self.num_before + _DEFAULT_NEW_TOKENS
            max_length = min(max_length, traits_of(config).max_position_embeddings or max_length)
        num_new = max_length - self.num_before if max_new_tokens is None else max_new_tokens
        if num_new < 1:
            raise ValueError(
                f"max_length={max_length} leaves no space after {self.num_before} tokens; raise it, or give "
                "max_new_tokens"
            )
        learned = learned_positions(config)
        longest = (1 if self.in_encoder else int(self.mask.sum(axis=1).max())) + num_new
        if learned is not None and longest - 1 > learned:
            raise ValueError(
                f"prompt and new tokens are up to {longest} long together, the model has "
                f"{learned} learned positions; give a shorter prompt or lower max_new_tokens"
            )
        return num_new

    def widened(self, config: ModelConfig) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and mask with more padding, so that prompts of similar lengths share a compiled program.

        Waveforms stay as they are, because norms over time count padding.
        """
        if self.ids.dtype.kind == "f":
            return self.ids, self.mask
        longest = learned_positions(config) if self.in_encoder else None
        length, on_the_left = round_length(self.ids.shape[1], longest), not self.in_encoder
        ids, mask = (
            pad_prompts(rows, length=length, on_the_left=on_the_left)[0] for rows in (self.ids, self.mask)
        )
        return ids, mask

    def sequences(self, new: np.ndarray, *, start: int, eos_ids: tuple[int, ...]) -> np.ndarray:
        """Return what transformers returns: a decoder's prompts, or the start token, before the new tokens.

        Args:
          new: New tokens, int32 [R, max_new_tokens]; R is a multiple of B.
          start: Id of the start token.
          eos_ids: Ids of which each ends a row.
        """
        if self.in_encoder:
            return frame(new, start=start, eos_ids=eos_ids)
        before = np.repeat(self.ids, len(new) // len(self.ids), axis=0)
        return np.concatenate([before, _new_columns(new, eos_ids=eos_ids)], axis=1)


def read_prompts(
    input_ids: object,
    attention_mask: object,
    config: ModelConfig,
    special: SpecialTokenIds,
    eos_ids: tuple[int, ...],
    pad: int | None,
    *,
    in_encoder: bool,
) -> Prompts:
    """Check the prompts of a call.

    Args:
      input_ids: Rows of ids; without any, ``bos`` begins a text.
      attention_mask: Mask with 1 where a token is real; without it, padding is not attended to.
      config: Configuration of the model.
      special: Special ids of the model.
      eos_ids: Ids that end a text.
      pad: Id of padding, if there is one.
      in_encoder: Whether an encoder reads the prompts.

    Raises:
      ValueError: Ids or masks make no sense, or there is no prompt and nothing to start with.
    """
    if input_ids is None:
        if special.bos is None:
            raise ValueError("generate needs input_ids: this model has no id that begins a text")
        input_ids = [[special.bos]]
    if in_encoder:
        check_token_ids(special.decoder_start, "decoder_start_token_id of config.json", config.vocab_size)
    ids = token_rows(input_ids, "input_ids", config.vocab_size)
    mask = mask_rows(attention_mask, "attention_mask", ids)
    return Prompts(ids, visible(ids, pad=pad, eos_ids=eos_ids) if mask is None else mask, in_encoder)


def read_waveforms(arguments: dict[str, object], config: SpeechT5Config, special: SpecialTokenIds) -> Prompts:
    """Check the waveforms of a call that transcribes them.

    Args:
      arguments: ``input_values`` or ``input_ids``, and ``attention_mask``.
      config: Configuration of the model.
      special: Special ids of the model.

    Raises:
      ValueError: There are none, or they make no sense.
    """
    if arguments["input_values"] is None and arguments["input_ids"] is None:
        raise ValueError("generate needs input_values, [batch, samples]")
    check_token_ids(special.decoder_start, "decoder_start_token_id of config.json", config.vocab_size)
    read = read_encoder_inputs(arguments, config)
    waveforms = read["waveforms"]
    lengths = read.get("num_samples", np.full(len(waveforms), waveforms.shape[1]))
    mask = (np.arange(waveforms.shape[1]) < lengths[:, None]).astype(np.int32)
    return Prompts(waveforms, mask, in_encoder=True)


def check_special_ids(
    config: ModelConfig, *, eos_token_id: int | list[int] | None, pad_token_id: int | None
) -> None:
    """Check the special ids of a call, which no token could otherwise equal, or which have no embedding.

    Args:
      config: Configuration of the model.
      eos_token_id: Ids that end a sequence.
      pad_token_id: Id of padding.

    Raises:
      ValueError: An id is out of range.
    """
    for name, ids in {"eos_token_id": eos_token_id, "pad_token_id": pad_token_id}.items():
        if ids is not None:
            check_token_ids(ids, name, config.vocab_size)


def padding_of(pad_token_id: int | None, special: SpecialTokenIds, eos_ids: tuple[int, ...]) -> int | None:
    """Return the id of padding; a model that has none pads with the id that ends a sequence, if there is one.

    Args:
      pad_token_id: Argument of the call; None if absent.
      special: Special ids of the model.
      eos_ids: Ids that end a sequence in this call.
    """
    if pad_token_id is not None:
        return pad_token_id
    if special.pad is not None:
        return special.pad
    return eos_ids[0] if eos_ids else None


def search_settings(
    *,
    do_sample: bool,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    num_beams: int,
    length_penalty: float,
    early_stopping: EarlyStopping,
    num_return_sequences: int,
) -> dict[str, object]:
    """Return the arguments of ``beam_search`` or ``sample``; none of them for greedy decoding.

    Args:
      do_sample: Draw tokens.
      temperature: Divisor of the logits.
      top_k: Number of best tokens to draw from; 0 or None for all.
      top_p: Probability of the best tokens to draw from; None for all.
      num_beams: Number of beams; 1 for no beam search.
      length_penalty: Exponent of the length that scores are divided by.
      early_stopping: Condition that ends beam search.
      num_return_sequences: Number of texts for each input.
    """
    if num_beams > 1:
        return {
            "num_beams": num_beams,
            "length_penalty": PowerLengthPenalty(length_penalty),
            "early_stopping": early_stopping,
            "num_return_sequences": num_return_sequences,
        }
    return {"temperature": temperature, "top_k": top_k or None, "top_p": top_p} if do_sample else {}


def frame(rows: np.ndarray, *, start: int, eos_ids: tuple[int, ...]) -> np.ndarray:
    """Return generated ids after a first token, without columns after the last row's end.

    A row that never ends keeps all its columns, also where it has the padding id.

    Args:
      rows: Generated ids [R, max_new_tokens].
      start: First id of each row.
      eos_ids: Ids that end a sequence.
    """
    first = np.full((len(rows), 1), start, np.int32)
    return np.concatenate([first, _new_columns(rows, eos_ids=eos_ids)], axis=1)


def _new_columns(rows: np.ndarray, *, eos_ids: tuple[int, ...]) -> np.ndarray:
    """Return generated ids without the columns after the last row's end."""
    ends = np.isin(rows, eos_ids)
    lengths = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, rows.shape[1])
    return rows[:, : lengths.max(initial=0)]


def visible(ids: np.ndarray, *, pad: int | None, eos_ids: tuple[int, ...]) -> np.ndarray:
    """Return the mask of inputs that came without one: padding is 0, unless it also ends sequences.

    Args:
      ids: Token ids.
      pad: Id of padding; None for a model without.
      eos_ids: Ids that end a sequence.
    """
    everything = pad is None or pad in eos_ids
    return np.ones(ids.shape, np.int32) if everything else (ids != pad).astype(np.int32)
