"""Hidden states of a model's stacks, captured by name."""

from typing import Any

import jax

from t5x_like.batch import Batch
from t5x_like.model.named_activations import record


@jax.jit
def hidden_states(model: Any, batch: Batch, key: jax.Array | None = None) -> dict[str, jax.Array]:
    """Return the input of each layer, then the output, by stack."""
    with record(("*/hidden_states",)) as captured:
        model(batch, dropout_key=key)
    return {name.removesuffix("/hidden_states"): states for name, states in captured.items()}
