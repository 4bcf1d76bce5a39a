"""Losses and logged statistics of routers, summed over layers with experts.

Letters beyond ``shapes.py``: E experts, P experts that a token chooses.
"""

from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from t5x_like.model.layers.router import Routing

# Tokens over which experts shall be equally busy: all of a batch, or those of each row (DeepSeek-V3, eq. 17).
BalanceScope: TypeAlias = Literal["batch", "row"]

# Logged means, in the order of ``RoutingSums.measures``.
ROUTING_MEASURES = ("expert_max_violation", "router_entropy", "dropped_choices")


class RoutingSums(NamedTuple):
    """Sums over layers and tokens.

    Attributes:
      loss: Losses of the routers, with their weights.
      violation: Choices of each layer's busiest expert over the fair share, less 1 (MaxVio; Wang et al. 2024, §2,
        https://arxiv.org/abs/2408.15664).
      layers: Layers with experts that had a token to route.
      entropy: Entropy in nats of the scores of each token, scaled to add up to 1.
      tokens: Routed tokens, counted in each layer.
      dropped: Choices of tokens for which the expert had no slot.
      limited: Choices of tokens in layers whose experts have a limit of slots.
    """

    loss: Float[Array, ""]
    violation: Float[Array, ""]
    layers: Float[Array, ""]
    entropy: Float[Array, ""]
    tokens: Float[Array, ""]
    dropped: Float[Array, ""]
    limited: Float[Array, ""]

    @property
    def measures(self) -> dict[str, tuple[Array, Array]]:
        """Sum and count of each logged mean."""
        pairs = (self.violation, self.layers), (self.entropy, self.tokens), (self.dropped, self.limited)
        return dict(zip(ROUTING_MEASURES, pairs, strict=True))


def sum_routing(
    routing: Routing,
    real: Bool[Array, "B L"],
    *,
    loss: Float[Array, ""],
    has_slot: Bool[Array, "B L P"] | None = None,
) -> RoutingSums:
    """Return the sums of one layer.

    Args:
      routing: Choices of all tokens.
      real: False for tokens that don't count.
      loss: Losses of the router, with their weights.
      has_slot: Choices that an expert computes; ``None`` where experts have no limit.
    """
    loads_E, shares = choices_of_experts(routing, real), jax.lax.stop_gradient(routing.shares)
    num_tokens = jnp.sum(real, dtype=jnp.float32)
    num_choices = num_tokens * routing.chosen.shape[-1]
    entropy_BL = -jnp.sum(jax.scipy.special.xlogy(shares, shares), axis=-1)
    violation = jnp.max(loads_E) * len(loads_E) / jnp.maximum(num_choices, 1.0) - 1
    is_used = num_choices > 0
    zero = jnp.zeros(())
    return RoutingSums(
        loss=loss,
        violation=jnp.where(is_used, violation, 0.0),
        layers=is_used.astype(jnp.float32),
        entropy=jnp.sum(entropy_BL * real),
        tokens=num_tokens,
        dropped=zero if has_slot is None else num_choices - jnp.sum(has_slot & real[..., None]),
        limited=zero if has_slot is None else num_choices,
    )


def add_routing(*parts: RoutingSums | None) -> RoutingSums | None:
    """Return the sums of several stacks or layers; ``None`` for parts without experts, and for no other parts.

    Args:
      *parts: Sums to add.
    """
    sums = [each for each in parts if each is not None]
    return jax.tree.map(lambda *values: jnp.sum(jnp.stack(values)), *sums) if sums else None


def choices_of_experts(routing: Routing, real: Bool[Array, "B L"]) -> Float[Array, " E"]:
    """Return how many choices of real tokens each expert has.

    Args:
      routing: Choices of all tokens.
      real: False for tokens that don't count.
    """
    chosen_BLPE = jax.nn.one_hot(routing.chosen, routing.logits.shape[-1])
    return jnp.sum(chosen_BLPE * real[..., None, None], axis=(0, 1, 2))


def router_loss(
    routing: Routing,
    real: Bool[Array, "B L"],
    *,
    balance_weight: float,
    router_z_weight: float,
    scope: BalanceScope = "batch",
) -> Float[Array, ""]:
    """Return Switch eq. 4-6, which is least (``balance_weight``) for equally busy experts; counts all P choices.

    Args:
      routing: Choices of all tokens.
      real: False for tokens that don't count.
      balance_weight: Weight of the loss of uneven loads.
      router_z_weight: Weight of the loss of large logits (Zoph et al. 2022, eq. 5).
      scope: Tokens over which loads are compared. Losses of rows are averaged, weighted by their real tokens.
    """
    axes = (0, 1) if scope == "batch" else (1,)
    num_experts, num_real = routing.logits.shape[-1], jnp.maximum(jnp.sum(real), 1)
    num_compared = jnp.maximum(jnp.sum(real, axis=axes, keepdims=True), 1)
    busy_BLE = jnp.mean(jax.nn.one_hot(routing.chosen, num_experts), axis=2)
    weights_BL1 = (real / num_compared)[..., None]
    busy_E, wanted_E = (jnp.sum(each * weights_BL1, axis=axes) for each in (busy_BLE, routing.shares))
    balances = num_experts * jnp.sum(busy_E * wanted_E, axis=-1)
    balance = jnp.sum(balances * jnp.sum(real, axis=axes)) / num_real
    z_BL = jnp.square(jax.nn.logsumexp(routing.logits, axis=-1))
    return balance_weight * balance + router_z_weight * jnp.sum(z_BL * real) / num_real


def excess_as_gradient(
    correction_bias: Float[Array, " E"], routing: Routing, real: Bool[Array, "B L"]
) -> Float[Array, ""]:
    """Return 0, with a gradient by the bias: each expert's choices less the fair share.

    Gradients are summed over layers' scans, microbatches and devices as the choices must be. ``ExpertBalance`` reads
    them.

    Args:
      correction_bias: Bias by which experts are chosen.
      routing: Choices of all tokens.
      real: False for tokens that don't count.
    """
    loads_E = choices_of_experts(routing, real)
    excess_E = jax.lax.stop_gradient(loads_E - jnp.mean(loads_E))
    return jnp.sum(excess_E * (correction_bias - jax.lax.stop_gradient(correction_bias)))
