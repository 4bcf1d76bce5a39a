"""A model's weights as a plain nested dict: their shapes, axis names, trained and frozen parts."""

import fnmatch
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import jax
from flax import nnx

Parameters = dict[str, Any]  # nested; leaves are arrays [*shape]
Axes = dict[str, Any]  # the same tree; leaves are tuples with one axis name for each dimension


@runtime_checkable
class ModelConfig(Protocol):
    """Configuration of a model; those of published architectures are in ``model/zoo``."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        ...

    def build(self, key: jax.Array) -> Any:
        """Build the model with fresh weights drawn from ``key``."""
        ...


def split(model: nnx.Module) -> tuple[Any, Parameters]:
    """Return the model's structure and its weights."""
    graphdef, state = nnx.split(model)
    return graphdef, nnx.to_pure_dict(state)


def merge(graphdef: Any, params: Parameters) -> Any:
    """Return the model of a structure and weights; works inside ``jax.jit``."""
    return nnx.merge(graphdef, params)


def axes_of(model: nnx.Module) -> Axes:
    """Return the axis names of every weight; those of stacked layers begin with ``"layers"``."""

    def names(variable: nnx.Variable) -> tuple[str, ...]:
        axes = variable.get_metadata()["axes"]
        return ("layers",) * (len(variable.shape) - len(axes)) + tuple(axes)

    state = nnx.split(model)[1]
    flat = {path: names(variable) for path, variable in nnx.to_flat_state(state)}
    return unflatten({"/".join(map(str, path)): axes for path, axes in flat.items()})


def abstract(config: ModelConfig) -> tuple[Any, Parameters, Axes]:
    """Return structure, shapes (``jax.ShapeDtypeStruct``) and axis names of a model, without allocating it."""
    model = jax.eval_shape(config.build, jax.random.key(0))
    graphdef, shapes = split(model)
    return graphdef, shapes, axes_of(model)


def flatten(params: Parameters, prefix: str = "") -> dict[str, Any]:
    """Join nested keys: ``{"encoder": {"final_norm": {"scale": x}}}`` becomes ``{"encoder/final_norm/scale": x}``."""
    flat: dict[str, Any] = {}
    for name, value in params.items():
        flat |= flatten(value, f"{prefix}{name}/") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def unflatten(flat: dict[str, Any]) -> Parameters:
    """Return nested weights from flat ones: the inverse of ``flatten``."""
    params: Parameters = {}
    for path, value in flat.items():
        *folders, name = path.split("/")
        inner = params
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[name] = value
    return params


def partition(params: Parameters, trainable: Sequence[str]) -> tuple[Parameters, Parameters]:
    """Split weights, or any tree like them, into trained and frozen ones.

    >>> partition({"encoder": {"kernel": 1}, "heads": {"bias": 2}}, ("heads/*",))
    ({'heads': {'bias': 2}}, {'encoder': {'kernel': 1}})

    Args:
      params: Nested weights. Stacked layers are one weight, so they train together.
      trainable: Patterns of ``fnmatch`` for paths such as ``"heads/scores/sequence_classification/projection/bias"``;
        a ``*`` also matches slashes.

    Raises:
      ValueError: A pattern matches nothing.
    """
    flat = flatten(params)
    for pattern in trainable:
        if not any(fnmatch.fnmatchcase(path, pattern) for path in flat):
            parts = sorted({"/".join(path.split("/")[:2]) for path in flat})
            raise ValueError(
                f"trainable={pattern!r} matches no weight of this model; patterns such as 'heads/*' are matched with "
                f"whole paths, which begin with {', '.join(parts)}"
            )
    trains = {path for path in flat if any(fnmatch.fnmatchcase(path, pattern) for pattern in trainable)}
    trained = {path: leaf for path, leaf in flat.items() if path in trains}
    return unflatten(trained), unflatten({path: leaf for path, leaf in flat.items() if path not in trains})


def combine(*parts: Parameters) -> Parameters:
    """Join parts of a model's weights, such as trained and frozen ones."""
    return unflatten({path: leaf for part in parts for path, leaf in flatten(part).items()})
