"""Losses of ranked answers against formulas written out, and against recorded values."""

from collections.abc import Callable
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.references.preferences import direct, reward
from benchmarks.references.reference import compare_all
from t5x_like.batch import Batch, DeclaredStreams
from t5x_like.training.losses import Normalizers
from t5x_like.training.losses.answer_pairs import AnswerScores, pair_losses, pairs_of
from t5x_like.training.methods.kto import KTO
from t5x_like.training.methods.method import LossContext
from t5x_like.training.methods.preference_optimization import PreferenceOptimization
from t5x_like.training.methods.reward_model import RewardModel
from tests.references import FIXTURES

RECORDED = FIXTURES / "preferences"


REFERENCES = [
    (direct, "dpo_gpt2"),
    pytest.param(direct, "dpo_t5", marks=pytest.mark.slow),
    (reward, "reward_gpt2"),
    pytest.param(reward, "reward_bert", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("form", "name"), REFERENCES)
def test_scores_and_the_first_loss_are_those_of_trl(form: Callable, name: str) -> None:
    assert compare_all(islice(form(RECORDED / name), 2)) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("form", "name"), REFERENCES)
def test_all_losses_and_gradients_are_those_of_trl(form: Callable, name: str) -> None:
    assert compare_all(form(RECORDED / name)) >= 3


def scores(logp: list[list[float]], lengths: list[list[int]]) -> AnswerScores:
    sums = jnp.asarray(logp, jnp.float32)
    return AnswerScores(sums, jnp.zeros_like(sums), jnp.asarray(lengths, jnp.float32))


def test_losses_without_a_reference_are_those_of_their_papers() -> None:
    better, worse = scores([[-2.0]], [[4]]), scores([[-9.0]], [[3]])
    simpo = pair_losses("simpo", better, worse, beta=2.0, margin=1.0)
    np.testing.assert_allclose(simpo, np.log1p(np.exp(-(2.0 * (-0.5 + 3.0) - 1.0))), rtol=1e-5)
    odds = [np.exp(mean) / (1 - np.exp(mean)) for mean in (-0.5, -3.0)]
    orpo = pair_losses("orpo", better, worse, beta=0.1)
    np.testing.assert_allclose(orpo, -0.1 * np.log(1 / (1 + odds[1] / odds[0])), rtol=1e-5)


def test_a_certain_answer_has_finite_odds_and_gradients() -> None:
    def loss(logp: jax.Array) -> jax.Array:
        better = AnswerScores(logp, jnp.zeros(1), jnp.ones(1))
        return jnp.sum(pair_losses("orpo", better, better._replace(logp=logp - 1), beta=1.0))

    value, gradient = jax.value_and_grad(loss)(jnp.zeros(1))
    assert np.isfinite([value, gradient[0]]).all()


def test_all_pairs_of_an_example_count_once_together() -> None:
    ranked = scores([[-1.0, -2.0, -4.0], [-1.0, -3.0, 0.0]], [[1, 1, 1], [1, 1, 0]])
    pairs = pairs_of(ranked, ranked.num_tokens)
    difference = pairs.better.logp - pairs.worse.logp
    assert float(pairs.total(difference)) == pytest.approx((1 + 3 + 2) / 3 + 2)
    assert float(pairs.num_examples) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beta": 0.0}, "beta is 0.0; give a positive number"),
        ({"label_smoothing": 0.5}, "from 0 to below"),
        ({"loss_type": "robust"}, "give label_smoothing"),
        ({"loss_type": "ipo", "label_smoothing": 0.1}, "label_smoothing"),
        ({"margin": 1.0}, "margin"),
        ({"loss_type": "simpo", "reference": "a"}, "reference"),
        ({"loss_type": "orpo"}, "supervised_weight=1.0"),
        ({"reference_step": 3}, "reference_step"),
        ({"logps_dir": "logps"}, "logps_dir"),
    ],
)
def test_settings_that_can_not_be_or_have_no_effect_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PreferenceOptimization(**options)


def test_rewards_are_centered_by_a_weight_of_at_least_zero() -> None:
    with pytest.raises(ValueError, match="center_rewards_coefficient is -1"):
        RewardModel(center_rewards_coefficient=-1)


def test_kto_is_the_formula_of_its_paper() -> None:
    logp = jnp.asarray([[-3.0, -9.0], [-5.0, -8.0], [-2.0, -6.0], [0.0, 0.0]])
    reference = jnp.asarray([[-4.0, -9.5], [-4.0, -9.5], [-3.0, -7.0], [0.0, 0.0]])
    num_tokens = jnp.asarray([[2.0, 2.0], [2.0, 2.0], [2.0, 2.0], [0.0, 0.0]])
    desirable = jnp.asarray([1.0, 0.0, 0.0, jnp.nan])
    batch = Batch(declared=DeclaredStreams(example={"desirable": desirable}))
    method = KTO(reference="any", beta=0.5, undesirable_weight=1.5)
    normalizers = Normalizers(*[jnp.float32(1.0)] * 5, jnp.float32(3.0), jnp.float32(1.0), 1)
    context = LossContext(normalizers, 1, None, {})
    extra, measures = method.losses_of(AnswerScores(logp, reference, num_tokens), batch, context)
    ratios, point = np.array([1.0, -1.0, 1.0]), (0.5 + 1.5 + 1.0) / 3
    signs, weights = np.array([1, -1, -1]), np.array([1.0, 1.5, 1.5])
    gains = 1 / (1 + np.exp(-0.5 * signs * (ratios - point)))
    np.testing.assert_allclose(extra["loss"].total, np.sum(weights * (1 - gains)), rtol=1e-6)
    assert float(extra["loss"].divisor) == 3
    assert float(measures["kl"].total / measures["kl"].count) == pytest.approx(point)
    assert float(measures["undesirable_reward"].total) == pytest.approx(0.5 * (-1.0 + 1.0))
    assert float(measures["undesirable_reward"].count) == 2


def test_weights_of_kto_are_not_negative() -> None:
    with pytest.raises(ValueError, match="desirable_weight is -1"):
        KTO(reference="any", desirable_weight=-1)
