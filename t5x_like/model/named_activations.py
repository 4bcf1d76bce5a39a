"""Activations by name: captured, and edited in place, while a model runs.

Layers name what they compute: ``x = observe("activations", x)``. That is ``x`` itself, and the program is the same as
without, unless a ``record`` is open:

>>> with record(("*/hidden_states",)) as captured:
...     predictions = model(batch)
>>> captured["encoder/hidden_states"]

Names are paths of scopes. Of a stack of N layers that the model calls ``encoder`` there are

===========================================  ===================  ==================================================
``encoder/hidden_states``                    [N + 1, B, L, D]     input of each layer, then the stack's output
``encoder/layer_outputs``                    [N, B, L, D]         outputs of layers, before a norm that ends the stack
``encoder/feed_forward/inputs``              [N, B, L, D]         inputs of feed-forward layers, after a norm before
``encoder/feed_forward/activations``         [N, B, L, F]         inner activations, after the nonlinearity and gate
``encoder/self_attention/probabilities``     [N, B, H, L, M]      attention weights, before dropout
``decoder/cross_attention/probabilities``    [N, B, H, L, M]      the same, over the encoder's output
===========================================  ===================  ==================================================

Recurrent layers have hidden states alone. Layers narrower than the widest end with zeros.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# From an activation and the number of its layer, which is traced in a loop, to the activation that takes its place.
Edit: TypeAlias = Callable[[Array, Array | int], Array]
Edits: TypeAlias = Mapping[str, Edit]

HIDDEN_STATES = "hidden_states"
PROBABILITIES = ("self_attention/probabilities", "cross_attention/probabilities")


class AffineEdit(NamedTuple):
    """An edit by arrays: ``x * factors[layer] + offsets[layer]``. Gradients reach both.

    Attributes:
      factors: One array for each layer, which broadcasts to its activation: [N, F] of feed-forward activations, or
        [N, B, L, 1] to change some positions alone. ``None`` for 1.
      offsets: One array for each layer. ``None`` for 0.
    """

    factors: Float[Array | np.ndarray, "N ..."] | None = None
    offsets: Float[Array | np.ndarray, "N ..."] | None = None

    def __call__(self, x: Array, layer: Array | int) -> Array:
        """Return the edited activation of a layer."""

        def of_layer(stacked: Array | np.ndarray) -> Array:
            return jnp.broadcast_to(jnp.asarray(stacked)[layer], x.shape)

        edited = x if self.factors is None else x * of_layer(self.factors)
        return edited if self.offsets is None else edited + of_layer(self.offsets)


@dataclass
class _Layer:
    """The layer that is traced.

    Attributes:
      number: Its number in the stack, which may be traced.
      num_layers: Number of layers in the stack.
      captured: Its activations by name.
    """

    number: Array | int
    num_layers: int
    captured: dict[str, Array] = field(default_factory=dict)


@dataclass
class _Record:
    """State of an open record.

    Attributes:
      capture: Patterns of names to capture.
      edits: Edits by patterns of names.
      scope: Path of the open scopes, with a slash at its end; empty where activations have no name.
      num_virtual: Number of virtual tokens that begin the rows of the stack, which are not returned.
      layer: The layer that is traced; ``None`` between layers.
      captured: Captured activations by name, each with a leading layers axis.
      names: All names of activations so far, and whether each can be edited.
    """

    capture: tuple[str, ...]
    edits: Edits
    scope: str = ""
    num_virtual: int = 0
    layer: _Layer | None = None
    captured: dict[str, list[Array]] = field(default_factory=dict)
    names: dict[str, bool] = field(default_factory=dict)

    def inside(self, outer: "_Record") -> "_Record":
        """Return a record that captures and edits what another one does, too; the other's edits come first."""
        return _Record((*outer.capture, *self.capture), {**outer.edits, **self.edits})

    def edited(self, name: str, x: Array, layer: Array | int, num_layers: int) -> Array:
        """Return an activation after the edits that its name matches."""
        self.names[name] = True
        for pattern, edit in self.edits.items():
            if fnmatchcase(name, pattern):
                _check_arrays(edit, name, (num_layers, *x.shape))
                changed = jnp.asarray(edit(x, layer))
                if changed.shape != x.shape:
                    raise ValueError(
                        f"the edit of {name} returns an array of shape {changed.shape} in place of {x.shape}; return "
                        "one of the same shape"
                    )
                x = changed.astype(x.dtype)
        return x

    def keep(self, name: str, stacked: Array) -> None:
        """Keep activations of several layers, if they are to be captured."""
        self.names.setdefault(name, False)
        if self.captures(name):
            self.captured.setdefault(name, []).append(stacked[..., self.num_virtual :, :])

    def captures(self, name: str) -> bool:
        """Return whether activations of this name are captured."""
        return any(fnmatchcase(name, pattern) for pattern in self.capture)

    def check(self) -> None:
        """Refuse patterns that matched nothing."""
        for option, patterns, names in (
            ("capture", self.capture, list(self.names)),
            ("edits", self.edits, [name for name, can_be_edited in self.names.items() if can_be_edited]),
        ):
            for pattern in patterns:
                if not any(fnmatchcase(name, pattern) for name in names):
                    raise ValueError(
                        f"{option}: {pattern!r} matches no activation; there are {', '.join(sorted(names)) or 'none'}"
                    )


