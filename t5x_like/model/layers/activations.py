"""The functions between two projections, by the names that papers use."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import jax

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "tanh"]

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": jax.nn.relu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": partial(jax.nn.gelu, approximate=True),  # Hendrycks and Gimpel 2016, §2
    "silu": jax.nn.silu,
    "tanh": jax.numpy.tanh,
}
