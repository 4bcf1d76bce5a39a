"""Learning rates by weight: lower ones near the input, and factors by path.

Layers near the input, pretrained longest, change less: Howard and Ruder 2018, §3.2, https://arxiv.org/abs/1801.06146;
used to fine-tune ELECTRA and XLNet (Clark et al. 2020, appendix B, https://arxiv.org/abs/2003.10555).
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from t5x_like import weight_patterns
from t5x_like.config_class import config_class


@config_class
class LayerDecay:
    """Learning rates that fall from layer to layer towards the input.

    A power of ``factor`` multiplies the rate. It grows by 1 from each layer to the one below, and embeddings come below
    the first layer. Heads and other weights outside layers, such as a stack's last norm, have power 0.

    >>> LayerDecay(factor=1 / 2.6, last_layer_power=1)  # ULMFiT (Howard and Ruder 2018, §3.2)

    Attributes:
      factor: Factor between neighboring layers, above 0 and at most 1.
      last_layer_power: Power of the last layer: 2 as in ELECTRA's code, 1 as in ULMFiT, 0 as in XLNet's code.
    """

    factor: float
    last_layer_power: int = 2

    def __post_init__(self) -> None:
        if not 0 < self.factor <= 1:
            raise ValueError(
                f"layer_decay is {self.factor}; give a factor above 0 and at most 1, such as 0.8"
            )
        if self.last_layer_power < 0:
            raise ValueError(f"last_layer_power is {self.last_layer_power}; give 0, 1, 2 or more")


def rate_factors(
    params: PyTree, layer_decay: LayerDecay | None, rates: Sequence[tuple[str, float]]
) -> PyTree:
    """Return the factor of each weight's learning rate: arrays [1, …], or [N, 1, …] for stacked layers.

    Args:
      params: The model's whole weights, frozen ones included, or their shapes.
      layer_decay: ``None`` for equal rates.
      rates: Pairs of a pattern (``weight_patterns.select``) and a factor. Factors of a weight are multiplied.

    Raises:
      ValueError: A pattern that matches nothing, or a layer decay for a model without stacked layers.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(params)
    flat = {"/".join(str(getattr(part, "key", part)) for part in path): leaf for path, leaf in leaves}
    num_rows = {path: weight_patterns.rows_of(path, leaf.shape) for path, leaf in flat.items()}
    factors = {path: np.ones(max(rows, 1), np.float64) for path, rows in num_rows.items()}
    if layer_decay is not None:
        for path, powers in _powers(num_rows, layer_decay.last_layer_power).items():
            factors[path] *= layer_decay.factor**powers
    for pattern, factor in rates:
        for path, rows in weight_patterns.select((pattern,), num_rows, option="rates").items():
            factors[path] *= np.where(rows, factor, 1.0)

    def shaped(path: str, leaf: jax.Array | jax.ShapeDtypeStruct) -> np.ndarray:
        factor = factors[path].astype(np.float32)
        return factor.reshape(-1, *(1,) * (len(leaf.shape) - 1)) if leaf.shape else factor[0]

    return tree.unflatten([shaped(path, leaf) for path, leaf in flat.items()])


def scale_by_factors(factors: PyTree) -> optax.GradientTransformation:
    """Multiply finished updates.

    Args:
      factors: Factors from ``rate_factors``, or the function that computes them from the updates.
    """

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        del params
        tree = factors(updates) if callable(factors) else factors
        return jax.tree.map(jnp.multiply, updates, tree), state

    return optax.GradientTransformation(lambda _: optax.EmptyState(), update)  # pyright: ignore[reportArgumentType]


def _powers(num_rows: dict[str, int], last_layer_power: int) -> dict[str, np.ndarray]:
    """Return the power of each weight's decay, one for each of its rows."""
    numbers = weight_patterns.layer_numbers(num_rows)
    totals = weight_patterns.num_layers(numbers)
    if not totals:
        raise ValueError("layer_decay needs stacked layers, and this model has none; leave it out")
    embedding = max(totals.values()) + last_layer_power
    powers = {path: np.array([float(embedding)]) for path in num_rows if path.split("/")[0] == "embedding"}
    for path, rows in numbers.items():
        powers[path] = totals[weight_patterns.stack_of(path)] - 1 + last_layer_power - np.array(rows, float)
    return powers
