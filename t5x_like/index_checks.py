"""Checks of ids, labels and positions that come from outside, before JAX reads them.

JAX clamps indices out of range, or fills in NaN, and says nothing. So every place where such numbers enter checks them
once, on the host.
"""

from collections.abc import Collection, Sequence

import numpy as np

IGNORED = -100  # Hugging Face's label for positions that are not to be learned


def check_indices(
    values: object,
    name: str,
    size: int,
    *,
    allowed: Collection[int] = (),
    wanted: str = "it must be",
    advice: str = "",
) -> None:
    """Check that whole numbers are indices of a table.

    Args:
      values: Whole numbers of any shape, not traced by JAX.
      name: Name of the numbers, for the message.
      size: Number of rows of the table.
      allowed: Further numbers with a meaning of their own, such as -100.
      wanted: Words before the range in the message.
      advice: Sentence that says what to do, for the message.

    Raises:
      ValueError: One is no whole number, is negative, or is ``size`` or more. The message has the number and the range.
    """
    array = np.asarray(values)
    if not array.size:
        return
    if array.dtype.kind not in "biu":
        raise ValueError(f"{name} holds {array.dtype}; give whole numbers")
    outside = (array < 0) | (array >= size)
    if allowed and outside.any():
        outside &= ~np.isin(array, tuple(allowed))
    if outside.any():
        also = "".join(f", or {index}" for index in sorted(allowed))
        hint = f". {advice}" if advice else ""
        raise ValueError(f"{name} holds {array[outside][0]}; {wanted} 0 … {size - 1}{also}{hint}")


def check_token_ids(ids: object, name: str, vocab_size: int, *, allowed: Collection[int] = ()) -> None:
    """Check that a model has a row for each token id.

    Args:
      ids: Whole numbers of any shape.
      name: Name of the ids, for the message.
      vocab_size: Size of the model's vocabulary.
      allowed: Further numbers with a meaning of their own.

    Raises:
      ValueError: An id is out of range; see ``check_indices``.
    """
    advice = "Others come from another vocabulary; use the model's own tokenizer"
    check_indices(ids, name, vocab_size, allowed=allowed, wanted="the model has the ids", advice=advice)


def check_labels(labels: np.ndarray, name: str, size: int, shape: Sequence[int]) -> None:
    """Check labels of a cross entropy: classes from 0, and -100 where there is nothing to learn.

    Args:
      labels: Labels.
      name: Name of the labels, for the message.
      size: Number of classes.
      shape: Shape that the labels must have.

    Raises:
      ValueError: Another shape, a label out of range, or no label but -100.
    """
    check_shape(labels, name, shape)
    check_indices(labels, name, size, allowed=(IGNORED,), advice=f"{IGNORED} marks what is not learned")
    check_some_learned(labels, name)


def check_some_learned(labels: np.ndarray, name: str) -> None:
    """Check that a loss has something to average.

    Args:
      labels: Class ids; -100 where there is nothing to learn.
      name: Name of the argument in messages.

    Raises:
      ValueError: All labels are -100, or there are none.
    """
    if (labels == IGNORED).all():
        raise ValueError(
            f"{name} has no label but {IGNORED}, so that there is nothing to learn and no loss; leave {name} out, or "
            "leave out these rows"
        )


def check_shape(values: np.ndarray, name: str, shape: Sequence[int]) -> None:
    """Check the shape of an array.

    Args:
      values: Array to check.
      name: Name of the argument in messages.
      shape: Right shape.

    Raises:
      ValueError: It has another.
    """
    if values.shape != tuple(shape):
        raise ValueError(f"{name} has shape {values.shape}; give {tuple(shape)}")


def check_seed(seed: int) -> None:
    """Check that a seed is one that JAX reads whole; of larger ones it keeps the last 32 bits, without a word.

    Args:
      seed: Seed of random numbers.

    Raises:
      ValueError: It is no whole number, is negative, or has more bits.
    """
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ValueError(f"seed is {seed!r}; give a whole number, 0 … {2**32 - 1}")
