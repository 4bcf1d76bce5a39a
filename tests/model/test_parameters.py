"""Weights as a tree: their names, shapes, numbers and starting values."""

import jax
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.linear import Linear
from t5x_like.model.zoo.t5 import T5Config
from tests.model.tiny_t5 import TINY, changed, graphdef_of, logits_of, random_batch, weights_of


def t5(model_dim, mlp_dim, num_heads, head_dim, num_layers, **fields) -> T5Config:
    return T5Config(
        vocab_size=32128,
        model_dim=model_dim,
        mlp_dim=mlp_dim,
        num_heads=num_heads,
        head_dim=head_dim,
        num_encoder_layers=num_layers,
        num_decoder_layers=num_layers,
        **fields,
    )


FIRST = {"feed_forward": "relu", "tie_word_embeddings": True}

# As the published checkpoints have them.
PUBLISHED = {
    "1.1 small": (t5(512, 1024, 6, 64, 8), 76_961_152),
    "1.1 base": (t5(768, 2048, 12, 64, 12), 247_577_856),
    "1.1 large": (t5(1024, 2816, 16, 64, 24), 783_150_080),
    "1.1 xl": (t5(2048, 5120, 32, 64, 24), 2_849_757_184),
    "1.1 xxl": (t5(4096, 10240, 64, 64, 24), 11_135_332_352),
    "1.0 small": (t5(512, 2048, 8, 64, 6, **FIRST), 60_506_624),
    "1.0 base": (t5(768, 3072, 12, 64, 12, **FIRST), 222_903_552),
    "1.0 large": (t5(1024, 4096, 16, 64, 24, **FIRST), 737_668_096),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes_have_their_numbers_of_parameters(name):
    config, expected = PUBLISHED[name]
    _, shapes, _ = parameters.abstract(config)
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == expected


def test_axes_are_named_after_what_they_hold():
    axes = parameters.flatten(parameters.abstract(TINY)[2])
    assert axes["decoder/layers/0/cross_attention/out/kernel"] == ("layers", "joined_heads", "embed")
    assert axes["encoder/relative_bias/table"] == ("heads", "relpos_buckets")


def test_axes_of_a_real_model_are_those_of_an_abstract_one():
    model = parameters.merge(graphdef_of(TINY), weights_of(TINY))
    assert parameters.axes_of(model) == parameters.abstract(TINY)[2]


def test_split_and_merge_give_the_model_back():
    model = parameters.merge(graphdef_of(TINY), weights_of(TINY))
    graphdef, params = parameters.split(model)
    assert graphdef == graphdef_of(TINY)
    jax.tree.map(np.testing.assert_array_equal, params, weights_of(TINY))


def test_flat_paths_and_back():
    params = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert parameters.flatten(params) == {"a/b": 1, "a/c/d": 2, "e": 3}
    assert parameters.unflatten(parameters.flatten(params)) == params


def test_merge_fits_other_weights_of_the_same_shapes():
    batch = random_batch()
    doubled = jax.tree.map(lambda array: 2 * array, weights_of(TINY))
    assert np.abs(logits_of(batch, params=doubled) - logits_of(batch)).max() > 0.1


def test_layers_start_differently_and_keys_decide():
    query = weights_of(TINY)["encoder"]["layers"]["0"]["self_attention"]["query"]["kernel"]
    assert np.abs(query[0] - query[1]).min() > 0
    other = weights_of(TINY, seed=1)["encoder"]["layers"]["0"]["self_attention"]["query"]["kernel"]
    assert np.abs(query - other).min() > 0


def test_weights_start_with_t5s_spread():
    """Raffel et al. leave scores unscaled and fold 1/sqrt(head_dim) into the queries' start."""
    flat = parameters.flatten(weights_of(TINY))
    attention, width, joined = "decoder/layers/0/cross_attention", 16, 12
    expected = {
        "embedding/tokens/table": 1.0,
        "heads/lm_head/projection/kernel": width**-0.5,
        f"{attention}/query/kernel": (width * TINY.head_dim) ** -0.5,
        f"{attention}/key/kernel": width**-0.5,
        f"{attention}/out/kernel": joined**-0.5,
        "encoder/layers/0/feed_forward/gate/kernel": width**-0.5,
        "encoder/layers/0/feed_forward/down/kernel": TINY.mlp_dim**-0.5,
        "encoder/relative_bias/table": (2 / (TINY.num_heads + TINY.num_relative_buckets)) ** 0.5,
    }
    flat["embedding/tokens/table"] = flat["embedding/tokens/table"][: TINY.vocab_size]
    for path, deviation in expected.items():
        assert 0.75 < np.std(flat[path]) / deviation < 1.35, path
    assert (flat["encoder/final_norm/scale"] == 1).all()


@pytest.mark.parametrize(
    "fields", [{"vocab_size": 0}, {"num_heads": -1}, {"dropout_rate": 1.0}, {"dropout_rate": -0.1}]
)
def test_impossible_sizes_are_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        changed(**fields)


def test_a_configuration_that_may_change_is_built_each_time():
    class Own:
        vocab_size = 8

        def __init__(self, dim):
            self.dim = dim

        def build(self, key):
            return Linear(self.dim, 2, axes=("embed", "mlp"), key=key)

    own = Own(3)
    assert parameters.count(parameters.abstract(own)[1]) == 6
    own.dim = 5
    assert parameters.count(parameters.abstract(own)[1]) == 10
