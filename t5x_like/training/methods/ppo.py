"""Proximal policy optimization with a value head, as InstructGPT's last step.

Schulman et al. 2017, https://arxiv.org/abs/1707.06347; Ziegler et al. 2019, https://arxiv.org/abs/1909.08593; Ouyang et
al. 2022, section 3.5 and appendix C.4, https://arxiv.org/abs/2203.02155.
"""

import math
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.batch import DeclaredStreams
from t5x_like.config_class import config_class, refuse_unused
from t5x_like.model.families.family import Predictions
from t5x_like.model.heads import VALUE
from t5x_like.training.losses.policy_gradients import (
    adapted_kl_coefficient,
    clipped_losses,
    generalized_advantages,
    token_rewards,
    value_losses,
    whitened,
)
from t5x_like.training.methods.on_policy import OnPolicyMethod
from t5x_like.training.rollouts.rollout import Rollout


@config_class
class PPO(OnPolicyMethod):
    """Advantages of tokens come from a value head, which predicts the rewards to come.

    The head is a linear layer on the model's own states, and begins with zeros. An answer's reward comes with its last
    token, and each token costs its log-ratio to the reference. ``supervised_tasks`` make it PPO-ptx.

    Attributes:
      kl_coefficient: Weight of the log-ratio of a token; 0 needs no reference. The first one if ``kl_target`` is given.
      kl_target: Divergence of an answer that an adaptive coefficient keeps; ``None`` for a fixed coefficient.
      kl_horizon: Answers in which an adaptive coefficient changes by up to a fifth.
      gamma: Discount of later rewards.
      gae_lambda: Weight of later differences of values.
      value_clip: Distance that a value may move from that of the model which wrote the answer.
      value_coefficient: Weight of the loss of values.
    """

    num_epochs: int = 4
    kl_coefficient: float = 0.05
    kl_target: float | None = None
    kl_horizon: int = 10_000
    gamma: float = 1.0
    gae_lambda: float = 0.95
    value_clip: float = 0.2
    value_coefficient: float = 0.1

    measures: ClassVar[tuple[str, ...]] = (*OnPolicyMethod.measures, "value_loss")
    has_value_head: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = ("log_kl_factor",)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("kl_coefficient", "value_coefficient"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; give 0 or more")
        for name in ("gamma", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give a number from 0 to 1")
        if not self.value_clip > 0:
            raise ValueError(f"value_clip is {self.value_clip}; give a positive number, such as 0.2")
        if self.kl_target is None:
            refuse_unused(self, "kl_horizon", because="there is no kl_target")
        elif not (self.kl_target > 0 and self.kl_coefficient > 0 and self.kl_horizon > 0):
            raise ValueError(
                f"kl_target is {self.kl_target}, kl_horizon {self.kl_horizon} and kl_coefficient "
                f"{self.kl_coefficient}; give positive numbers"
            )
        if not self.has_reference:
            refuse_unused(self, "reference", because="kl_coefficient=0 compares with no reference")

    @property
    def has_reference(self) -> bool:
        return self.kl_coefficient > 0

    @property
    def needs_old_logps(self) -> bool:
        return True

    @property
    def loss_factors(self) -> Mapping[str, float]:
        return {"value_loss": self.value_coefficient}

    def streams_of(self, rollout: Rollout) -> dict[str, np.ndarray]:
        assert rollout.values is not None, "the model has no value head"
        coefficient = self.kl_coefficient * math.exp(rollout.log_kl_factor)
        mask = jnp.asarray(rollout.mask * rollout.is_rewarded[:, None])
        values, logps = jnp.asarray(rollout.values), jnp.asarray(rollout.logps)
        reference_logps = logps if rollout.reference_logps is None else jnp.asarray(rollout.reference_logps)
        rewards = token_rewards(jnp.nan_to_num(rollout.rewards), logps, reference_logps, mask, coefficient)
        advantages = generalized_advantages(
            rewards, values, mask, gamma=self.gamma, gae_lambda=self.gae_lambda
        )
        return {
            "advantages": np.asarray(whitened(advantages, mask)),
            "returns": np.asarray(advantages + values),
            "old_values": rollout.values,
        }

    def next_log_kl_factor(self, rollout: Rollout) -> float:
        if self.kl_target is None:
            return rollout.log_kl_factor
        factor = math.exp(rollout.log_kl_factor)
        kl = float(np.mean(rollout.kl))
        return math.log(
            adapted_kl_coefficient(
                factor, kl, target=self.kl_target, num_answers=len(rollout.rewards), horizon=self.kl_horizon
            )
        )

    def losses_of(
        self, logps: jax.Array, predictions: Predictions, streams: DeclaredStreams
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        assert predictions.heads is not None, "the model has no value head"
        weights = streams["policy_weights"]
        policy = clipped_losses(
            logps,
            streams["old_logps"],
            streams["advantages"],
            epsilon_low=self.epsilon_low,
            epsilon_high=self.epsilon_high,
        )
        values = predictions.heads[VALUE][..., 0]
        errors = value_losses(values, streams["old_values"], streams["returns"], self.value_clip)
        losses = {"loss": policy.losses, "value_loss": errors}
        sums = {name: jnp.sum(jnp.where(weights > 0, each * weights, 0.0)) for name, each in losses.items()}
        return sums, policy.is_clipped
