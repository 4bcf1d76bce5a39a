"""Losses of answers that a model has written: GRPO's variants and PPO, with their gradients by each token."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.references.models import read_arrays
from benchmarks.references.reference import Reference, check_close, read_json
from t5x_like.batch import DeclaredStreams
from t5x_like.model.families.family import Predictions
from t5x_like.model.heads import VALUE
from t5x_like.training.losses.policy_gradients import token_rewards
from t5x_like.training.methods.grpo import GRPO
from t5x_like.training.methods.on_policy import OnPolicyMethod
from t5x_like.training.methods.ppo import PPO
from t5x_like.training.rollouts.rewards import FunctionReward
from t5x_like.training.rollouts.rollout import Rollout

_ATOL = 1e-5
_REWARDS = (FunctionReward(function="recorded.rewards"),)


def policy_gradients(directory: Path) -> Iterator[Reference]:
    """Yield each loss with the settings that it was recorded for."""
    for index, setting in enumerate(read_json(directory / "results.json")):
        check = check_ppo if setting["loss_type"] == "ppo" else check_grpo
        yield Reference(
            "preferences",
            f"{directory} {setting['loss_type']} {index}",
            lambda setting=setting, check=check: check(directory, setting),
        )


def check_grpo(directory: Path, setting: Mapping[str, Any]) -> None:
    """Compare advantages, the loss of one setting and its gradients."""
    io = read_arrays(directory / "io.npz")
    limits = {name: setting[name] for name in ("epsilon_low", "epsilon_high")}
    method = GRPO(
        rewards=_REWARDS, num_epochs=2, beta=setting["beta"], loss_type=setting["loss_type"], **limits
    )
    rollout = _rollout(io, _group_size(io["out_grpo_advantages"]))
    streams = _streams(method, rollout, setting["max_completion_length"])
    check_close(streams["advantages"][:, 0], io["out_grpo_advantages"], "advantages", atol=_ATOL)

    def loss(logps: jax.Array) -> jax.Array:
        return method.losses_of(logps, Predictions(), streams)[0]["loss"]

    value, gradients = jax.value_and_grad(loss)(jnp.asarray(io["in_logps"]))
    check_close(value, setting["loss"], "loss", atol=_ATOL)
    check_close(gradients, setting["gradient"], "gradient", atol=_ATOL)


def check_ppo(directory: Path, setting: Mapping[str, Any]) -> None:
    """Compare rewards of tokens, advantages, both losses and their gradients."""
    io = read_arrays(directory / "io.npz")
    names = ("kl_coefficient", "gamma", "gae_lambda", "value_clip", "value_coefficient")
    clip = {"epsilon_low": setting["clip"], "epsilon_high": setting["clip"]}
    method = PPO(rewards=_REWARDS, **{name: setting[name] for name in names}, **clip)
    mask = io["in_mask"]
    streams = _streams(method, _rollout(io, 1), mask.shape[1])
    rewards = token_rewards(
        jnp.asarray(io["in_rewards"]),
        jnp.asarray(io["in_old_logps"]),
        jnp.asarray(io["in_ref_logps"]),
        jnp.asarray(mask),
        setting["kl_coefficient"],
    )
    for name, array in (
        ("token_rewards", rewards),
        ("whitened", streams["advantages"]),
        ("returns", streams["returns"]),
    ):
        check_close(array * mask, io[f"out_ppo_{name}"] * mask, name, atol=_ATOL)

    def losses(logps: jax.Array, values: jax.Array) -> dict[str, jax.Array]:
        predictions = Predictions(heads={VALUE: values[..., None]})
        return method.losses_of(logps, predictions, streams)[0]

    def loss(logps: jax.Array, values: jax.Array) -> jax.Array:
        parts = losses(logps, values)
        return sum((parts[name] * method.loss_factors.get(name, 1.0) for name in parts), jnp.zeros(()))

    arguments = [jnp.asarray(io[f"in_{name}"]) for name in ("logps", "new_values")]
    parts = losses(*arguments)
    check_close(parts["loss"], setting["policy_loss"], "policy loss", atol=_ATOL)
    check_close(parts["value_loss"], setting["value_loss"], "value loss", atol=_ATOL)
    of_logps, of_values = jax.grad(loss, argnums=(0, 1))(*arguments)
    check_close(of_logps, io["out_ppo_grad_logps"], "gradient of log-probabilities", atol=_ATOL)
    check_close(of_values, io["out_ppo_grad_values"], "gradient of values", atol=_ATOL)


def _group_size(advantages: np.ndarray) -> int:
    """Return the answers to a prompt, whose advantages sum to 0; their number is not recorded."""
    total = len(advantages)
    sizes = [size for size in range(2, total + 1) if total % size == 0]
    return next(
        size for size in sizes if np.allclose(advantages.reshape(-1, size).sum(axis=1), 0, atol=_ATOL)
    )


def _rollout(io: Mapping[str, np.ndarray], num_answers: int) -> Rollout:
    return Rollout(
        io["in_mask"],
        io["in_rewards"],
        num_answers,
        io["in_old_logps"],
        io["in_ref_logps"],
        io["in_values"],
    )


def _streams(method: OnPolicyMethod, rollout: Rollout, max_length: int) -> DeclaredStreams:
    assert rollout.reference_logps is not None
    streams = method.streams_of(rollout) | {
        "old_logps": rollout.logps,
        "reference_logps": rollout.reference_logps,
        "policy_weights": method.weights_of(rollout.mask, max_length),
    }
    return DeclaredStreams(token={name: jnp.asarray(each) for name, each in streams.items()})