_RECORD: ContextVar[_Record | None] = ContextVar("record", default=None)


@contextmanager
def record(capture: Sequence[str] = (), edits: Edits | None = None) -> Iterator[dict[str, Array]]:
    """Capture and edit the activations of one call of a model.

    Open it inside of a function that ``jax.jit`` or ``jax.grad`` transforms, and return what it captured from there.
    Attention whose probabilities are captured or edited is computed plainly, whatever ``attention_implementation`` is.
    Inside of another record, that one captures and edits, too.

    Args:
      capture: Names of activations, or patterns of ``fnmatch`` such as ``"*/feed_forward/activations"``.
      edits: Edits by name or pattern, which are applied in order. An activation is captured after its edits.

    Yields:
      A dict that holds the captured activations by name once the context has closed.

    Raises:
      ValueError: A name or pattern matches no activation of the model; names those that there are.
    """
    if isinstance(capture, str):
        raise ValueError(f"capture is the text {capture!r}; give a tuple of names")
    own, outer = _Record(tuple(capture), dict(edits or {})), _RECORD.get()
    opened = own if outer is None else own.inside(outer)
    captured: dict[str, Array] = {}
    token = _RECORD.set(opened if opened.capture or opened.edits else None)
    try:
        yield captured
    finally:
        _RECORD.reset(token)
    own.names |= opened.names
    own.check()
    if outer is not None:
        outer.names |= opened.names
        outer.captured |= {name: parts for name, parts in opened.captured.items() if outer.captures(name)}
    captured.update((name, _joined(parts)) for name, parts in opened.captured.items() if own.captures(name))


def as_arguments(edits: Edits) -> OrderedDict[str, Edit]:
    """Return edits that a jitted function can take as an argument: arrays are traced, functions compared."""
    return OrderedDict(  # JAX would sort the names of another dict, and edits of one activation follow their order
        (name, edit if isinstance(edit, AffineEdit | jax.tree_util.Partial) else jax.tree_util.Partial(edit))
        for name, edit in edits.items()
    )


@contextmanager
def scope(name: str, *, num_virtual: int = 0) -> Iterator[None]:
    """Put ``name/`` before the names of the activations inside.

    Args:
      name: Name of a stack, or of a part of a layer.
      num_virtual: Number of virtual tokens before the real ones of each row, which are not returned.
    """
    opened = _RECORD.get()
    if opened is None:
        yield
        return
    before = opened.scope, opened.num_virtual
    opened.scope, opened.num_virtual = f"{opened.scope}{name}/", opened.num_virtual + num_virtual
    try:
        yield
    finally:
        opened.scope, opened.num_virtual = before


@contextmanager
def layer(index: Array | int, num_layers: int) -> Iterator[dict[str, Array]]:
    """Collect the activations of one layer.

    The body of a loop returns them as outputs of the loop, because values can't leave it in another way.

    Args:
      index: Index of the layer in its stack.
      num_layers: Number of layers in the stack.

    Yields:
      A dict to which ``observe`` adds what is captured.
    """
    opened, current = _RECORD.get(), _Layer(index, num_layers)
    if opened is None:
        yield current.captured
        return
    before, opened.layer = opened.layer, current
    try:
        yield current.captured
    finally:
        opened.layer = before


