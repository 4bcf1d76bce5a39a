"""Routers of experts against a loop over tokens: groups, biases, weights."""

import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model.layers.router import SigmoidRouter, SoftmaxRouter, route

LOGITS = np.random.default_rng(0).normal(0, 1.5, (2, 40, 8)).astype(np.float32)
BIAS = np.random.default_rng(1).normal(0, 0.4, 8).astype(np.float32)


def _slowly(config: SigmoidRouter, num_chosen: int, bias: np.ndarray) -> tuple[list[set[int]], np.ndarray]:
    """Chosen experts of each token, and weights of all experts' outputs."""
    chosen, gates = [], np.zeros((*LOGITS.shape[:2], 8))
    for place in np.ndindex(LOGITS.shape[:2]):
        scores = 1 / (1 + np.exp(-LOGITS[place].astype(np.float64)))
        groups = np.split(scores + bias, config.n_group)
        best = np.argsort([-np.sort(group)[-2:].sum() for group in groups])[: config.topk_group]
        size = 8 // config.n_group
        open_experts = [expert for group in best for expert in range(group * size, (group + 1) * size)]
        some = sorted(open_experts, key=lambda expert: -(scores + bias)[expert])[:num_chosen]
        chosen.append(set(some))
        total = scores[some].sum() if config.norm_topk_prob else 1.0
        gates[place][some] = scores[some] / total * config.routed_scaling_factor
    return chosen, gates


def _route(config: SigmoidRouter | SoftmaxRouter, num_chosen: int, bias: np.ndarray | None = None):
    routing = route(config, jnp.asarray(LOGITS), num_chosen, None if bias is None else jnp.asarray(bias))
    weights = np.zeros((*LOGITS.shape[:2], 8))
    np.put_along_axis(weights, np.asarray(routing.chosen), np.asarray(routing.gates), axis=-1)
    return routing, weights


GROUPED = SigmoidRouter(n_group=4, topk_group=2, routed_scaling_factor=2.5)


@pytest.mark.parametrize(
    "config",
    [
        SigmoidRouter(),
        SigmoidRouter(norm_topk_prob=False),
        GROUPED,
        SigmoidRouter(n_group=2, topk_group=1, norm_topk_prob=False, routed_scaling_factor=0.5),
    ],
)
def test_sigmoid_scores_with_a_bias_choose_within_groups_and_weigh_without_it(config):
    routing, weights = _route(config, 3, BIAS)
    chosen, expected = _slowly(config, 3, BIAS)
    assert list(map(set, np.asarray(routing.chosen).reshape(-1, 3).tolist())) == chosen
    np.testing.assert_allclose(weights, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("changed", ["bias", "groups", "scaling", "norm"])
def test_the_loop_notices_a_missing_option_of_a_sigmoid_router(changed):
    others = {
        "bias": (GROUPED, 0 * BIAS),
        "groups": (SigmoidRouter(routed_scaling_factor=2.5), BIAS),
        "scaling": (SigmoidRouter(n_group=4, topk_group=2), BIAS),
        "norm": (
            SigmoidRouter(n_group=4, topk_group=2, routed_scaling_factor=2.5, norm_topk_prob=False),
            BIAS,
        ),
    }
    config, bias = others[changed]
    assert not np.allclose(_route(config, 3, bias)[1], _slowly(GROUPED, 3, BIAS)[1], atol=1e-2)


def test_normed_probabilities_are_a_softmax_over_the_chosen_alone():
    _, weights = _route(SoftmaxRouter(norm_topk_prob=True), 3)
    best = np.sort(LOGITS, axis=-1)[..., -3:]
    alone = np.exp(best) / np.exp(best).sum(-1, keepdims=True)
    np.testing.assert_allclose(np.sort(weights, axis=-1)[..., -3:], np.sort(alone, axis=-1), atol=1e-6)


def test_probabilities_as_they_are_are_those_of_all_experts():
    routing, weights = _route(SoftmaxRouter(), 3)
    probs = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    np.testing.assert_allclose(
        np.sort(weights, axis=-1)[..., -3:], np.sort(probs, axis=-1)[..., -3:], atol=1e-6
    )
    np.testing.assert_allclose(routing.shares, probs, atol=1e-6)
