"""Recurrent layers over rows of segments, one after the other and in both directions."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from t5x_like.ancestors.layers.rnn_cell import LSTMConfig, RNNCellConfig, RNNState, clip
from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.layers.dropout import check_rate, dropout, fold
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.model.layers.modules import is_weight
from t5x_like.partitioning.activations import constrain_state, gather_weight

RNNDirection = Literal["forward", "backward", "both"]
RNNStates: TypeAlias = Sequence[RNNState]
Module = TypeVar("Module", bound=nnx.Module)

# Dropout sites: of a layer, whose directions follow as sites of their own, and of a direction.
_INPUTS_SITE, _DIRECTIONS_SITE = 0, 1
_WEIGHTS_SITE, _HIDDEN_SITE = 0, 1

_GATE_AXES = ("embed", "mlp")  # of the kernels of inputs and of outputs


@config_class
class RNNStackConfig:
    """Recurrent layers, each of which reads the outputs of the one before.

    Attributes:
      input_dim: Width of inputs.
      hidden_dims: Units of each layer, in each direction.
      cell: Gates of all layers.
      direction: ``"both"`` concatenates the outputs of two layers that read rows in opposite directions, before the
        next layer reads them (Schuster and Paliwal 1997).
      residual: Layers after the first add their inputs to their outputs; the state keeps the output alone.
      dropout_rate: Dropout between layers.
      recurrent_dropout_rate: Dropout of the last output where it enters the gates' sums.
      weight_dropout_rate: DropConnect: dropout of the hidden kernels' entries, drawn once for a batch (Merity et al.
        2018, §2, https://arxiv.org/abs/1708.02182).
      variational_dropout: Dropout between layers and of the last output drops the same units at all positions of a
        row (Gal and Ghahramani 2016, §4); otherwise every position has a draw of its own.
      init: Distribution of fresh kernels.
    """

    input_dim: int
    hidden_dims: tuple[int, ...]
    cell: RNNCellConfig = LSTMConfig()
    direction: RNNDirection = "forward"
    residual: bool = False
    dropout_rate: float = 0.0
    recurrent_dropout_rate: float = 0.0
    weight_dropout_rate: float = 0.0
    variational_dropout: bool = False
    init: Initializer = FanIn()

    def __post_init__(self) -> None:
        if not self.hidden_dims:
            raise ValueError("hidden_dims is empty; give the number of units of each layer")
        if min(self.input_dim, *self.hidden_dims) < 1:
            raise ValueError(
                f"input_dim is {self.input_dim} and hidden_dims are {self.hidden_dims}; give positive numbers"
            )
        for name in ("dropout_rate", "recurrent_dropout_rate", "weight_dropout_rate"):
            check_rate(name, getattr(self, name))
        if self.residual and len(set(self.output_dims)) > 1:
            raise ValueError(
                f"residual adds the inputs of a layer to its outputs, and layers have outputs of the widths "
                f"{self.output_dims}; give all layers one width, or set residual=False"
            )

    @property
    def directions(self) -> tuple[Literal["forward", "backward"], ...]:
        """Directions in which each layer reads rows."""
        return ("forward", "backward") if self.direction == "both" else (self.direction,)

    @property
    def output_dims(self) -> tuple[int, ...]:
        """Width of each layer's outputs."""
        widths = [self.cell.projection_dim or units for units in self.hidden_dims]
        return tuple(len(self.directions) * width for width in widths)


class RNNOutput(NamedTuple):
    """Outputs of the layers.

    Attributes:
      output: Output of the last layer; 0 at padding.
      layers: Output of every layer, before dropout.
      states: State after the last token that each layer has read in each direction.
    """

    output: Float[Array, "B L _"]
    layers: tuple[Float[Array, "B L _"], ...]
    states: tuple[RNNState, ...]

    def hidden_states(self, embedded: Float[Array, "B L _"]) -> Float[Array, "N1 B L W"]:
        """Return the inputs and every layer's outputs; those narrower than the widest end with zeros."""
        states = (embedded, *self.layers)
        widest = max(each.shape[-1] for each in states)
        return jnp.stack([jnp.pad(each, ((0, 0), (0, 0), (0, widest - each.shape[-1]))) for each in states])


class RowSegments(NamedTuple):
    """Tokens of rows as a direction meets them, first position first.

    Attributes:
      real: False at padding, where the state stays as it is.
      start: True where the state is reset: at tokens whose segment is another than that of the token before.
    """

    real: Bool[Array, "L B"]
    start: Bool[Array, "L B"]


