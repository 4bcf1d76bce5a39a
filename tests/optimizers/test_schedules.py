import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import (
    Constant,
    Factors,
    InverseSqrt,
    LinearWarmupCosine,
    LinearWarmupLinearDecay,
    Noam,
    Shifted,
    SlantedTriangular,
    WarmupStableDecay,
)
from tests.references import read_arrays


def rates(schedule, steps):
    return np.array([float(schedule(step)) for step in steps])


def test_inverse_sqrt_is_flat_through_the_warm_up_then_falls():
    np.testing.assert_allclose(
        rates(InverseSqrt(), [0, 1, 10_000, 40_000]), [0.01, 0.01, 0.01, 0.005], rtol=1e-6
    )
    np.testing.assert_allclose(rates(InverseSqrt(base=2.0, warmup_steps=4), [0, 16]), [1.0, 0.5], rtol=1e-6)


def test_the_first_update_of_a_linear_warm_up_has_rate_zero(golden):
    units = read_arrays(golden / "models" / "units" / "io.npz")
    linear = LinearWarmupLinearDecay(peak=1.0, warmup_steps=10, total_steps=100)
    cosine = LinearWarmupCosine(peak=1.0, warmup_steps=10, total_steps=100)
    np.testing.assert_allclose(rates(linear, range(120)), units["sched_linear_w10_t100"], atol=1e-6)
    # Hugging Face's cosine rises again after the last step; ours stays at its end.
    np.testing.assert_allclose(rates(cosine, range(101)), units["sched_cosine_w10_t100"][:101], atol=1e-6)
    assert float(cosine(119)) == pytest.approx(0.0, abs=1e-7)


def test_a_line_from_the_start_is_that_of_berts_code():
    """``create_optimizer`` in optimization.py of google-research/bert: a decay of all steps, or the warm-up."""
    schedule = LinearWarmupLinearDecay(peak=2.0, warmup_steps=10, total_steps=100, decay_from="start")
    steps = np.arange(120)
    expected = np.where(steps < 10, 2.0 * steps / 10, 2.0 * (1 - np.minimum(steps, 100) / 100))
    np.testing.assert_allclose(rates(schedule, steps), expected, rtol=1e-6)
    first_stage = dataclasses.replace(schedule, total_steps=90, end=0.2)
    np.testing.assert_allclose(rates(first_stage, steps[:91]), expected[:91], rtol=1e-6)
    assert float(dataclasses.replace(schedule, decay_from="peak")(10)) == 2.0


def test_slanted_triangles_are_those_of_ulmfit():
    total, cut, ratio, peak = 200, 20, 32, 0.01
    schedule = SlantedTriangular(peak=peak, total_steps=total)
    steps = np.arange(total)
    part = np.where(steps < cut, steps / cut, 1 - (steps - cut) / (cut * (1 / 0.1 - 1)))
    np.testing.assert_allclose(rates(schedule, steps), peak * (1 + part * (ratio - 1)) / ratio, rtol=1e-5)
    assert np.argmax(rates(schedule, steps)) == cut
    # 0.1 of 109 steps are 10, of which the fall ends at step 100: it stays at the lowest rate.
    np.testing.assert_allclose(rates(SlantedTriangular(total_steps=109), [100, 108]), 0.01 / 32, rtol=1e-5)
    flat = SlantedTriangular(peak=peak, total_steps=total, ratio=1.0)
    np.testing.assert_allclose(rates(flat, [0, 20, 199]), peak, rtol=1e-6)
    assert float(SlantedTriangular(total_steps=200, cut_fraction=0.5)(100)) == pytest.approx(0.01)


def test_a_stable_rate_falls_in_the_last_updates_only():
    schedule = WarmupStableDecay(peak=2.0, warmup_steps=10, decay_steps=100, total_steps=200, end=0.5)
    np.testing.assert_allclose(rates(schedule, [0, 5, 10, 50, 100]), [0.0, 1.0, 2.0, 2.0, 2.0])
    # 1 - sqrt(n / N): half of the way is gone after a quarter of the decay.
    np.testing.assert_allclose(rates(schedule, [101, 125, 149]), [1.85, 1.25, 2.0 - 1.5 * 0.7], rtol=1e-6)
    np.testing.assert_allclose(rates(schedule, [200, 300]), 0.5, rtol=1e-6)
    linear = dataclasses.replace(schedule, decay_shape="linear")
    np.testing.assert_allclose(rates(linear, [100, 125, 150, 200]), [2.0, 1.625, 1.25, 0.5], rtol=1e-6)


def test_a_stable_rate_may_be_all_decay_or_never_fall():
    decay = WarmupStableDecay(peak=1.0, warmup_steps=0, decay_steps=100, total_steps=100)
    np.testing.assert_allclose(rates(decay, [0, 25, 64, 100]), [1.0, 0.5, 0.2, 0.0], atol=1e-6)
    constant = WarmupStableDecay(peak=1.0, warmup_steps=10, decay_steps=0, total_steps=100)
    np.testing.assert_allclose(rates(constant, [5, 10, 99, 100, 500]), [0.5, 1.0, 1.0, 1.0, 1.0])


