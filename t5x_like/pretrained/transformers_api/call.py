"""Arguments and outputs by the names of transformers, for all families."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from t5x_like.model.families.family import FamilyName
from t5x_like.model.model_traits import traits_of
from t5x_like.model.named_activations import HIDDEN_STATES
from t5x_like.model.parameters import ModelConfig
from t5x_like.pretrained.transformers_api.call_arguments import mask_rows, token_rows
from t5x_like.text.vocabularies.special_token_ids import SpecialTokenIds

# Names of outputs that may be absent.
_OPTIONAL = (
    "loss",
    "hidden_states",
    "encoder_hidden_states",
    "decoder_hidden_states",
    "pooler_output",
    "mems",
    "sequences_scores",
)


class Context(NamedTuple):
    """Facts of the model that reading arguments needs."""

    config: Any
    special_ids: SpecialTokenIds


class Call(Protocol):
    """Call of a family: checks arguments outside of ``jax.jit``, computes inside of it."""

    ARGUMENTS: tuple[str, ...]

    @staticmethod
    def read(arguments: dict[str, PyTree], context: Context) -> dict[str, PyTree]:
        """Return the checked arguments as numpy arrays by name.

        Args:
          arguments: Arguments of the call by name.
          context: Facts of the model.
        """
        ...

    @staticmethod
    def compute(model: Any, config: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return outputs under transformers' names.

        Args:
          model: Model with its weights.
          config: Configuration of the model.
          inputs: Result of ``read``.
        """
        ...


def read_ids(arguments: Mapping[str, PyTree], names: dict[str, int], read: dict[str, PyTree]) -> None:
    """Add arrays of ids, each below its number of ids, in the shape of ``input_ids``.

    Args:
      arguments: Arguments of the call by name.
      names: Number of ids of each argument to read.
      read: Arrays by name, to which arrays are added; it has ``input_ids``.

    Raises:
      ValueError: The arrays have another shape, or ids out of range.
    """
    for name, num_ids in names.items():
        if arguments.get(name) is not None:
            rows = token_rows(arguments[name], name, num_ids)
            if rows.shape != read["input_ids"].shape:
                raise ValueError(
                    f"{name} has shape {rows.shape}, input_ids {read['input_ids'].shape}; give one for each token"
                )
            read[name] = rows


def read_mask(mask: object, ids: np.ndarray) -> dict[str, np.ndarray]:
    """Read ``attention_mask``.

    Args:
      mask: Array [B, L] with 1 for real tokens, or [B, L, M] with 1 where attention is allowed; None for no padding.
      ids: Token ids [B, L].
    """
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
            "attention_mask [batch, from, to] holds more than 0 and 1; give 1 where attention is allowed"
        )
    return {"attention_mask": mask > 0}


def hidden_states(
    captured: Mapping[str, jax.Array], family: FamilyName, config: ModelConfig
) -> dict[str, tuple[jax.Array, ...]]:
    """Return captured hidden states as transformers' tuples, by its names.

    Args:
      captured: Hidden states of each stack, with a leading axis of layers.
      family: Family of the model.
      config: Configuration of the model.
    """
    stacks = {name.removesuffix(f"/{HIDDEN_STATES}"): tuple(stacked) for name, stacked in captured.items()}
    if family.endswith("encoder_decoder"):
        return {f"{stack}_{HIDDEN_STATES}": states for stack, states in stacks.items()}
    states = stacks["encoder" if "encoder" in stacks else "decoder"]
    if "encoder/queries" in stacks:  # those of a layer's content are followed by those of its queries
        pairs = zip(states, stacks["encoder/queries"], strict=True)
        states = tuple(stream for pair in pairs for stream in pair)
    # Of layers that consist of several blocks (ALBERT's inner groups), transformers shows what leaves the last.
    return {HIDDEN_STATES: states[:: traits_of(config).inner_group_num]}


class Outputs(dict[str, Any]):
    """Numpy arrays under Hugging Face's names, as attributes or by key.

    Outputs that were not requested are ``None`` as attributes and absent as keys, as in transformers.
    """

    def __getattr__(self, name: str) -> Any:
        if name in self or name in _OPTIONAL:
            return self.get(name)
        raise AttributeError(f"no {name!r} here; there are {', '.join(self)}")


def to_outputs(computed: Mapping[str, object]) -> Outputs:
    """Return arrays, or tuples of them, from any device as float32 numpy arrays."""
    return Outputs(
        {
            name: jax.tree.map(lambda array: np.asarray(array, np.float32), value)
            for name, value in computed.items()
        }
    )


def our_memory(inputs: Mapping[str, PyTree]) -> jax.Array | None:
    """Return ``mems``, [time, batch, model] for each layer, as [layers, batch, time, model]."""
    if "mems" not in inputs:
        return None
    return jnp.swapaxes(jnp.stack([jnp.asarray(layer) for layer in inputs["mems"]]), 1, 2)


def their_memory(memory: jax.Array | None) -> tuple[jax.Array, ...]:
    """Return segment memory as transformers' tuple of layers, the inverse of ``our_memory``."""
    assert memory is not None, "it was asked for"
    return tuple(jnp.swapaxes(memory, 1, 2))
