"""Routing: scores of each token for all experts, the few experts that it uses, and the weights of their outputs.

Letters beyond ``shapes.py``: E experts, P experts that a token chooses, N groups of experts.
"""

import math
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from t5x_like.config_class import config_class

_TINY = 1e-20  # keeps a sum of sigmoids above zero, as in transformers


@config_class
class SoftmaxRouter:
    """Scores are a softmax over all experts; a token uses the likeliest.

    Attributes:
      norm_topk_prob: Probabilities of the chosen experts are divided by their sum (GShard, Mixtral: the same as a
        softmax over the chosen alone). Otherwise they are the weights as they are (Switch, OLMoE).
    """

    norm_topk_prob: bool = False

    def check(self, num_experts: int, num_chosen: int) -> None:
        """Accept any sizes; see ``SigmoidRouter``."""

    @property
    def has_correction_bias(self) -> bool:
        """False: scores alone choose."""
        return False

    @property
    def bias_update_rate(self) -> float:
        """0: there is no bias."""
        return 0.0

    def scores(self, logits: Float[Array, "B L E"]) -> Float[Array, "B L E"]:
        """Return the probabilities of all experts."""
        return jax.nn.softmax(logits)

    def shares(self, scores: Float[Array, "B L E"]) -> Float[Array, "B L E"]:
        """Return scores that add up to 1 for each token, for the load-balancing loss."""
        return scores

    def choosable(self, scores: Float[Array, "B L E"]) -> Float[Array, "B L E"]:
        """Return the scores by which experts are chosen: all as they are."""
        return scores

    def gates(self, chosen_scores: Float[Array, "B L P"]) -> Float[Array, "B L P"]:
        """Return the weights of the chosen experts' outputs."""
        if not self.norm_topk_prob:
            return chosen_scores
        return chosen_scores / jnp.sum(chosen_scores, axis=-1, keepdims=True)


@config_class
class SigmoidRouter:
    """Scores are sigmoids, one for each expert; a bias helps to choose, and weighs nothing (DeepSeek-V3, §2.1.2).

    Groups limit the devices that a token's experts lie on (§2.1.2, "node-limited routing").

    Attributes:
      norm_topk_prob: Scores of the chosen experts are divided by their sum (eq. 13).
      routed_scaling_factor: Multiplies the weights of the experts' outputs.
      n_group: Groups of equally many neighboring experts.
      topk_group: Groups that a token chooses from: those whose two best experts have the highest sum.
      bias_update_rate: Change of an expert's bias by a step of training: up where it has fewer choices than the fair
        share, down where it has more (γ; 0.001 in §4.2). 0 leaves it.
    """

    norm_topk_prob: bool = True
    routed_scaling_factor: float = 1.0
    n_group: int = 1
    topk_group: int = 1
    bias_update_rate: float = 0.001

    def __post_init__(self) -> None:
        if not 0 <= self.bias_update_rate < math.inf:
            raise ValueError(
                f"bias_update_rate is {self.bias_update_rate:g}; give 0.001, another positive number, or 0 to leave "
                "the bias as it is"
            )
        if not 1 <= self.topk_group <= self.n_group:
            raise ValueError(f"topk_group is {self.topk_group}; give 1 to n_group, which is {self.n_group}")

    def check(self, num_experts: int, num_chosen: int) -> None:
        """Refuse groups that don't fit.

        Args:
          num_experts: Experts of the layer.
          num_chosen: Experts that each token uses.

        Raises:
          ValueError: Groups are not equal, have no two experts, or the chosen ones have too few.
        """
        size = num_experts // self.n_group
        if self.n_group > 1 and (num_experts % self.n_group or size < 2):
            raise ValueError(
                f"n_group={self.n_group} can't share out num_experts={num_experts}: groups need equally many, and at "
                "least 2"
            )
        if self.topk_group * size < num_chosen:
            raise ValueError(
                f"topk_group={self.topk_group} groups have {self.topk_group * size} experts; give enough for "
                f"num_experts_per_token, {num_chosen}"
            )

    @property
    def has_correction_bias(self) -> bool:
        """True: a bias for each expert is added where experts are chosen."""
        return True

    def scores(self, logits: Float[Array, "B L E"]) -> Float[Array, "B L E"]:
        """Return the sigmoid of each logit."""
        return jax.nn.sigmoid(logits)

    def shares(self, scores: Float[Array, "B L E"]) -> Float[Array, "B L E"]:
        """Return scores that add up to 1 for each token, for the load-balancing loss (eq. 19)."""
        return scores / (jnp.sum(scores, axis=-1, keepdims=True) + _TINY)

    def choosable(self, scores: Float[Array, "B L E"]) -> Float[Array, "B L E"]:
        """Return the scores by which experts are chosen; minus infinity outside of the best groups."""
        if self.topk_group == self.n_group:
            return scores
        groups_BLNE = scores.reshape(*scores.shape[:2], self.n_group, -1)
        first_BLN = jnp.max(groups_BLNE, axis=-1)
        best_BLNE = jax.nn.one_hot(jnp.argmax(groups_BLNE, axis=-1), groups_BLNE.shape[-1], dtype=bool)
        second_BLN = jnp.max(jnp.where(best_BLNE, -jnp.inf, groups_BLNE), axis=-1)
        groups_BLG = chosen_indices(first_BLN + second_BLN, self.topk_group)
        is_open_BLN = jnp.any(jax.nn.one_hot(groups_BLG, self.n_group, dtype=bool), axis=2)
        return jnp.where(is_open_BLN[..., None], groups_BLNE, -jnp.inf).reshape(scores.shape)

    def gates(self, chosen_scores: Float[Array, "B L P"]) -> Float[Array, "B L P"]:
        """Return the weights of the chosen experts' outputs."""
        if self.norm_topk_prob:
            chosen_scores = chosen_scores / (jnp.sum(chosen_scores, axis=-1, keepdims=True) + _TINY)
        return chosen_scores * self.routed_scaling_factor


