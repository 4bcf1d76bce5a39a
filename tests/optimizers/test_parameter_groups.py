"""Learning rates by depth."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.optimizers.lamb import Lamb
from t5x_like.optimizers.lion import Lion
from t5x_like.optimizers.optimizers import Adafactor, AdamW, decay_mask
from t5x_like.optimizers.parameter_groups import LayerDecay, rate_factors
from t5x_like.optimizers.schedules import Constant
from t5x_like.optimizers.stable_adamw import StableAdamW

SIZES: dict[str, Any] = {"vocab_size": 16, "model_dim": 16, "mlp_dim": 32, "num_heads": 2}
BERT = BertConfig(**SIZES, num_layers=3, max_position_embeddings=16, task="sequence_classification")


def factors_of(config, decay=None, rates=()):
    decay = LayerDecay(factor=decay) if isinstance(decay, float) else decay
    factors = rate_factors(parameters.abstract(config)[1], decay, rates)
    return {path: np.ravel(factor) for path, factor in parameters.flatten(factors).items()}


def test_each_block_has_half_the_rate_of_the_next_and_heads_four_times_the_lasts():
    factors = factors_of(BERT, 0.5)
    np.testing.assert_allclose(factors["encoder/layers/0/feed_forward/up/kernel"], [0.0625, 0.125, 0.25])
    assert {path for path, factor in factors.items() if factor.tolist() == [1.0]} == {
        path for path in factors if path.startswith("heads/")
    }
    assert {factors[path].item() for path in factors if path.startswith("embedding/")} == {0.03125}


@pytest.mark.parametrize("power", [0, 1])
def test_ulmfit_and_xlnet_begin_at_the_last_layer(power):
    factors = factors_of(BERT, LayerDecay(factor=1 / 2.6, last_layer_power=power))
    kernel = factors["encoder/layers/0/feed_forward/up/kernel"]
    np.testing.assert_allclose(kernel, 2.6 ** -np.array([2.0, 1.0, 0.0]) * 2.6**-power, rtol=1e-6)
    np.testing.assert_allclose(factors["embedding/tokens/table"], 2.6 ** -(3.0 + power), rtol=1e-6)
    np.testing.assert_allclose(factors["heads/pooler/transform/dense/kernel"], 1.0)


def test_blocks_that_take_turns_are_counted_in_their_order():
    config = ModernBertConfig(**SIZES, num_layers=6, task="sequence_classification")
    factors = factors_of(config, 0.5)
    slots = {path.split("/")[2] for path in factors if path.startswith("encoder/layers/")}
    of_slots = [factors[f"encoder/layers/{slot}/feed_forward/down/kernel"] for slot in sorted(slots)]
    assert np.concatenate(of_slots).tolist() == [0.5**depth for depth in range(7, 1, -1)]


def test_factors_by_path_multiply_each_other_and_those_of_depth():
    rates = (("heads/*", 10.0), ("*/bias", 3.0), ("encoder/layers[-1]/*", 0.5))
    factors = factors_of(BERT, rates=rates)
    np.testing.assert_allclose(factors["heads/scores/sequence_classification/projection/bias"], 30.0)
    np.testing.assert_allclose(factors["encoder/layers/0/feed_forward/up/bias"], [3.0, 3.0, 1.5])
    np.testing.assert_allclose(factors["encoder/layers/0/feed_forward/up/kernel"], [1.0, 1.0, 0.5])
    np.testing.assert_allclose(factors["embedding/tokens/table"], 1.0)
    with_depth = factors_of(BERT, 0.5, rates)
    np.testing.assert_allclose(with_depth["encoder/layers/0/feed_forward/up/bias"], [3 / 16, 3 / 8, 1.5 / 4])


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(Adafactor, marks=pytest.mark.slow),
        AdamW,
        pytest.param(Lamb, marks=pytest.mark.slow),
        pytest.param(Lion, marks=pytest.mark.slow),
        pytest.param(StableAdamW, marks=pytest.mark.slow),
    ],
    ids=["Adafactor", "AdamW", "LAMB", "Lion", "StableAdamW"],
)
def test_an_update_of_every_optimizer_is_multiplied_by_the_factor(make):
    _, shapes, axes = parameters.abstract(BERT)
    params = jax.tree.map(lambda leaf: jnp.ones(leaf.shape), shapes)
    options = {"layer_decay": 0.5, "rates": (("heads/*", 10.0),)}
    plain, scaled = (make(learning_rate=Constant(value=0.1), **each) for each in ({}, options))
    updates = [
        each.build(axes).update(params, each.build(axes).init(params), params)[0] for each in (plain, scaled)
    ]
    expected = jax.tree.map(jnp.multiply, updates[0], scaled.rate_factors(params))
    jax.tree.map(lambda left, right: np.testing.assert_allclose(left, right, rtol=1e-6), updates[1], expected)


def test_layers_that_train_alone_have_the_factors_of_the_whole_model():
    _, shapes, axes = parameters.abstract(BERT)
    optimizer = Lion(learning_rate=1.0, weight_decay_rate=0.0, layer_decay=0.5)
    selection = parameters.select(shapes, ("encoder/layers[1:]/*",))
    part, part_axes, factors = (
        parameters.partition(tree, selection)[0] for tree in (shapes, axes, optimizer.rate_factors(shapes))
    )
    gradients = jax.tree.map(lambda leaf: jnp.ones(leaf.shape), part)
    built = optimizer.build(part_axes, factors)
    updates, _ = built.update(gradients, built.init(gradients), gradients)
    kernel = updates["encoder"]["layers"]["0"]["feed_forward"]["up"]["kernel"]
    np.testing.assert_allclose(kernel[:, 0, 0], [-0.125, -0.25])


def test_its_state_has_axes():
    _, shapes, axes = parameters.abstract(BERT)
    optimizer = AdamW(layer_decay=0.9)
    state = jax.eval_shape(optimizer.build(axes).init, shapes)
    named = jax.tree.map(
        lambda leaf, names: len(leaf.shape) == len(names), state, optimizer.state_axes(state, axes)
    )
    assert all(jax.tree.leaves(named))


def test_biases_and_norms_do_not_decay():
    decaying = parameters.flatten(decay_mask(parameters.abstract(BERT)[2]))
    assert {path.rpartition("/")[2] for path, decays in decaying.items() if decays} == {"kernel", "table"}
    assert {path.rpartition("/")[2] for path, decays in decaying.items() if not decays} == {"bias", "scale"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer_decay": 1.5}, r"layer_decay is 1\.5; give a factor above 0 and at most 1"),
        (
            {"rates": (("heads/*", 0.0),)},
            r"rates multiplies the learning rate of 'heads/\*' by 0; give a positive",
        ),
    ],
)
def test_wrong_factors_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AdamW(**options)
    with pytest.raises(ValueError, match="last_layer_power is -1"):
        LayerDecay(factor=0.9, last_layer_power=-1)


def test_factors_for_weights_that_are_not_there_are_refused():
    shapes = parameters.abstract(BERT)[1]
    with pytest.raises(ValueError, match=r"rates='head/\*' matches no weight .* nearest are heads/\*"):
        AdamW(rates=(("head/*", 10.0),)).rate_factors(shapes)
    with pytest.raises(ValueError, match="layer_decay needs stacked layers, and this model has none"):
        AdamW(layer_decay=0.9).rate_factors({"heads": shapes["heads"]})
