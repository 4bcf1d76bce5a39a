"""Mixture of experts: a feed-forward layer of many experts, where each token uses one or two.

One: Switch Transformer, Fedus et al. 2021, https://arxiv.org/abs/2101.03961. Two: GShard, Lepikhin et al. 2020,
https://arxiv.org/abs/2006.16668. Letters beyond ``shapes.py``: E experts, C slots in an expert for the tokens of one
row, S = E * C slots in all, P experts that a token chooses, T = L * P choices of a row.
"""

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.layers.feed_forward import Activation, FeedForward, FeedForwardConfig
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.model.layers.modules import is_weight
from t5x_like.partitioning.activations import constrain_experts, constrain_rows


@config_class
class MixtureOfExpertsConfig:
    """A feed-forward layer whose tokens each use a few of many experts.

    Attributes:
      mlp_dim: Inner width of one expert.
      activation: Nonlinearity of an expert.
      gated: Multiplies the activation with a second projection (see ``FeedForwardConfig``).
      bias: Adds a bias to all projections of an expert.
      num_experts: Feed-forward layers to choose from.
      num_experts_per_token: Experts that each token uses: 1 (Switch) or 2 (GShard).
      capacity_factor: A row of L tokens has ``capacity_factor * num_experts_per_token * L / num_experts`` slots in
        each expert. Tokens beyond them skip the layer, so that shapes stay fixed. From
        ``num_experts / num_experts_per_token`` on no token is skipped.
      balance_weight: Weight of the load-balancing loss: alpha of Fedus et al. 2021, eq. 4.
      router_z_weight: Weight of the loss that keeps the router's logits small (Zoph et al. 2022,
        https://arxiv.org/abs/2202.08906, eq. 5; 0.001 there). 0 switches it off.
    """

    mlp_dim: int
    activation: Activation
    gated: bool = False
    bias: bool = False
    num_experts: int
    num_experts_per_token: Literal[1, 2] = 1
    capacity_factor: float = 1.25
    balance_weight: float = 0.01
    router_z_weight: float = 0.0

    def __post_init__(self) -> None:
        if self.num_experts < self.num_experts_per_token:
            raise ValueError(
                f"num_experts is {self.num_experts}; give at least num_experts_per_token, {self.num_experts_per_token}"
            )
        if self.capacity_factor <= 0:
            raise ValueError(
                f"capacity_factor is {self.capacity_factor}; give a positive number, 1.25 for instance"
            )

    @property
    def expert(self) -> FeedForwardConfig:
        """Feed-forward layer of each expert."""
        return FeedForwardConfig(
            mlp_dim=self.mlp_dim, activation=self.activation, gated=self.gated, bias=self.bias
        )

    def capacity(self, length: int) -> int:
        """Return the number of slots in each expert for a row of ``length`` tokens: at least one, at most all."""
        fair_share = self.num_experts_per_token * length / self.num_experts
        return min(length, math.ceil(self.capacity_factor * fair_share))


class Routes(NamedTuple):
    """Assignment of tokens to slots in experts.

    Attributes:
      slots: Slot of each choice of a token; S where the expert was full.
      choices: The inverse: the choice at each slot; T where the slot is empty.
      gates: Weight of each chosen expert's output.
    """

    slots: Int[Array, "B L P"]
    choices: Int[Array, "B S"]
    gates: Float[Array, "B L P"]


