"""Places of tokens in front of experts: so many slots for each expert, or as many as tokens want.

Letters beyond ``shapes.py``: E experts, C slots in an expert for the tokens of one row, S = E * C slots in all,
P experts that a token chooses, T = L * P choices of a row, N blocks of R slots.
"""

from typing import Any, NamedTuple

import jax
import jax.export
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from t5x_like.model import named_activations
from t5x_like.model.automatic_choices import platform

# Rows whose product is taken to cost as much as reading an expert's weights: estimates. On accelerators FLOPs a second
# over bytes a second, from data sheets: 166 on a TPU v5p, 240 on a v5e, 295 on an H100, with two bytes a weight.
_ROWS_OF_A_READ = 16
_ACCELERATORS_ROWS_OF_A_READ = 256
_LARGEST_BLOCK = 1024


class Routes(NamedTuple):
    """Assignment of tokens to slots in experts.

    Attributes:
      slots: Slot of each choice of a token; S where it has none.
      choices: The inverse: the choice at each slot; T where the slot is empty.
      gates: Weight of each chosen expert's output.
    """

    slots: Int[Array, "B L P"]
    choices: Int[Array, "B S"]
    gates: Float[Array, "B L P"]


class ExpertBlocks(NamedTuple):
    """Choices in blocks that each belong to one expert.

    Attributes:
      choices: Choices in the slots of each block, counted over all tokens; T in empty slots.
      experts: Expert of each block.
      num_used: Number of blocks with a choice, which come first.
    """

    choices: Int[Array, "N R"]
    experts: Int[Array, " N"]
    num_used: Int[Array, ""]


def assign_places(
    chosen_BLP: Int[Array, "B L P"],
    gates_BLP: Float[Array, "B L P"],
    real_BL: Bool[Array, "B L"],
    *,
    num_experts: int,
    capacity: int,
) -> Routes:
    """Assign slots in order of tokens.

    GShard assigns all first choices before any second one. A token's slot would then depend on later tokens, which a
    decoder can't know.

    Args:
      chosen_BLP: Experts that each token chose.
      gates_BLP: Weights of their outputs.
      real_BL: False for tokens that get no slot.
      num_experts: Number of experts.
      capacity: Places in each expert.
    """
    num_rows, length, num_chosen = chosen_BLP.shape
    num_choices, num_slots = length * num_chosen, num_experts * capacity
    chosen_BT = chosen_BLP.reshape(num_rows, num_choices)
    real_BT = jnp.broadcast_to(real_BL[..., None], chosen_BLP.shape).reshape(num_rows, num_choices)
    wanted_BTE = jax.nn.one_hot(chosen_BT, num_experts, dtype=jnp.int32) * real_BT[..., None]
    before_BT = jnp.sum(jnp.cumsum(wanted_BTE, axis=1) * wanted_BTE, axis=-1) - 1
    has_slot_BT = real_BT & (before_BT < capacity)
    slots_BT = jnp.where(has_slot_BT, chosen_BT * capacity + before_BT, num_slots)

    def invert(places_T: Array) -> Array:
        empty_S = jnp.full(num_slots, num_choices, jnp.int32)
        return empty_S.at[places_T].set(jnp.arange(num_choices, dtype=jnp.int32), mode="drop")

    return Routes(slots_BT.reshape(chosen_BLP.shape), jax.vmap(invert)(slots_BT), gates_BLP)