def test_noam_is_the_schedule_of_the_transformer():
    numbers = np.array([1, 10, 4000, 16_000])
    expected = 512**-0.5 * np.minimum(numbers**-0.5, numbers * 4000**-1.5)
    np.testing.assert_allclose(rates(Noam(), numbers - 1), expected, rtol=1e-5)
    assert float(Noam(model_dim=128, warmup_steps=10, factor=2.0)(9)) == pytest.approx(
        2 * 128**-0.5 * 10**-0.5
    )


def test_a_shifted_schedule_begins_later():
    schedule = LinearWarmupLinearDecay(peak=1.0, warmup_steps=10, total_steps=100)
    np.testing.assert_array_equal(
        rates(Shifted(schedule=schedule, start=7), [0, 5]), rates(schedule, [7, 12])
    )


def test_t5x_factors_multiply():
    usual = Factors(base=1.0, warmup_steps=100)
    np.testing.assert_allclose(rates(usual, [0, 50, 100, 400]), [1e-8, 0.05, 0.1, 0.05], rtol=1e-6)
    pretraining = Factors(factors="constant * rsqrt_decay", base=1.0, warmup_steps=10_000)
    np.testing.assert_allclose(rates(pretraining, [0, 40_000]), rates(InverseSqrt(), [0, 40_000]), rtol=1e-6)
    stairs = Factors(factors="constant*decay_every", base=1.0, decay_factor=0.5, steps_per_decay=10)
    np.testing.assert_allclose(rates(stairs, [0, 9, 10, 25]), [1.0, 1.0, 0.5, 0.25])
    line = Factors(factors="linear_decay", base=2.0, warmup_steps=10, decay_factor=0.1)
    np.testing.assert_allclose(rates(line, [5, 10, 15, 30]), [1.0, 2.0, 1.0, 1e-8], rtol=1e-6)
    cycle = Factors(factors="cosine_decay", warmup_steps=10, steps_per_cycle=100)
    np.testing.assert_allclose(rates(cycle, [0, 10, 60, 110]), [1.0, 1.0, 0.5, 1.0], atol=1e-6)
    normal = Factors(factors="rsqrt_normalized_decay", warmup_steps=100, step_offset=1000)
    np.testing.assert_allclose(rates(normal, [0, 1100, 1400]), [1.0, 1.0, 0.5], rtol=1e-6)


@pytest.mark.parametrize(
    "schedule",
    [
        Constant(value=0.1),
        InverseSqrt(),
        LinearWarmupCosine(peak=1.0, warmup_steps=0, total_steps=5, end=0.1),
        Factors(),
        SlantedTriangular(total_steps=100),
        Noam(),
        WarmupStableDecay(peak=1.0, warmup_steps=0, decay_steps=4, total_steps=5),
        Shifted(schedule=Noam(), start=3),
    ],
)
def test_schedules_give_float32_scalars_under_jit(schedule):
    rate = jax.jit(schedule)(jnp.int32(3))
    assert rate.shape == ()
    assert rate.dtype == jnp.float32
    assert float(rate) == pytest.approx(float(schedule(3)), rel=1e-6)


def test_impossible_schedules_are_refused_in_words():
    with pytest.raises(ValueError, match="unknown schedule factors \\['cosine'\\]; choose from constant"):
        Factors(factors="constant * cosine")
    with pytest.raises(ValueError, match="warmup_steps is 0"):
        InverseSqrt(warmup_steps=0)
    with pytest.raises(ValueError, match="warmup_steps=10 must lie in"):
        LinearWarmupCosine(peak=1.0, warmup_steps=10, total_steps=10)
    with pytest.raises(ValueError, match=r"decay_steps=95 must lie in .*, which is 90"):
        WarmupStableDecay(peak=1.0, warmup_steps=10, decay_steps=95, total_steps=100)
    with pytest.raises(ValueError, match="decay_shape needs"):
        WarmupStableDecay(peak=1.0, warmup_steps=10, decay_steps=9, total_steps=100, decay_shape="cosine")


@pytest.mark.parametrize("rate", [math.inf, math.nan, -1e-3])
def test_rates_that_would_destroy_weights_are_refused(rate):
    for build in (
        lambda: Constant(value=rate),
        lambda: InverseSqrt(base=rate),
        lambda: LinearWarmupLinearDecay(peak=rate, warmup_steps=1, total_steps=10),
        lambda: LinearWarmupCosine(peak=1.0, warmup_steps=1, total_steps=10, end=rate),
        lambda: SlantedTriangular(peak=rate, total_steps=100),
        lambda: Noam(factor=rate),
        lambda: WarmupStableDecay(peak=rate, warmup_steps=1, decay_steps=1, total_steps=10),
        lambda: Factors(base=rate),
        lambda: AdamW(learning_rate=rate),
    ):
        with pytest.raises(ValueError, match="give a learning rate that is finite and not negative"):
            build()
    with pytest.raises(ValueError, match="epsilon is inf; give a finite number"):
        AdamW(epsilon=math.inf)
    with pytest.raises(ValueError, match="multiplies the learning rate of 'heads/\\*' by inf"):
        AdamW(rates=(("heads/*", math.inf),))