RouterConfig: TypeAlias = SoftmaxRouter | SigmoidRouter


class Routing(NamedTuple):
    """Choices of tokens.

    Attributes:
      chosen: Experts that each token uses, the best first.
      gates: Weights of their outputs.
      logits: Scores of all experts before softmax or sigmoid.
      shares: Scores that add up to 1 for each token.
    """

    chosen: Int[Array, "B L P"]
    gates: Float[Array, "B L P"]
    logits: Float[Array, "B L E"]
    shares: Float[Array, "B L E"]


def route(
    config: RouterConfig,
    logits: Float[Array, "B L E"],
    num_chosen: int,
    correction_bias: Float[Array, " E"] | None = None,
) -> Routing:
    """Choose the experts of each token.

    Args:
      config: Scores, and how they choose and weigh.
      logits: Scores of all experts before softmax or sigmoid, in float32.
      num_chosen: Experts that each token uses.
      correction_bias: Added to scores where experts are chosen, and nowhere else. It gets no gradient.
    """
    scores_BLE = config.scores(logits)
    for_choice_BLE = scores_BLE
    if correction_bias is not None:
        for_choice_BLE = scores_BLE + jax.lax.stop_gradient(correction_bias)[None, None]
    chosen_BLP = chosen_indices(config.choosable(for_choice_BLE), num_chosen)
    is_chosen_BLPE = jax.nn.one_hot(chosen_BLP, logits.shape[-1], dtype=bool)
    chosen_scores_BLP = jnp.sum(scores_BLE[:, :, None] * is_chosen_BLPE, axis=-1)
    return Routing(chosen_BLP, config.gates(chosen_scores_BLP), logits, config.shares(scores_BLE))


def chosen_indices(scores: Float[Array, "B L E"], num_chosen: int) -> Int[Array, "B L P"]:
    """Return the indices of the highest scores, the best first; of equal ones the first.

    It is not ``lax.top_k``, for which XLA gathers the scores of all rows.

    Args:
      scores: Scores of each token.
      num_chosen: Number of indices.
    """
    chosen, left_BLE = [], scores
    for _ in range(num_chosen):
        best_BL = jnp.argmax(left_BLE, axis=-1)
        chosen.append(best_BL)
        left_BLE = jnp.where(jax.nn.one_hot(best_BL, scores.shape[-1], dtype=bool), -jnp.inf, left_BLE)
    return jnp.stack(chosen, axis=-1)