def assign_blocks(chosen: Int[Array, "L P"], real: Bool[Array, "L P"], *, num_experts: int) -> ExpertBlocks:
    """Assign a slot to every choice: those of one expert after another, each expert's filled up to whole blocks.

    Args:
      chosen: Experts that each token chose.
      real: False for choices that get no slot.
      num_experts: Number of experts.
    """
    num_choices = chosen.shape[0] * chosen.shape[1]
    size, num_blocks = block_shape(num_choices, num_experts)
    chosen_T = jnp.where(real, chosen, num_experts).reshape(-1)  # those without a slot come last
    order_T = jnp.argsort(chosen_T, stable=True)
    counts_E = jnp.sum(jax.nn.one_hot(chosen_T, num_experts, dtype=jnp.int32), axis=0)
    ends_E, blocks_E = jnp.cumsum(counts_E), -(-counts_E // size)
    last_E, index_N = jnp.cumsum(blocks_E), jnp.arange(num_blocks)
    experts_N = jnp.minimum(jnp.searchsorted(last_E, index_N, side="right"), num_experts - 1)
    # Of each expert: the choice at the first slot of block 0, if all blocks before were its own.
    first_E = ends_E - counts_E - (last_E - blocks_E) * size
    sorted_NR = (jnp.take(first_E, experts_N) + index_N * size)[:, None] + jnp.arange(size)[None]
    is_used_NR = sorted_NR < jnp.take(ends_E, experts_N)[:, None]
    choices_NR = jnp.where(is_used_NR, jnp.take(order_T, sorted_NR, mode="clip"), num_choices)
    return ExpertBlocks(choices=choices_NR, experts=experts_N, num_used=last_E[-1])


def block_shape(num_choices: Any, num_experts: int) -> tuple[int, Any]:
    """Return the slots of a block, and the number of blocks in which any choices have room.

    Of small blocks few slots are empty, and large ones read an expert's weights less often.

    Args:
      num_choices: Choices of all tokens; may be symbolic in an exported program.
      num_experts: Number of experts.
    """
    if jax.export.is_symbolic_dim(num_choices):
        return _ROWS_OF_A_READ, num_choices // _ROWS_OF_A_READ + num_experts

    def num_blocks(size: int) -> int:
        return min(num_choices, num_choices // size + num_experts)

    rows_of_a_read = _ROWS_OF_A_READ if platform() in ("cpu", "any") else _ACCELERATORS_ROWS_OF_A_READ
    sizes = [2**power for power in range(_LARGEST_BLOCK.bit_length())]
    size = min(sizes, key=lambda size: num_blocks(size) * (size + rows_of_a_read))
    return size, num_blocks(size)


def expected_blocks(size: int, chosen: Int[Array, "L P"], share: float) -> int:
    """Return how many blocks are used if all experts are equally busy; 1 for symbolic numbers of tokens.

    Args:
      size: Slots of a block.
      chosen: Experts that each token chose.
      share: Part of all experts that are here.
    """
    if jax.export.is_symbolic_dim(chosen.shape[0]):
        return 1
    return max(1, round(chosen.size * share / size))


def observe_by_token(hidden: Float[Array, "B S F"], routes: Routes) -> Float[Array, "B S F"]:
    """Return the experts' inner activations, observed as those of tokens, [B, L, P * F]; 0 without a slot.

    Args:
      hidden: Inner activations at the slots.
      routes: Slots of the tokens.
    """
    slots_BT = routes.slots.reshape(len(routes.slots), -1)
    hidden_BTF = rows_at(hidden, slots_BT, routes.choices[..., None])
    by_token = hidden_BTF.reshape(*routes.slots.shape[:2], -1)
    observed = named_activations.observe("activations", by_token).reshape(hidden_BTF.shape)
    return rows_at(observed, routes.choices, slots_BT[..., None])


def dispatch(x: Float[Array, "B L D"], routes: Routes) -> Float[Array, "B S D"]:
    """Return the tokens at their slots, and 0 at empty ones.

    Args:
      x: Inputs of the layer.
      routes: Slots of the tokens.
    """
    tokens_BS = routes.choices // routes.slots.shape[-1]
    return rows_at(x, tokens_BS, routes.slots)


def combine(outputs_BSD: Float[Array, "B S D"], routes: Routes) -> Float[Array, "B L D"]:
    """Return the sum of the outputs of each token's experts, weighted by its gates.

    Args:
      outputs_BSD: Outputs of the experts at their slots.
      routes: Slots of the tokens.
    """
    num_rows, length, num_chosen = routes.slots.shape
    slots_BT = routes.slots.reshape(num_rows, length * num_chosen)
    outputs_BTD = rows_at(outputs_BSD, slots_BT, routes.choices[..., None])
    outputs_BLPD = outputs_BTD.reshape(num_rows, length, num_chosen, -1)
    return jnp.sum(outputs_BLPD * routes.gates.astype(outputs_BSD.dtype)[..., None], axis=2)


@jax.custom_vjp
def rows_at(
    x: Float[Array, "B From D"], index: Int[Array, "B To"], readers: Int[Array, "B From P"]
) -> Float[Array, "B To D"]:
    """Return ``x[b, index[b, i]]``, and 0 for indices beyond the end.

    Readers let the gradient be gathered, where autodiff would scatter, slowly and on GPUs in no fixed order.

    Args:
      x: Rows to read.
      index: Index of each row to return.
      readers: The ``i`` at which each row of ``x`` is read.
    """
    del readers
    return jnp.take_along_axis(x, index[..., None], axis=1, mode="fill", fill_value=0)


def _rows_at_forward(x: Array, index: Array, readers: Array) -> tuple[Array, Array]:
    return rows_at(x, index, readers), readers


def _rows_at_backward(readers: Array, gradient_BTD: Array) -> tuple[Array, None, None]:
    num_rows, num_from, num_readers = readers.shape
    index = readers.reshape(num_rows, num_from * num_readers, 1)
    read = jnp.take_along_axis(gradient_BTD, index, axis=1, mode="fill", fill_value=0)
    return jnp.sum(read.reshape(num_rows, num_from, num_readers, -1), axis=2), None, None


rows_at.defvjp(_rows_at_forward, _rows_at_backward)
