"""Learning rates that are plain functions of the step, and the messages about functions that are not."""

import jax.numpy as jnp
import optax
import pytest

from t5x_like.function_names import name_function
from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.optimizers import Adafactor, AdamW


@pytest.mark.parametrize("optimizer", [AdamW, Adafactor, Lion])
def test_a_schedule_of_optax_is_the_rate_of_each_update(optimizer):
    params = {"w": jnp.ones((2, 2))}
    gradients = {"w": jnp.full((2, 2), 0.5)}
    schedule = optax.piecewise_constant_schedule(0.1, {1: 0.0})
    rule = optimizer(learning_rate=schedule).build({"w": ("embed", "mlp")})
    state = rule.init(params)
    first, state = rule.update(gradients, state, params)
    second, _ = rule.update(gradients, state, params)
    assert jnp.abs(first["w"]).min() > 0
    assert jnp.abs(second["w"]).max() == 0


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (lambda step: 1e-3 if step < 10 else 1e-4, "decides in Python by the step; use jnp.where"),
        (optax.cosine_decay_schedule, r"cosine_decay_schedule is no function of the step .*decay_steps"),
        (AdamW, r"is the class AdamW itself; call it: AdamW\(…\)"),
        (lambda step: jnp.ones(3) * step, r"returns an array \[3\]; return one number"),
    ],
)
def test_what_is_no_schedule_is_refused_when_it_is_configured(rate, message):
    with pytest.raises(ValueError, match=message):
        AdamW(learning_rate=rate)


def test_names_of_functions_tell_apart_what_they_were_made_with():
    def name(**settings):
        return name_function(optax.adamw(optax.linear_schedule(0.1, 0.0, 5), **settings).update)

    assert name() == name()
    assert name() != name(b1=0.8)
    assert "transition_steps=5" in name()
    assert " at 0x" not in name_function(optax.inject_hyperparams(optax.sgd)(lambda step: 0.1 * step).update)
