"""Checks of the arguments of a pretrained model, and conversion of token ids and masks to numpy."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from t5x_like.index_checks import IGNORED, check_some_learned, check_token_ids
from t5x_like.inference.sampling import check_temperature
from t5x_like.nested_values import one_or_several
from t5x_like.value_types import fits


def token_rows(ids: object, name: str, vocab_size: int, *, is_label: bool = False) -> np.ndarray:
    """Return ids as int32 [B, L].

    Args:
      ids: Array or nested lists.
      name: Name of the argument in messages.
      vocab_size: Number of ids.
      is_label: Allow -100.

    Raises:
      ValueError: The ids are no rows of whole numbers, an id has no row in the model, or all labels are -100.
    """
    try:
        rows = np.asarray(ids)
    except ValueError as error:
        raise ValueError(f"the rows of {name} differ in length; pad them, and mask the padding") from error
    if rows.ndim != 2 or not rows.shape[1]:
        raise ValueError(f"{name} has shape {rows.shape}; give rows of token ids, [batch, length]")
    if rows.dtype.kind not in "iu":
        raise ValueError(f"{name} holds {rows.dtype}; token ids are whole numbers")
    if not len(rows):
        raise ValueError(f"{name} has shape {rows.shape}, an empty batch; give at least one row")
    check_token_ids(rows, name, vocab_size, allowed=(IGNORED,) if is_label else ())
    if is_label:
        check_some_learned(rows, name)
    return rows.astype(np.int32)


def is_text(arguments: object) -> bool:
    """Return whether a call is given a text, or a list of texts, in place of token ids."""
    texts = one_or_several(arguments)
    return bool(texts) and all(isinstance(each, str) for each in texts)


def mask_rows(mask: object, name: str, ids: np.ndarray) -> np.ndarray | None:
    """Return a mask as int32 of 0 and 1.

    Args:
      mask: Array or nested lists; None stays None.
      name: Name of the argument in messages.
      ids: Array with the shape of the mask.

    Raises:
      ValueError: The mask has another shape, or other numbers.
    """
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.shape != ids.shape:
        raise ValueError(
            f"{name} is a mask of shape {mask.shape} for ids of shape {ids.shape}; give a 0 or 1 for each"
        )
    if not np.isin(mask, (0, 1)).all():
        raise ValueError(
            f"{name} holds {mask[~np.isin(mask, (0, 1))][0]}; give 1 where a token is real and 0 elsewhere"
        )
    return mask.astype(np.int32)


def shift_right(labels: np.ndarray, *, start: int | np.ndarray, pad: int) -> np.ndarray:
    """Return the decoder's inputs for labels.

    Args:
      labels: Token ids; -100 where there is nothing to learn.
      start: First id of all rows, or of each row, [B, 1].
      pad: Id in place of -100.
    """
    first = np.full((len(labels), 1), start, labels.dtype)
    shifted = np.concatenate([first, labels[:, :-1]], axis=1)
    return np.where(shifted == IGNORED, pad, shifted)


def check_rows(inputs: np.ndarray, outputs: np.ndarray, targets: np.ndarray | None) -> None:
    """Refuse streams that don't belong to the same examples.

    Args:
      inputs: Encoder's token ids.
      outputs: Decoder's token ids.
      targets: Labels of the decoder; None without.
    """
    if len(inputs) != len(outputs):
        raise ValueError(
            f"input_ids has {len(inputs)} rows, the decoder's tokens {len(outputs)}; give as many"
        )
    if targets is not None and targets.shape != outputs.shape:
        raise ValueError(
            f"labels has shape {targets.shape}, decoder_input_ids {outputs.shape}; give a label for each id"
        )


def check_generation(
    *,
    num_beams: int,
    num_return_sequences: int,
    do_sample: bool,
    temperature: float,
    top_k: int | None,
    early_stopping: object,
) -> None:
    """Refuse settings out of their range, and those that exclude each other.

    Args:
      num_beams: Number of beams.
      num_return_sequences: Number of texts for each input.
      do_sample: Draw tokens.
      temperature: Divisor of the logits.
      top_k: Number of tokens to draw from.
      early_stopping: Condition that ends beam search.
    """
    if num_beams < 1 or num_return_sequences < 1:
        raise ValueError(
            f"num_beams={num_beams} and num_return_sequences={num_return_sequences}: give at least 1"
        )
    if do_sample and num_beams > 1:
        raise ValueError("do_sample and num_beams > 1 exclude each other here")
    check_temperature(temperature)
    if not fits(top_k, int | None):
        raise ValueError(f"top_k is {top_k}; keep a whole number of tokens, or 0 for all")
    if do_sample and temperature == 0:
        raise ValueError(f"temperature is {temperature}; sampling needs a positive one")
    if num_return_sequences > 1 and num_beams == 1 and not do_sample:
        raise ValueError("greedy decoding writes one sequence a row; use num_beams or do_sample for more")
    if early_stopping not in (True, False, "never"):
        raise ValueError(f'early_stopping is {early_stopping!r}; give True, False or "never"')


def argument_names(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of a function's arguments."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(known.name for known in parameters if known.kind is not inspect.Parameter.VAR_KEYWORD)


def refuse_unknown(arguments: Iterable[str], names: Sequence[str]) -> None:
    """Refuse arguments with unknown names, and suggest the nearest name.

    Args:
      arguments: Names in the call.
      names: Known names.

    Raises:
      TypeError: An argument is not among ``names``.
    """
    for name in arguments:
        if name in names:
            continue
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise TypeError(f"no argument {name!r}; {hint}")


def numbers(values: object, name: str) -> np.ndarray:
    """Return values as int32 or float32.

    Args:
      values: Array or nested lists.
      name: Name of the argument in messages.

    Raises:
      ValueError: The values are ragged, or no numbers.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"the rows of {name} differ in length; pad them") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} holds {array.dtype}; give numbers")
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int32)
