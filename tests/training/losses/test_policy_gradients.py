"""Policy gradients against recorded values, and against formulas written out."""

import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.references.policy_gradients import policy_gradients
from benchmarks.references.reference import compare_all
from t5x_like.training.losses.policy_gradients import (
    adapted_kl_coefficient,
    clipped_losses,
    group_advantages,
    leave_one_out_advantages,
    token_rewards,
    whitened,
)
from tests.references import FIXTURES

REWARDS = jnp.array([[1.0, 2.0, 6.0], [4.0, 4.0, 4.0]])
ALL = jnp.ones((2, 3), bool)


def test_losses_and_gradients_are_the_recorded_ones() -> None:
    assert compare_all(policy_gradients(FIXTURES / "preferences" / "policy_gradients")) == 5


def test_an_answer_is_compared_with_the_others_to_its_prompt() -> None:
    np.testing.assert_allclose(leave_one_out_advantages(REWARDS, ALL), [[-3, -1.5, 4.5], [0, 0, 0]])
    np.testing.assert_allclose(group_advantages(REWARDS, ALL, scale="none"), [[-2, -1, 3], [0, 0, 0]])
    of_batch = group_advantages(REWARDS, ALL, scale="batch")
    np.testing.assert_allclose(of_batch[0], np.array([-2, -1, 3]) / np.std(REWARDS, ddof=1), rtol=1e-4)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_answers_without_a_reward_change_nothing(scale: str) -> None:
    rewards = jnp.array([[1.0, 2.0, 6.0, jnp.nan]])
    known = jnp.array([[True, True, True, False]])
    advantages = group_advantages(rewards, known, scale=scale)  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(
        advantages[:, :3],
        group_advantages(REWARDS[:1], ALL[:1], scale=scale),  # pyright: ignore[reportArgumentType]
        rtol=1e-5,
    )
    assert advantages[0, 3] == 0.0
    alone = jnp.array([[True, False, False, False]])
    np.testing.assert_array_equal(leave_one_out_advantages(rewards, alone), 0.0)


def test_a_higher_upper_clip_leaves_likelier_tokens_their_gradient() -> None:
    logps, old = jnp.log(jnp.array([[1.25, 1.25]])), jnp.zeros((1, 2))
    advantages = jnp.array([[1.0, -1.0]])
    low = clipped_losses(logps, old, advantages, epsilon_low=0.2, epsilon_high=0.2)
    high = clipped_losses(logps, old, advantages, epsilon_low=0.2, epsilon_high=0.28)
    np.testing.assert_allclose(low.losses, [[-1.2, 1.25]], rtol=1e-6)
    np.testing.assert_allclose(high.losses, [[-1.25, 1.25]], rtol=1e-6)
    assert low.is_clipped.tolist() == [[1.0, 0.0]]


def test_the_reward_comes_with_the_last_token_and_each_costs_its_log_ratio() -> None:
    mask = jnp.array([[0.0, 1.0, 1.0, 0.0]])
    rewards = token_rewards(
        jnp.array([5.0]), jnp.array([[9.0, -1.0, -2.0, 9.0]]), jnp.array([[0.0, -3.0, -3.0, 0.0]]), mask, 0.1
    )
    np.testing.assert_allclose(rewards, [[0.0, -0.2, 4.9, 0.0]], rtol=1e-6)
    np.testing.assert_allclose(whitened(rewards, mask), [[0.0, -1.0, 1.0, 0.0]], rtol=1e-5, atol=1e-5)


def test_the_penalty_follows_the_divergence() -> None:
    options = {"target": 6.0, "num_answers": 1000, "horizon": 10_000}
    assert adapted_kl_coefficient(0.1, 12.0, **options) == pytest.approx(0.102)
    assert adapted_kl_coefficient(0.1, 0.0, **options) == pytest.approx(0.098)
    assert adapted_kl_coefficient(0.1, 6.6, **options) == pytest.approx(0.101)
