"""Learning rates by depth."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.optimizers.optimizers import AdamW, decay_mask
from t5x_like.optimizers.parameter_groups import depth_factors, scale_by_depth
from t5x_like.optimizers.schedules import Constant

SIZES: dict[str, Any] = {"vocab_size": 16, "model_dim": 16, "mlp_dim": 32, "num_heads": 2}
BERT = BertConfig(**SIZES, num_layers=3, max_position_embeddings=16, task="sequence_classification")


def factors_of(config, decay):
    _, shapes, axes = parameters.abstract(config)
    return {
        path: np.ravel(factor)
        for path, factor in parameters.flatten(depth_factors(shapes, axes, decay)).items()
    }


def test_each_block_has_half_the_rate_of_the_next_and_heads_four_times_the_lasts():
    factors = factors_of(BERT, 0.5)
    np.testing.assert_allclose(factors["encoder/layers/0/feed_forward/up/kernel"], [0.0625, 0.125, 0.25])
    assert {path for path, factor in factors.items() if factor.tolist() == [1.0]} == {
        path for path in factors if path.startswith("heads/")
    }
    assert {factors[path].item() for path in factors if path.startswith("embedding/")} == {0.03125}


def test_blocks_that_take_turns_are_counted_in_their_order():
    config = ModernBertConfig(**SIZES, num_layers=6, task="sequence_classification")
    factors = factors_of(config, 0.5)
    slots = {path.split("/")[2] for path in factors if path.startswith("encoder/layers/")}
    of_slots = [factors[f"encoder/layers/{slot}/feed_forward/down/kernel"] for slot in sorted(slots)]
    assert sorted(np.concatenate(of_slots).tolist()) == [0.5**depth for depth in range(7, 1, -1)]


def test_an_update_is_what_adamw_gives_times_the_factor():
    _, shapes, axes = parameters.abstract(BERT)
    params = jax.tree.map(lambda leaf: jnp.ones(leaf.shape), shapes)
    plain, scaled = (
        AdamW(learning_rate=Constant(value=0.1), layer_decay=decay).build(axes) for decay in (None, 0.5)
    )
    updates = [each.update(params, each.init(params), params)[0] for each in (plain, scaled)]
    expected = jax.tree.map(jnp.multiply, updates[0], depth_factors(params, axes, 0.5))
    jax.tree.map(lambda left, right: np.testing.assert_allclose(left, right, rtol=1e-6), updates[1], expected)


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


def test_impossible_decays_are_refused():
    axes = parameters.abstract(BERT)[2]
    with pytest.raises(ValueError, match=r"layer_decay is 1\.5; give a factor above 0 and at most 1"):
        scale_by_depth(axes, 1.5)
    with pytest.raises(ValueError, match="layer_decay needs blocks of their own for layers"):
        scale_by_depth({"heads": axes["heads"]}, 0.9)
    several = parameters.abstract(ModernBertConfig(**SIZES, num_layers=6, task="sequence_classification"))[2]
    part, _ = parameters.partition(several, ("encoder/layers/2/*",))
    with pytest.raises(
        ValueError, match="counts the blocks of encoder/layers from the first, but only 2 of its slots"
    ):
        scale_by_depth(part, 0.9)