def observe(name: str, x: Array) -> Array:
    """Return an activation of the current layer, edited; without a record it is ``x`` itself.

    Args:
      name: Name of the activation within the stack.
      x: The activation.
    """
    opened = _RECORD.get()
    if opened is None or opened.layer is None or not opened.scope:
        return x
    path, current = opened.scope + name, opened.layer
    x = opened.edited(path, x, current.number, current.num_layers + (name == HIDDEN_STATES))
    if opened.captures(path):
        current.captured[path] = x
    return x


def observe_output(x: Array, num_layers: int) -> Array:
    """Return the output of a stack, edited; it is the last of the hidden states.

    Args:
      x: Output of the last layer.
      num_layers: Layers of the stack.
    """
    x = edited_hidden(x, num_layers, num_layers)
    opened = _RECORD.get()
    if opened is not None and opened.scope:
        opened.keep(opened.scope + HIDDEN_STATES, x[None])
    return x


def edited_hidden(x: Array, layer: int, num_layers: int) -> Array:
    """Return hidden states, edited but not captured: ``keep_hidden`` gets them when all layers have run.

    Args:
      x: Output of a layer, or inputs of the first.
      layer: Number of the layer that reads them; ``num_layers`` for the last output.
      num_layers: Number of layers in the stack.
    """
    opened = _RECORD.get()
    if opened is None or not opened.scope:
        return x
    return opened.edited(opened.scope + HIDDEN_STATES, x, layer, num_layers + 1)


def keep_hidden(states: Callable[[], Float[Array, "N1 B L D"]]) -> None:
    """Capture the hidden states that a function returns; it is called only if they are to be captured."""
    opened = _RECORD.get()
    if opened is not None and opened.scope:
        name = opened.scope + HIDDEN_STATES
        opened.names.setdefault(name, False)
        if opened.captures(name):
            opened.keep(name, states())


def keep_layers(slots: Sequence[Sequence[int]], captured: Sequence[Mapping[str, Array]]) -> None:
    """Capture what the layers of a stack have collected, in their order.

    Args:
      slots: Numbers of the layers of each slot.
      captured: Activations of each slot by name, with a leading axis of its layers.
    """
    opened = _RECORD.get()
    if opened is None:
        return
    for name in dict.fromkeys(name for slot in captured for name in slot):
        having = [slot for slot, values in enumerate(captured) if name in values]
        order = np.argsort([layer_index for slot in having for layer_index in slots[slot]])
        opened.keep(name, _joined([captured[slot][name] for slot in having])[order])


def is_recording() -> bool:
    """Return whether any activation may be captured or edited."""
    return _RECORD.get() is not None


def needs_probabilities() -> bool:
    """Return whether probabilities of attention in the open scope are captured or edited."""
    opened = _RECORD.get()
    return opened is not None and any(
        fnmatchcase(opened.scope + name, pattern)
        for name in PROBABILITIES
        for pattern in (*opened.capture, *opened.edits)
    )


def _check_arrays(edit: Edit, name: str, stacked_shape: tuple[int, ...]) -> None:
    """Refuse arrays of another width, or number of layers, of which JAX would repeat the last."""
    for array in edit if isinstance(edit, AffineEdit) else ():
        if array is None:
            continue
        shape = jnp.shape(array)
        pairs = zip(reversed(shape[1:]), reversed(stacked_shape[1:]), strict=False)
        fits = len(shape) <= len(stacked_shape) and all(size in (1, wanted) for size, wanted in pairs)
        if shape[:1] != stacked_shape[:1] or not fits:
            raise ValueError(
                f"the edit of {name} has an array of shape {shape}; give one for each layer, which broadcast to "
                f"{stacked_shape}"
            )


def _joined(parts: Sequence[Array]) -> Array:
    """Join stacked layers; the last axis of narrower ones ends with zeros."""
    widest = max(part.shape[-1] for part in parts)
    padded = [
        part
        if part.shape[-1] == widest
        else jnp.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, widest - part.shape[-1])])
        for part in parts
    ]
    return padded[0] if len(padded) == 1 else jnp.concatenate(padded)
