"""How a family of models is called by the names of transformers."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from t5x_like.pretrained.call_arguments import mask_rows, token_rows
from t5x_like.pretrained.special_ids import SpecialIds


class Context(NamedTuple):
    """What reading arguments needs to know of the model."""

    config: Any
    special_ids: SpecialIds


class Call(Protocol):
    """Checks arguments outside of ``jax.jit``, computes inside of it."""

    ARGUMENTS: tuple[str, ...]

    @staticmethod
    def read(given: dict[str, Any], context: Context) -> dict[str, Any]:
        """Numpy arrays by name, checked; absent ones are missing."""
        ...

    @staticmethod
    def compute(model: Any, config: Any, inputs: dict[str, Any], collect_hidden: bool) -> dict[str, Any]:
        """Outputs under transformers' names."""
        ...


def read_ids(given: dict[str, Any], names: dict[str, int], read: dict[str, Any]) -> None:
    """Adds arrays of ids, each below its number of ids, in the shape of ``input_ids``.

    Raises:
      ValueError: another shape, or ids out of range.
    """
    for name, num_ids in names.items():
        if given.get(name) is not None:
            rows = token_rows(given[name], name, num_ids)
            if rows.shape != read["input_ids"].shape:
                raise ValueError(
                    f"{name} has shape {rows.shape}, input_ids {read['input_ids'].shape}; give one for each token"
                )
            read[name] = rows


def read_mask(mask: Any, ids: np.ndarray) -> dict[str, np.ndarray]:
    """``attention_mask`` [B, L] of what is real, or [B, L, M] of who may look at whom."""
    if mask is None:
        return {}
    mask = np.asarray(mask)
    if mask.ndim != 3:
        rows = mask_rows(mask, "attention_mask", ids)
        assert rows is not None
        return {"segment_ids": rows}
    wanted = (*ids.shape, ids.shape[1])
    if mask.shape != wanted:
        raise ValueError(f"attention_mask has shape {mask.shape}; for ids of shape {ids.shape} give {wanted}")
    if not np.isin(mask, (0, 1)).all():
        raise ValueError(
            "attention_mask [batch, from, to] holds more than 0 and 1; give 1 where a look is allowed"
        )
    return {"attention_mask": mask > 0}


def hidden_states(stacked: Any, name: str) -> dict[str, Any]:
    """A stack's hidden states as transformers' tuple, if they were collected."""
    return {} if stacked is None else {name: tuple(stacked)}