class MixtureOfExperts(nnx.Module):
    """Computes ``sum over chosen e of gate_e(x) * expert_e(x)``, and 0 for tokens without a slot in any expert.

    Every row is routed by itself, so cost is linear in rows and in length, no row depends on others, and no token on
    later ones. Short rows with many experts need a larger ``capacity_factor``, because few tokens spread unevenly.
    """

    def __init__(
        self,
        config: MixtureOfExpertsConfig,
        model_dim: int,
        *,
        key: Key[Array, ""],
        init: Initializer = FanIn(),
    ):
        router_key, experts_key = jax.random.split(key)
        self.router = Linear(
            model_dim, config.num_experts, axes=("embed", "experts_router"), key=router_key, init=init
        )
        self.experts = jax.vmap(lambda key: FeedForward(config.expert, model_dim, key=key, init=init))(
            jax.random.split(experts_key, config.num_experts)
        )
        for weight in jax.tree.leaves(self.experts, is_leaf=is_weight):
            weight.set_metadata(axes=("experts", *weight.get_metadata()["axes"]))
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        *,
        mask: Bool[Array, "B L"] | None = None,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B L D"], Float[Array, ""]]:
        """Return outputs and the load-balancing loss.

        Args:
          x: Inputs of the layer.
          mask: True for tokens that are routed; others get 0. ``None`` routes all.
          dropout_rate: Dropout of the experts' inner activations.
          dropout_key: ``None`` for no dropout.
        """
        x = named_activations.observe("inputs", x)
        real_BL = jnp.ones(x.shape[:2], bool) if mask is None else mask
        with jax.default_matmul_precision("float32"):  # Switch §2.4: routing suffers from less
            logits_BLE = self.router(x.astype(jnp.float32))
        probs_BLE = jax.nn.softmax(logits_BLE)
        chosen_BLP, gates_BLP = _top_experts(probs_BLE, self.config.num_experts_per_token)
        capacity, num_experts = self.config.capacity(x.shape[1]), self.config.num_experts
        routes = assign_places(chosen_BLP, gates_BLP, real_BL, num_experts=num_experts, capacity=capacity)
        dispatched_BSD = constrain_rows(_dispatch(x, routes))
        inputs_EBCD = constrain_experts(
            jnp.moveaxis(dispatched_BSD.reshape(len(x), num_experts, capacity, -1), 1, 0)
        )
        outputs_EBCD = constrain_experts(self._run_experts(inputs_EBCD, routes, dropout_rate, dropout_key))
        outputs_BSD = constrain_rows(jnp.moveaxis(outputs_EBCD, 0, 1).reshape(dispatched_BSD.shape))
        return _combine(outputs_BSD, routes), self._balance_loss(logits_BLE, probs_BLE, chosen_BLP, real_BL)

    def _run_experts(
        self, inputs_EBCD: Array, routes: Routes, dropout_rate: float, dropout_key: Key[Array, ""] | None
    ) -> Array:
        def narrow(expert: FeedForward, hidden_BCF: Array, key: Key[Array, ""] | None) -> Array:
            return expert.narrow(hidden_BCF, dropout_rate=dropout_rate, dropout_key=key)

        keys = None if dropout_key is None else jax.random.split(dropout_key, len(inputs_EBCD))
        hidden_EBCF = jax.vmap(FeedForward.widen)(self.experts, inputs_EBCD)
        if named_activations.is_recording():
            hidden_EBCF = _observe_by_token(hidden_EBCF, routes)
        return jax.vmap(narrow)(self.experts, hidden_EBCF, keys)

    def _balance_loss(
        self, logits_BLE: Array, probs_BLE: Array, chosen_BLP: Array, real_BL: Array
    ) -> Float[Array, ""]:
        """Return Switch eq. 4-6, which is least (``balance_weight``) for equally busy experts; counts all P choices."""
        config = self.config
        num_real = jnp.maximum(jnp.sum(real_BL), 1)
        busy_BLE = jnp.mean(jax.nn.one_hot(chosen_BLP, config.num_experts), axis=2)
        busy_E = jnp.sum(busy_BLE * real_BL[..., None], axis=(0, 1)) / num_real
        wanted_E = jnp.sum(probs_BLE * real_BL[..., None], axis=(0, 1)) / num_real
        balance = config.num_experts * jnp.sum(busy_E * wanted_E)
        z_BL = jnp.square(jax.nn.logsumexp(logits_BLE, axis=-1))
        return config.balance_weight * balance + config.router_z_weight * jnp.sum(z_BL * real_BL) / num_real


