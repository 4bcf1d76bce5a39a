"""Losses of answers that the model has written itself: policy gradients of GRPO, RLOO and PPO.

Arrays of tokens are [B, L] with a mask that is 1 at the tokens of an answer; those of answers are [B].
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

# Division of the sum over tokens: by an answer's tokens, by those of the batch, or by the longest length.
LossType = Literal["grpo", "bnpo", "dr_grpo"]

_SMALLEST_DEVIATION = 1e-4  # added to deviations of rewards, as the references do
_SMALLEST_VARIANCE = 1e-8  # added to the variance of advantages


def group_advantages(
    rewards: jax.Array, is_rewarded: jax.Array, *, scale: Literal["group", "batch", "none"] = "group"
) -> jax.Array:
    """Return how much better each answer is than the others to its prompt (Shao et al. 2024, section 4.1.2).

    Args:
      rewards: float32 [P, G], of G answers to each of P prompts.
      is_rewarded: bool [P, G]; answers without a reward have the advantage 0 and no part in the means.
      scale: Divides by the deviation of the rewards of a prompt, or of all; "none" keeps the difference (Liu et al.
        2025, Dr. GRPO, section 3).
    """
    rewards = jnp.where(is_rewarded, rewards, 0.0)
    count = jnp.sum(is_rewarded, axis=-1, keepdims=True)
    mean = jnp.sum(rewards, axis=-1, keepdims=True) / jnp.maximum(count, 1)
    centered = jnp.where(is_rewarded, rewards - mean, 0.0)
    if scale == "none":
        return centered
    of_all = rewards - jnp.sum(rewards) / jnp.maximum(jnp.sum(count), 1)
    squares, number = jnp.sum(jnp.square(centered), axis=-1, keepdims=True), count
    if scale == "batch":
        squares, number = jnp.sum(jnp.where(is_rewarded, jnp.square(of_all), 0.0)), jnp.sum(count)
    return centered / (jnp.sqrt(squares / jnp.maximum(number - 1, 1)) + _SMALLEST_DEVIATION)


def leave_one_out_advantages(rewards: jax.Array, is_rewarded: jax.Array) -> jax.Array:
    """Return each reward less the mean of the other answers' to its prompt (Ahmadian et al. 2024, eq. 8).

    Args:
      rewards: float32 [P, G].
      is_rewarded: bool [P, G], as ``group_advantages`` reads it.
    """
    count = jnp.sum(is_rewarded, axis=-1, keepdims=True)
    centered = group_advantages(rewards, is_rewarded, scale="none")
    return jnp.where(count > 1, centered * count / jnp.maximum(count - 1, 1), 0.0)


def kl_of_tokens(logps: jax.Array, reference_logps: jax.Array) -> jax.Array:
    """Return an estimate of the divergence from the reference that is never negative (Schulman 2020, k3).

    Args:
      logps: Log-probabilities of tokens under the model.
      reference_logps: Those under the reference.
    """
    difference = reference_logps - logps
    return jnp.exp(difference) - difference - 1


class PolicyLoss(NamedTuple):
    """Loss of each token, and whether its ratio to the old policy was clipped, float32 [B, L]."""

    losses: jax.Array
    is_clipped: jax.Array


def clipped_losses(
    logps: jax.Array,
    old_logps: jax.Array,
    advantages: jax.Array,
    *,
    epsilon_low: float,
    epsilon_high: float,
) -> PolicyLoss:
    """Return the clipped loss of tokens (Schulman et al. 2017, eq. 7; another upper clip is Yu et al. 2025's, DAPO).

    Args:
      logps: Log-probabilities of tokens.
      old_logps: Those under the model that wrote them.
      advantages: Advantages of tokens; or [B, 1] of answers.
      epsilon_low: Ratios below 1 minus this are clipped.
      epsilon_high: Ratios above 1 plus this are clipped.
    """
    ratio = jnp.exp(logps - old_logps)
    clipped = jnp.clip(ratio, 1 - epsilon_low, 1 + epsilon_high)
    plain, limited = -ratio * advantages, -clipped * advantages
    return PolicyLoss(jnp.maximum(plain, limited), (limited > plain).astype(jnp.float32))


def answer_weights(mask: jax.Array, loss_type: LossType, max_length: int) -> jax.Array:
    """Return weights of tokens, which are summed and divided by the number of answers, or of tokens for "bnpo".

    Args:
      mask: float32 [B, L].
      loss_type: "grpo" (mean over each answer), "bnpo" (mean over all tokens) or "dr_grpo" (a constant length).
      max_length: The most tokens of an answer.
    """
    if loss_type == "bnpo":
        return mask
    if loss_type == "dr_grpo":
        return mask / max_length
    return mask / jnp.maximum(jnp.sum(mask, axis=-1, keepdims=True), 1.0)


def token_rewards(
    rewards: jax.Array,
    old_logps: jax.Array,
    reference_logps: jax.Array,
    mask: jax.Array,
    kl_coefficient: float,
) -> jax.Array:
    """Return rewards of tokens: minus the log-ratio to the reference, and at the last token the answer's reward.

    Ziegler et al. 2019, eq. 2; Ouyang et al. 2022, eq. 2.

    Args:
      rewards: float32 [B].
      old_logps: Log-probabilities under the model that wrote the answers [B, L].
      reference_logps: Those under the reference [B, L].
      mask: float32 [B, L].
      kl_coefficient: Factor of the log-ratios.
    """
    is_last = mask * (jnp.cumsum(mask, axis=-1) == jnp.sum(mask, axis=-1, keepdims=True))
    return -kl_coefficient * (old_logps - reference_logps) * mask + rewards[:, None] * is_last


def generalized_advantages(
    rewards: jax.Array, values: jax.Array, mask: jax.Array, *, gamma: float, gae_lambda: float
) -> jax.Array:
    """Return generalized advantages of tokens (Schulman et al. 2016, eq. 16); 0 outside of the mask.

    Args:
      rewards: Rewards of tokens [B, L].
      values: Values before each token [B, L].
      mask: float32 [B, L], whose tokens follow each other in a row.
      gamma: Discount of later rewards.
      gae_lambda: Weight of later differences.
    """
    values = values * mask
    following = jnp.pad(values, ((0, 0), (0, 1)))[:, 1:]
    differences = (rewards + gamma * following - values) * mask

    def step(later: jax.Array, difference: jax.Array) -> tuple[jax.Array, jax.Array]:
        advantage = difference + gamma * gae_lambda * later
        return advantage, advantage

    _, advantages = jax.lax.scan(step, jnp.zeros(len(rewards)), differences.T, reverse=True)
    return advantages.T * mask


def whitened(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Return values with mean 0 and deviation 1 over the mask, and 0 outside.

    Args:
      values: float32 [B, L].
      mask: float32 [B, L].
    """
    count = jnp.sum(mask)
    centered = (values - jnp.sum(values * mask) / jnp.maximum(count, 1.0)) * mask
    variance = jnp.sum(jnp.square(centered)) / jnp.maximum(count, 1.0)
    return centered * jax.lax.rsqrt(variance + _SMALLEST_VARIANCE)


def value_losses(values: jax.Array, old_values: jax.Array, returns: jax.Array, clip: float) -> jax.Array:
    """Return the loss of each predicted value, half of the squared error; a value may move by ``clip`` alone.

    Args:
      values: Values before each token [B, L].
      old_values: Those of the model that wrote the answers.
      returns: What they predict.
      clip: Distance from the old values, beyond which the worse of both errors counts.
    """
    limited = jnp.clip(values, old_values - clip, old_values + clip)
    return 0.5 * jnp.maximum(jnp.square(values - returns), jnp.square(limited - returns))


def adapted_kl_coefficient(
    coefficient: float, kl: float, *, target: float, num_answers: int, horizon: int
) -> float:
    """Return the next coefficient of the penalty, which keeps the divergence near a target.

    Ziegler et al. 2019, section 2.2.

    Args:
      coefficient: Present coefficient.
      kl: Mean divergence of the newest answers, summed over their tokens.
      target: The divergence to keep.
      num_answers: Number of the newest answers.
      horizon: Answers in which the coefficient changes by up to a fifth.
    """
    error = min(max(kl / target - 1, -0.2), 0.2)
    return coefficient * (1 + error * num_answers / horizon)
