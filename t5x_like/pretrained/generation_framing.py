"""What happens to token ids around generation: widened before it, framed after it."""

import numpy as np

# Every new length of the inputs compiles anew; rounded up, nearby lengths share one compiled program.
_INPUT_LENGTH_MULTIPLE = 32


def widen(
    ids: np.ndarray, mask: np.ndarray, *, on_the_left: bool = False, longest: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Both [B, M] with columns added that nothing looks at: to a round length, or the ``longest`` there may be."""
    missing = -ids.shape[1] % _INPUT_LENGTH_MULTIPLE
    if longest is not None:
        missing = min(missing, max(longest - ids.shape[1], 0))
    columns = ((0, 0), (missing, 0) if on_the_left else (0, missing))
    return np.pad(ids, columns), np.pad(mask, columns)


def frame(written: np.ndarray, *, start: int, eos_ids: tuple[int, ...]) -> np.ndarray:
    """``written`` [R, max_new_tokens] behind the ``start`` token, without the columns after the last row's end.

    A row that never ends keeps all its columns, also where it wrote the padding id.
    """
    first = np.full((len(written), 1), start, np.int32)
    return np.concatenate([first, new_columns(written, eos_ids=eos_ids)], axis=1)


def new_columns(written: np.ndarray, *, eos_ids: tuple[int, ...]) -> np.ndarray:
    """``written`` without the columns after the last row's end."""
    ends = np.isin(written, eos_ids)
    lengths = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, written.shape[1])
    return written[:, : lengths.max(initial=0)]


def visible(ids: np.ndarray, *, pad: int | None, eos_ids: tuple[int, ...]) -> np.ndarray:
    """The mask of inputs that came without one: padding is not looked at, unless it also ends sequences."""
    everything = pad is None or pad in eos_ids
    return np.ones(ids.shape, np.int32) if everything else (ids != pad).astype(np.int32)