class RNNLayer(nnx.Module):
    """One layer in one direction; see ``RNNStackConfig``."""

    def __init__(self, config: RNNStackConfig, input_dim: int, hidden_dim: int, *, key: Key[Array, ""]):
        input_key, hidden_key, projection_key = jax.random.split(key, 3)
        cell = config.cell
        output_dim = cell.projection_dim or hidden_dim

        def gates(num_inputs: int, *, bias: bool, key: Key[Array, ""]) -> Linear:
            width = cell.num_gates * hidden_dim
            return Linear(num_inputs, width, axes=_GATE_AXES, key=key, init=config.init, bias=bias)

        self.input = gates(input_dim, bias=True, key=input_key)
        self.input.bias = nnx.Param(cell.initial_bias(hidden_dim), axes=("mlp",))
        self.hidden = gates(output_dim, bias=cell.has_hidden_bias, key=hidden_key)
        self.projection = (
            None
            if cell.projection_dim is None
            else Linear(hidden_dim, output_dim, axes=("mlp", "embed"), key=projection_key, init=config.init)
        )
        self.config, self.hidden_dim, self.output_dim = config, hidden_dim, output_dim

    def __call__(
        self,
        x: Float[Array, "B L I"],
        state: RNNState,
        segments: RowSegments | None,
        *,
        reverse: bool,
        dropout_key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B L P"], RNNState]:
        """Return the outputs, in the type of ``x``, and the state after the last token read.

        Args:
          x: Inputs.
          state: State before the first token.
          segments: Tokens in the order of positions, whatever ``reverse`` is; ``None`` for one segment without padding.
          reverse: Read rows from the end.
          dropout_key: ``None`` for no dropout.
        """
        config, dtype = self.config, x.dtype
        sums_LBG = jnp.swapaxes(self.input(x, output_dtype=jnp.dtype("float32")), 0, 1)
        kernel, bias = self.hidden.merged()
        kernel = gather_weight(kernel, _GATE_AXES)
        kernel = dropout(kernel, config.weight_dropout_rate, fold(dropout_key, _WEIGHTS_SITE)).astype(dtype)
        projection = None if self.projection is None else self.projection.merged()[0].astype(dtype)
        hidden_key = fold(dropout_key, _HIDDEN_SITE)
        factors = self._locked_factors(len(x), hidden_key)

        def read(state: RNNState, token: PyTree) -> tuple[RNNState, Array]:
            position, input_sums, segment = token
            if segment is not None:
                state = _where(segment.start, jax.tree.map(jnp.zeros_like, state), state)
            hidden = (
                self._dropped(state.hidden, position, hidden_key)
                if factors is None
                else state.hidden * factors
            )
            hidden_sums = _product(hidden, kernel)
            if bias is not None:
                hidden_sums = hidden_sums + bias[None]
            after = config.cell.advance(input_sums, hidden_sums, state)
            if projection is not None:
                projected = _product(after.hidden, projection)
                after = after._replace(hidden=clip(projected, config.cell.projection_clip))
            after = constrain_state(after)
            if segment is None:
                return after, after.hidden.astype(dtype)
            after = _where(segment.real, after, state)
            return after, jnp.where(segment.real[:, None], after.hidden, 0.0).astype(dtype)

        tokens = (jnp.arange(x.shape[1]), sums_LBG, segments)
        state, outputs_LBP = jax.lax.scan(read, state, tokens, reverse=reverse)
        return constrain_state(jnp.swapaxes(outputs_LBP, 0, 1)), state

    def _dropped(
        self, hidden: Float[Array, "B P"], position: Int[Array, ""], key: Key[Array, ""] | None
    ) -> Float[Array, "B P"]:
        """Return the last output with a draw of dropout for this position."""
        key = None if key is None else jax.random.fold_in(key, position)
        return dropout(hidden, self.config.recurrent_dropout_rate, key)

    def _locked_factors(self, num_rows: int, key: Key[Array, ""] | None) -> Float[Array, "B P"] | None:
        """Return the factors of variational dropout, drawn once for all positions; ``None`` if there is none."""
        if key is None or not self.config.variational_dropout or self.config.recurrent_dropout_rate == 0.0:
            return None
        ones = jnp.ones((num_rows, self.output_dim), jnp.float32)
        return dropout(ones, self.config.recurrent_dropout_rate, key)

    def zero_state(self, num_rows: int) -> RNNState:
        """Return the state before the first token of a sequence."""
        hidden = jnp.zeros((num_rows, self.output_dim), jnp.float32)
        has_cell = self.config.cell.has_cell
        return RNNState(hidden, jnp.zeros((num_rows, self.hidden_dim), jnp.float32) if has_cell else None)


class RNNStack(nnx.Module):
    """Recurrent layers; see ``RNNStackConfig``.

    Weights are float32 and products are computed in the inputs' type; the gates' sums and states are float32.
    """

    def __init__(self, config: RNNStackConfig, *, key: Key[Array, ""]):
        dims = enumerate(zip((config.input_dim, *config.output_dims), config.hidden_dims, strict=False))
        keys = iter(jax.random.split(key, len(config.hidden_dims) * len(config.directions)))
        self.layers = nnx.Dict(
            {
                str(layer): nnx.Dict(
                    {name: RNNLayer(config, *sizes, key=next(keys)) for name in config.directions}
                )
                for layer, sizes in dims
            }
        )
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        segment_ids: Int[Array, "B L"] | None = None,
        states: RNNStates | None = None,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> RNNOutput:
        """Read rows of one or several segments.

        Args:
          x: Inputs.
          segment_ids: 0 for padding, which changes nothing; each segment begins with a state of zeros. ``None`` for one
            segment without padding.
          states: States for the first segment that each direction meets, as in ``RNNOutput.states``: by layer, and
            within a layer by direction. ``None`` for zeros.
          dropout_key: ``None`` for no dropout.

        Raises:
          ValueError: The states are not those of this stack, or of another number of rows.
        """
        config = self.config
        states = self.zero_states(len(x)) if states is None else self._checked(states, len(x))
        segments = {
            name: None if segment_ids is None else _row_segments(segment_ids, reverse=name == "backward")
            for name in config.directions
        }
        before, outputs, after = iter(states), [], []
        for layer in range(len(config.hidden_dims)):
            key = fold(dropout_key, layer)
            if layer > 0:
                x = self.drop(x, config.dropout_rate, fold(key, _INPUTS_SITE))
            read = [
                self.layers[str(layer)][name](
                    x,
                    next(before),
                    segments[name],
                    reverse=name == "backward",
                    dropout_key=fold(key, _DIRECTIONS_SITE + index),
                )
                for index, name in enumerate(config.directions)
            ]
            y = jnp.concatenate([output for output, _ in read], axis=-1)
            x = x + y if config.residual and layer > 0 else y
            x = named_activations.edited_hidden(x, layer + 1, len(config.hidden_dims))
            outputs.append(x)
            after += [state for _, state in read]
        return RNNOutput(x, tuple(outputs), tuple(after))

    def drop(
        self, x: Float[Array, "B L _"], rate: float, key: Key[Array, ""] | None
    ) -> Float[Array, "B L _"]:
        """Apply dropout to inputs or outputs of layers, the same at all positions if it is variational.

        Args:
          x: Inputs or outputs.
          rate: Share of values set to zero.
          key: None for no dropout.
        """
        return dropout(x, rate, key, shared_dim=1 if self.config.variational_dropout else None)

    def zero_states(self, num_rows: int) -> tuple[RNNState, ...]:
        """Return the states before the first token of sequences."""
        layers = [self.layers[str(layer)] for layer in range(len(self.config.hidden_dims))]
        return tuple(layer[name].zero_state(num_rows) for layer in layers for name in self.config.directions)

    def _checked(self, states: RNNStates, num_rows: int) -> RNNStates:
        wanted = self.zero_states(num_rows)
        if len(states) != len(wanted):
            raise ValueError(
                f"{len(states)} states are given, and {len(wanted)} are needed: one for each layer and direction"
            )
        for index, (state, zeros) in enumerate(zip(states, wanted, strict=True)):
            actual, needed = (jax.tree.map(jnp.shape, each) for each in (state, zeros))
            if actual != needed:
                raise ValueError(
                    f"state {index} has shapes {_shapes(state)}, and a batch of {num_rows} rows needs "
                    f"{_shapes(zeros)}; begin a batch of another size with states=None"
                )
        return jax.tree.map(lambda part: part.astype(jnp.float32), states)


def with_gathered_weights(module: Module) -> Module:
    """Return the module with all weights gathered, for a loop over positions that calls it (see ``gather_weight``)."""

    def whole(weight: nnx.Variable) -> nnx.Variable:
        return weight.replace(gather_weight(weight[...], weight.get_metadata()["axes"]))

    return jax.tree.map(whole, module, is_leaf=is_weight)


def _shapes(state: RNNState) -> str:
    named = {name: part for name, part in state._asdict().items() if part is not None}
    return ", ".join(f"{name} {tuple(part.shape)}" for name, part in named.items())


def _row_segments(segment_ids: Int[Array, "B L"], *, reverse: bool) -> RowSegments:
    """Return tokens and starts of segments. Padding inside a segment doesn't cut it."""
    if reverse:
        flipped = _row_segments(jnp.flip(segment_ids, axis=1), reverse=False)
        return RowSegments(jnp.flip(flipped.real, axis=0), jnp.flip(flipped.start, axis=0))
    real = segment_ids > 0
    last_real = jax.lax.cummax(jnp.where(real, jnp.arange(real.shape[1])[None], -1), axis=1)
    before = jnp.concatenate([jnp.full((len(real), 1), -1), last_real], axis=1)[:, :-1]
    ids_before = jnp.take_along_axis(segment_ids, jnp.maximum(before, 0), axis=1)
    # A row's first token continues the state that is given.
    start = real & (before >= 0) & (ids_before != segment_ids)
    return RowSegments(real.T, start.T)


def _where(condition: Bool[Array, " B"], left: RNNState, right: RNNState) -> RNNState:
    return jax.tree.map(lambda a, b: jnp.where(condition[:, None], a, b), left, right)


def _product(x: Float[Array, "B P"], kernel: Float[Array, "P G"]) -> Float[Array, "B G"]:
    return jnp.matmul(x.astype(kernel.dtype), kernel, preferred_element_type=jnp.float32)