def _top_experts(
    probs_BLE: Float[Array, "B L E"], num_chosen: int
) -> tuple[Int[Array, "B L P"], Float[Array, "B L P"]]:
    """Return the likeliest experts, and gates: the probability of one, or normalized ones (GShard, algorithm 1)."""
    chosen, probs, left_BLE = [], [], probs_BLE
    for _ in range(num_chosen):  # not lax.top_k, for which XLA gathers the scores of all rows
        best_BL = jnp.argmax(left_BLE, axis=-1)
        is_best_BLE = jax.nn.one_hot(best_BL, probs_BLE.shape[-1], dtype=bool)
        chosen.append(best_BL)
        probs.append(jnp.sum(probs_BLE * is_best_BLE, axis=-1))
        left_BLE = jnp.where(is_best_BLE, -1.0, left_BLE)
    gates_BLP = jnp.stack(probs, axis=-1)
    if num_chosen > 1:
        gates_BLP = gates_BLP / jnp.sum(gates_BLP, axis=-1, keepdims=True)
    return jnp.stack(chosen, axis=-1), gates_BLP


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


def _observe_by_token(hidden: Float[Array, "E B C F"], routes: Routes) -> Float[Array, "E B C F"]:
    """Return the experts' inner activations, observed as those of tokens, [B, L, P * F]; 0 without a slot."""
    num_experts, num_rows, capacity, width = hidden.shape
    slots_BT = routes.slots.reshape(num_rows, -1)
    hidden_BSF = jnp.moveaxis(hidden, 0, 1).reshape(num_rows, num_experts * capacity, width)
    hidden_BTF = _rows_at(hidden_BSF, slots_BT, routes.choices[..., None])
    observed = named_activations.observe(
        "activations", hidden_BTF.reshape(*routes.slots.shape[:2], -1)
    ).reshape(hidden_BTF.shape)
    hidden_BSF = _rows_at(observed, routes.choices, slots_BT[..., None])
    return jnp.moveaxis(hidden_BSF.reshape(num_rows, num_experts, capacity, width), 1, 0)


def _dispatch(x: Float[Array, "B L D"], routes: Routes) -> Float[Array, "B S D"]:
    """Return the tokens at their slots, and 0 at empty ones."""
    tokens_BS = routes.choices // routes.slots.shape[-1]
    return _rows_at(x, tokens_BS, routes.slots)


def _combine(outputs_BSD: Float[Array, "B S D"], routes: Routes) -> Float[Array, "B L D"]:
    """Return the sum of the outputs of each token's experts, weighted by its gates."""
    num_rows, length, num_chosen = routes.slots.shape
    slots_BT = routes.slots.reshape(num_rows, length * num_chosen)
    outputs_BTD = _rows_at(outputs_BSD, slots_BT, routes.choices[..., None])
    outputs_BLPD = outputs_BTD.reshape(num_rows, length, num_chosen, -1)
    return jnp.sum(outputs_BLPD * routes.gates.astype(outputs_BSD.dtype)[..., None], axis=2)


@jax.custom_vjp
def _rows_at(
    x: Float[Array, "B From D"], index: Int[Array, "B To"], readers: Int[Array, "B From P"]
) -> Float[Array, "B To D"]:
    """Return ``x[b, index[b, i]]``, and 0 for indices beyond the end.

    ``readers`` are the ``i`` at which each row of ``x`` is read. They let the gradient be gathered, where autodiff
    would scatter, slowly and on GPUs in no fixed order.
    """
    del readers
    return jnp.take_along_axis(x, index[..., None], axis=1, mode="fill", fill_value=0)


def _rows_at_forward(x: Array, index: Array, readers: Array) -> tuple[Array, Array]:
    return _rows_at(x, index, readers), readers


def _rows_at_backward(readers: Array, gradient_BTD: Array) -> tuple[Array, None, None]:
    num_rows, num_from, num_readers = readers.shape
    index = readers.reshape(num_rows, num_from * num_readers, 1)
    read = jnp.take_along_axis(gradient_BTD, index, axis=1, mode="fill", fill_value=0)
    return jnp.sum(read.reshape(num_rows, num_from, num_readers, -1), axis=2), None, None


_rows_at.defvjp(_rows_at_forward, _rows_at_backward)
