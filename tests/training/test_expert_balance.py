"""Biases of experts: they move against the load of their expert, by the same amount whatever the optimizer does."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import named_activations, parameters
from t5x_like.model.zoo.deepseek_v3 import DeepseekV3Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedule_free import ScheduleFreeAdamW
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training.expert_balance import ExpertBalance
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.metrics import summarize
from t5x_like.training.state import new_state, plan_state
from t5x_like.training.step import train_step

MODEL = DeepseekV3Config(
    vocab_size=32,
    model_dim=16,
    num_layers=2,
    num_heads=2,
    mlp_dim=16,
    moe_mlp_dim=8,
    num_experts=8,
    num_experts_per_token=2,
    first_k_dense_replace=1,
    n_group=1,
    topk_group=1,
    q_lora_rank=None,
    kv_lora_rank=8,
    qk_nope_head_dim=4,
    qk_rope_head_dim=4,
    v_head_dim=4,
    router_aux_loss_coef=0.0,
    router_bias_update_rate=0.003,
)
BIAS = "decoder/layers/1/feed_forward/correction_bias"


def batch(seed: int) -> Batch:
    tokens = jax.random.randint(jax.random.key(seed), (8, 12), 3, 32)
    segments = jnp.broadcast_to(jnp.arange(12) < 10, tokens.shape).astype(jnp.int32)
    return Batch(
        decoder_input_tokens=tokens,
        decoder_segment_ids=segments,
        target_tokens=jnp.roll(tokens, -1, axis=1),
        loss_weights=segments.astype(jnp.float32),
    )


class Steps:
    """States before the first step and after each.

    Args:
      rate: Change of biases by a step.
      num_steps: Number of steps.
      **options: Of ``train_step``.
    """

    def __init__(self, rate: float, num_steps: int, **options: Any) -> None:
        model = replace(MODEL, router_bias_update_rate=rate)
        optimizer = AdamW(learning_rate=1e-3, max_gradient_norm=1.0, weight_decay_rate=0.5)
        self.plan = plan_state(model, optimizer, MeshConfig().build(jax.devices()[:1]), num_tasks=1)
        step = jax.jit(train_step(self.plan, Supervised(), seed=1, **options))
        self.states = [new_state(self.plan, model, seed=0)]
        for index in range(num_steps):
            self.states.append(step(self.states[-1], batch(index)))

    def biases(self, step: int) -> np.ndarray:
        return np.asarray(parameters.flatten(self.states[step]["params"])[BIAS])[0]

    def violation(self, first: int, last: int) -> float:
        totals = jax.tree.map(jnp.subtract, self.states[last]["totals"], self.states[first]["totals"])
        return summarize(totals)["expert_max_violation"]


@pytest.fixture(scope="module")
def moved() -> Steps:
    return Steps(0.003, 40)


@pytest.fixture(scope="module")
def fixed() -> Steps:
    return Steps(0.0, 40)


def test_a_step_moves_each_bias_against_the_load_of_its_expert(moved: Steps) -> None:
    model = parameters.merge(moved.plan.graphdef, moved.plan.weights(moved.states[0]))
    with named_activations.record(("decoder/feed_forward/inputs",)) as captured:
        model(batch(0))
    real = np.asarray(batch(0).decoder_segment_ids, bool)
    inputs = np.asarray(captured["decoder/feed_forward/inputs"][1])[real]
    kernel = np.asarray(model.decoder.layers["1"].feed_forward.router.kernel[0])
    counts = np.bincount(np.argsort(-inputs @ kernel)[:, :2].ravel(), minlength=8)
    np.testing.assert_allclose(moved.biases(1), -0.003 * np.sign(counts - counts.mean()), rtol=1e-6)


def test_microbatches_move_biases_as_the_whole_batch_does(moved: Steps) -> None:
    parts = Steps(0.003, 2, num_microbatches=4)
    np.testing.assert_array_equal(parts.biases(2), moved.biases(2))


def test_other_weights_and_the_logged_norm_are_those_without_the_rule(moved: Steps, fixed: Steps) -> None:
    """Biases change choices from the second step on."""
    after, other = moved.states[1], fixed.states[1]
    assert float(after["totals"].gradient_norm) == float(other["totals"].gradient_norm)
    weights, expected = (parameters.flatten(state["params"]) for state in (after, other))
    np.testing.assert_array_equal(expected.pop(BIAS), 0.0)
    for path, leaf in expected.items():
        np.testing.assert_array_equal(weights[path], leaf)


def test_loads_stay_even_and_become_uneven_without_the_rule(moved: Steps, fixed: Steps) -> None:
    assert moved.violation(30, 40) < 0.5 * fixed.violation(30, 40)


def test_a_schedule_free_run_chooses_experts_by_the_bias_itself() -> None:
    """Its other weights are read at ``y``, between the average and ``z``; no ``z`` of a bias moves."""
    optimizer = ScheduleFreeAdamW(learning_rate=1e-3, beta1=0.9)
    plan = plan_state(MODEL, optimizer, MeshConfig().build(jax.devices()[:1]), num_tasks=1)
    state = new_state(plan, MODEL, seed=0)
    moved = {path: leaf + 1 for path, leaf in parameters.flatten(state["params"]).items()}
    read = parameters.flatten(plan.at_gradients(state | {"params": parameters.unflatten(moved)})["params"])
    np.testing.assert_array_equal(read.pop(BIAS), moved.pop(BIAS))
    for path, leaf in moved.items():
        np.testing.assert_allclose(read[path], leaf - 0.1, atol=1e-6)


def test_a_bias_that_does_not_train_stays() -> None:
    gradients = {"embedding": {"table": jnp.ones(3)}}
    assert ExpertBalance({BIAS: 0.003}).divide(gradients) == (gradients, {})


def test_a_rate_that_is_no_rate_is_refused() -> None:
    with pytest.raises(ValueError, match=r"bias_update_rate is -1; give 0.001"):
        replace(MODEL, router_bias_update_rate=-1.0).build(jax.random.key(0))
