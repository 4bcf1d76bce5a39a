"""Group-relative policy optimization: an answer is good if it is better than the others to its prompt.

Shao et al. 2024, DeepSeekMath, section 4.1, https://arxiv.org/abs/2402.03300; and RLOO, Ahmadian et al. 2024, Back to
Basics, https://arxiv.org/abs/2402.14740.
"""

from abc import ABC
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.batch import DeclaredStreams
from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.family import Predictions
from t5x_like.training.losses.policy_gradients import (
    LossType,
    answer_weights,
    clipped_losses,
    group_advantages,
    kl_of_tokens,
    leave_one_out_advantages,
)
from t5x_like.training.methods.on_policy import OnPolicyMethod
from t5x_like.training.rollouts.rollout import Rollout


@config_class
class GroupMethod(OnPolicyMethod, ABC):
    """Base of methods that compare the answers to a prompt with each other.

    Attributes:
      num_answers: Answers to each prompt, its group.
      beta: Weight of the divergence from the reference; 0 needs no reference.
    """

    num_answers: int = 8
    beta: float = 0.04

    min_answers: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta < 0:
            raise ValueError(f"beta is {self.beta}; give 0 or more")
        if not self.beta:
            refuse_unused(self, "reference", because="beta=0 compares with no reference")

    @property
    def has_reference(self) -> bool:
        return self.beta > 0


@config_class
class GRPO(GroupMethod):
    """The advantage of an answer is its reward less the mean of its group, divided by the group's deviation.

    Attributes:
      num_answers: Answers to each prompt, its group.
      beta: Weight of the divergence from the reference, estimated for each token; 0 needs no reference.
      loss_type: Division of the sum over tokens: ``"grpo"`` by the tokens of each answer, ``"bnpo"`` by those of the
        batch, ``"dr_grpo"`` by the longest length that an answer may have (Liu et al. 2025).
      scale_rewards: Deviation that divides rewards: of the "group", of the "batch", or "none" as in Dr. GRPO.
    """

    num_answers: int = 8
    beta: float = 0.04
    loss_type: LossType = "grpo"
    scale_rewards: Literal["group", "batch", "none"] = "group"

    def streams_of(self, rollout: Rollout) -> dict[str, np.ndarray]:
        rewards, is_rewarded = (
            jnp.asarray(each.reshape(-1, rollout.num_answers))
            for each in (rollout.rewards, rollout.is_rewarded)
        )
        advantages = np.asarray(group_advantages(rewards, is_rewarded, scale=self.scale_rewards))
        return {"advantages": rollout.of_tokens(advantages)}

    def weights_of(self, mask: np.ndarray, max_length: int) -> np.ndarray:
        weights = np.asarray(answer_weights(jnp.asarray(mask), self.loss_type, max_length))
        return weights / max(mask.sum() if self.loss_type == "bnpo" else len(mask), 1)

    def losses_of(
        self, logps: jax.Array, predictions: Predictions, streams: DeclaredStreams
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        del predictions
        old_logps = streams.token.get("old_logps", jax.lax.stop_gradient(logps))
        policy = clipped_losses(
            logps,
            old_logps,
            streams["advantages"],
            epsilon_low=self.epsilon_low,
            epsilon_high=self.epsilon_high,
        )
        losses = policy.losses
        if self.has_reference:
            losses = losses + self.beta * kl_of_tokens(logps, streams["reference_logps"])
        weights = streams["policy_weights"]
        return {"loss": jnp.sum(jnp.where(weights > 0, losses * weights, 0.0))}, policy.is_clipped


@config_class
class RLOO(GroupMethod):
    """The advantage of an answer is its reward less the mean of the other answers' to its prompt.

    An answer is one action: its probability is that of all its tokens together. The divergence from the reference is
    taken off its reward.

    Attributes:
      num_answers: Answers to each prompt.
      beta: Weight of an answer's log-ratio to the reference, taken off its reward; 0 needs no reference.
    """

    num_answers: int = 4
    beta: float = 0.05

    @property
    def needs_logps(self) -> bool:
        return self.has_reference or self.needs_old_logps

    def streams_of(self, rollout: Rollout) -> dict[str, np.ndarray]:
        rewards = rollout.rewards
        if self.has_reference:
            rewards = rewards - self.beta * rollout.kl
        advantages = leave_one_out_advantages(
            *(jnp.asarray(each.reshape(-1, rollout.num_answers)) for each in (rewards, rollout.is_rewarded))
        )
        return {"advantages": rollout.of_tokens(np.asarray(advantages))}

    def weights_of(self, mask: np.ndarray, max_length: int) -> np.ndarray:
        del max_length
        return mask / len(mask)

    def losses_of(
        self, logps: jax.Array, predictions: Predictions, streams: DeclaredStreams
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        del predictions
        weights = streams["policy_weights"]
        old_logps = streams.token.get("old_logps", jax.lax.stop_gradient(logps))
        is_answer = weights > 0
        policy = clipped_losses(
            jnp.sum(jnp.where(is_answer, logps, 0.0), axis=-1),
            jnp.sum(jnp.where(is_answer, old_logps, 0.0), axis=-1),
            streams["advantages"][:, 0],
            epsilon_low=self.epsilon_low,
            epsilon_high=self.epsilon_high,
        )
        loss = jnp.sum(policy.losses * jnp.max(weights, axis=-1))
        return {"loss": loss}, jnp.broadcast_to(policy.is_clipped[:, None], logps.shape)
