"""Mixture of experts: a feed-forward layer of many experts, of which each token uses a few.

One: Switch Transformer, Fedus et al. 2021, https://arxiv.org/abs/2101.03961. Two: GShard, Lepikhin et al. 2020,
https://arxiv.org/abs/2006.16668. Without limits of slots: MegaBlocks, Gale et al. 2022,
https://arxiv.org/abs/2211.15841. Shared experts: DeepSeekMoE, Dai et al. 2024, https://arxiv.org/abs/2401.06066.
Letters are those of ``expert_slots.py``.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model import named_activations
from t5x_like.model.layers.expert_blocks import sum_of_experts
from t5x_like.model.layers.expert_slots import (
    Routes,
    assign_blocks,
    assign_places,
    combine,
    dispatch,
    expected_blocks,
    observe_by_token,
)
from t5x_like.model.layers.feed_forward import Activation, FeedForward, FeedForwardConfig
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.model.layers.modules import is_weight, modules_of
from t5x_like.model.layers.router import RouterConfig, Routing, SoftmaxRouter, route
from t5x_like.model.layers.routing_sums import (
    BalanceScope,
    RoutingSums,
    excess_as_gradient,
    router_loss,
    sum_routing,
)
from t5x_like.partitioning.activations import constrain_experts, constrain_rows, map_experts


@config_class
class MixtureOfExpertsConfig:
    """A feed-forward layer whose tokens each use a few of many experts.

    Attributes:
      mlp_dim: Inner width of one expert.
      activation: Nonlinearity of an expert.
      gated: Multiplies the activation with a second projection (see ``FeedForwardConfig``).
      bias: Adds a bias to all projections of an expert.
      num_experts: Feed-forward layers to choose from.
      num_experts_per_token: Experts that each token uses: 1 (Switch), 2 (GShard, Mixtral) or more.
      router: Scores of experts, and how they choose and weigh.
      capacity_factor: A row of L tokens has ``capacity_factor * num_experts_per_token * L / num_experts`` slots in
        each expert. Tokens beyond them skip the layer, so that shapes stay fixed. From
        ``num_experts / num_experts_per_token`` on no token is skipped. ``None`` skips none at all, without the empty
        slots of a large factor.
      shared_mlp_dim: Inner width of a feed-forward layer that all tokens use besides; ``None`` for none.
      balance_weight: Weight of the load-balancing loss: alpha of Fedus et al. 2021, eq. 4.
      balance_scope: Tokens over which that loss compares loads: "batch", or each "row" (DeepSeek-V3, eq. 17).
      router_z_weight: Weight of the loss that keeps the router's logits small (Zoph et al. 2022,
        https://arxiv.org/abs/2202.08906, eq. 5; 0.001 there). 0 switches it off.
    """

    mlp_dim: int
    activation: Activation
    gated: bool = False
    bias: bool = False
    num_experts: int
    num_experts_per_token: int = 1
    router: RouterConfig = SoftmaxRouter()
    capacity_factor: float | None = 1.25
    shared_mlp_dim: int | None = None
    balance_weight: float = 0.01
    balance_scope: BalanceScope = "batch"
    router_z_weight: float = 0.0

    def __post_init__(self) -> None:
        if self.num_experts_per_token < 1:
            raise ValueError(f"num_experts_per_token is {self.num_experts_per_token}; give a positive number")
        if self.num_experts < self.num_experts_per_token:
            raise ValueError(
                f"num_experts is {self.num_experts}; give at least num_experts_per_token, {self.num_experts_per_token}"
            )
        if self.capacity_factor is not None and self.capacity_factor <= 0:
            raise ValueError(
                f"capacity_factor is {self.capacity_factor}; give a positive number, 1.25 for instance"
            )
        self.router.check(self.num_experts, self.num_experts_per_token)

    @property
    def expert(self) -> FeedForwardConfig:
        """Feed-forward layer of each expert."""
        return self._feed_forward(self.mlp_dim)

    @property
    def shared_expert(self) -> FeedForwardConfig | None:
        """Feed-forward layer that all tokens use, if there is one."""
        return None if self.shared_mlp_dim is None else self._feed_forward(self.shared_mlp_dim)

    def _feed_forward(self, mlp_dim: int) -> FeedForwardConfig:
        return FeedForwardConfig(
            mlp_dim=mlp_dim, activation=self.activation, gated=self.gated, bias=self.bias
        )

    def capacity(self, length: int) -> int:
        """Return the number of slots in each expert for a row of ``length`` tokens: at least one, at most all."""
        assert self.capacity_factor is not None
        fair_share = self.num_experts_per_token * length / self.num_experts
        return min(length, math.ceil(self.capacity_factor * fair_share))


class MixtureOfExperts(nnx.Module):
    """Computes ``sum over chosen e of gate_e(x) * expert_e(x)``, and adds ``shared_expert(x)`` if there is one.

    With a capacity every row is routed by itself, so cost is linear in rows and in length, no row depends on others,
    and no token on later ones. A token without a slot in any expert gets 0 from them. Short rows with many experts need
    a larger ``capacity_factor``, because few tokens spread unevenly. Without one, no token depends on others.

    The correction bias of a ``SigmoidRouter`` is moved by how busy experts are (see ``ExpertBalance``).
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
        zeros = jnp.zeros((config.num_experts,), jnp.float32)
        has_bias = config.router.has_correction_bias
        self.correction_bias = nnx.Param(zeros, axes=("experts_router",)) if has_bias else None
        self.experts = jax.vmap(lambda key: FeedForward(config.expert, model_dim, key=key, init=init))(
            jax.random.split(experts_key, config.num_experts)
        )
        for weight in jax.tree.leaves(self.experts, is_leaf=is_weight):
            weight.set_metadata(axes=("experts", *weight.get_metadata()["axes"]))
        shared, shared_key = config.shared_expert, jax.random.fold_in(experts_key, config.num_experts)
        self.shared_expert = shared and FeedForward(shared, model_dim, key=shared_key, init=init)
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        *,
        mask: Bool[Array, "B L"] | None = None,
        dropout_rate: float = 0.0,
        dropout_key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B L D"], RoutingSums]:
        """Return outputs, and the losses and statistics of the router.

        Args:
          x: Inputs of the layer.
          mask: True for tokens that are routed; others get 0 from the experts. ``None`` routes all.
          dropout_rate: Dropout of the experts' inner activations.
          dropout_key: ``None`` for no dropout.
        """
        config = self.config
        x = named_activations.observe("inputs", x)
        real_BL = jnp.ones(x.shape[:2], bool) if mask is None else mask
        with jax.default_matmul_precision("float32"):  # Switch §2.4: routing suffers from less
            logits_BLE = self.router(x.astype(jnp.float32))
        bias = None if self.correction_bias is None else self.correction_bias[...]
        routing = route(config.router, logits_BLE, config.num_experts_per_token, bias)
        has_slot = None
        if config.capacity_factor is not None:
            capacity = config.capacity(x.shape[1])
            y, has_slot = self._in_slots(x, routing, real_BL, capacity, dropout_rate, dropout_key)
        elif named_activations.is_recording():  # captured activations can't leave a loop
            y, _ = self._in_slots(x, routing, real_BL, x.shape[1], dropout_rate, dropout_key)
        else:
            y = self._in_blocks(x, routing, real_BL, dropout_rate, dropout_key)
        if self.shared_expert is not None:
            key = None if dropout_key is None else jax.random.fold_in(dropout_key, config.num_experts)
            y = y + self.shared_expert.narrow(
                self.shared_expert.widen(x), dropout_rate=dropout_rate, dropout_key=key
            )
        loss = router_loss(
            routing,
            real_BL,
            balance_weight=config.balance_weight,
            router_z_weight=config.router_z_weight,
            scope=config.balance_scope,
        )
        if bias is not None and config.router.bias_update_rate:
            loss = loss + excess_as_gradient(bias, routing, real_BL)
        return y, sum_routing(routing, real_BL, loss=loss, has_slot=has_slot)

    def _in_slots(
        self,
        x: Array,
        routing: Routing,
        real_BL: Array,
        capacity: int,
        dropout_rate: float,
        dropout_key: Array | None,
    ) -> tuple[Float[Array, "B L D"], Bool[Array, "B L P"]]:
        """Run each row's tokens in ``capacity`` slots of each expert; return which choices have one, too."""
        num_experts = self.config.num_experts
        routes = assign_places(
            routing.chosen, routing.gates, real_BL, num_experts=num_experts, capacity=capacity
        )
        dispatched_BSD = constrain_rows(dispatch(x, routes))
        inputs_EBCD = constrain_experts(
            jnp.moveaxis(dispatched_BSD.reshape(len(x), num_experts, capacity, -1), 1, 0)
        )
        outputs_EBCD = constrain_experts(self._run_slots(inputs_EBCD, routes, dropout_rate, dropout_key))
        outputs_BSD = constrain_rows(jnp.moveaxis(outputs_EBCD, 0, 1).reshape(dispatched_BSD.shape))
        return combine(outputs_BSD, routes), routes.slots < dispatched_BSD.shape[1]

    def _run_slots(
        self, inputs_EBCD: Array, routes: Routes, dropout_rate: float, dropout_key: Key[Array, ""] | None
    ) -> Array:
        keys = None if dropout_key is None else jax.random.split(dropout_key, len(inputs_EBCD))
        hidden_EBCF = jax.vmap(FeedForward.widen)(self.experts, inputs_EBCD)
        if named_activations.is_recording():
            hidden_BECF = jnp.moveaxis(hidden_EBCF, 0, 1)
            hidden_BSF = hidden_BECF.reshape(len(hidden_BECF), -1, hidden_BECF.shape[-1])
            hidden_BSF = observe_by_token(hidden_BSF, routes)
            hidden_EBCF = jnp.moveaxis(hidden_BSF.reshape(hidden_BECF.shape), 1, 0)
        return jax.vmap(_narrow(dropout_rate))(self.experts, hidden_EBCF, keys)

    def _in_blocks(
        self, x: Array, routing: Routing, real_BL: Array, dropout_rate: float, dropout_key: Array | None
    ) -> Float[Array, "B L D"]:
        """Run all rows' tokens in as many blocks of each expert as they fill."""

        def run(experts: FeedForward, first: Array | int, x: Array, *tokens: Array) -> Array:
            num_experts = len(jax.tree.leaves(experts)[0])
            chosen, gates, real = (each.reshape(-1, each.shape[-1]) for each in tokens)
            chosen = chosen - first
            is_here = real & (chosen >= 0) & (chosen < num_experts)
            blocks = assign_blocks(chosen, is_here, num_experts=num_experts)
            keys = None
            if dropout_key is not None:
                # One draw for an expert, whatever blocks and devices its tokens are on.
                keys = jax.vmap(partial(jax.random.fold_in, dropout_key))(blocks.experts + first)
            share = num_experts / self.config.num_experts
            y = sum_of_experts(
                lambda expert, block, key: _narrow(dropout_rate)(expert, expert.widen(block), key),
                experts,
                x.reshape(-1, x.shape[-1]),
                gates,
                blocks.choices,
                blocks.experts,
                blocks.num_used,
                keys,
                num_expected=expected_blocks(blocks.choices.shape[1], chosen, share),
            )
            return y.reshape(x.shape)

        # In the type of activations at once: each block reads them, and they may travel.
        experts = jax.tree.map(
            lambda leaf: leaf.astype(x.dtype) if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf,
            self.experts,
        )
        return map_experts(run, experts, x, routing.chosen, routing.gates, real_BL[..., None])


def num_unused(model: Any) -> int:
    """Return the number of parameters that one token doesn't use: those of experts that it doesn't choose.

    Args:
      model: A model, or its shapes.
    """
    total = 0
    for _, layer in modules_of(model, MixtureOfExperts):
        size = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(layer.experts)))
        num_experts, num_chosen = layer.config.num_experts, layer.config.num_experts_per_token
        total += size // num_experts * (num_experts - num_chosen)
    return total


def parameters_text(model: Any, count: int) -> str:
    """Return a number of parameters, with that of the parameters that a token uses where they are fewer.

    Args:
      model: A model, or its shapes.
      count: Number of its parameters.
    """
    unused = num_unused(model)
    return f"{count:,} parameters" + (f" ({count - unused:,} for a token)" if unused else "")


def _narrow(dropout_rate: float) -> Any:
    """Return the second half of an expert, as a function of the expert, its inner activations and a dropout key."""

    def narrow(expert: FeedForward, hidden: Array, key: Key[Array, ""] | None) -> Array:
        return expert.narrow(hidden, dropout_rate=dropout_rate, dropout_key=key)

    return narrow
