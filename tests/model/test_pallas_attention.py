"""Attention by Pallas kernels, interpreted here, equals attention with all scores at once."""

import contextlib
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from t5x_like.model import parameters
from t5x_like.model.adapters import PrefixTuning
from t5x_like.model.families.family import predict
from t5x_like.model.layers import pallas_attention
from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.attention_implementations import AttentionShape, check_pallas
from t5x_like.model.layers.masks import AttentionMask, SlidingWindow, as_array
from t5x_like.model.layers.pallas_kernels import diagonals, sum_of_diagonals
from t5x_like.model.layers.positions import RelativeBias, RelativeBuckets
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.planning.traced_flops import traced_flops
from tests.model.test_blockwise_attention import assert_same, gradient_of
from tests.model.zoo.tiny_models import TINY
from tests.training.test_every_architecture import batch_for

# A bias of the stack, and cross-attention; groups; soft cap and windows; packed rows in both directions; a window;
# prefixes; local and global layers; a bias for each layer.
ARCHITECTURES = ("t5_1_0", "llama", "gemma2", "bert", "mistral", "glm_orig", "modernbert", "umt5")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """The smallest blocks that kernels can have."""
    monkeypatch.setattr(pallas_attention, "BLOCK_LENGTH", 128)


def by_kernels(config):
    return replace(config, attention_implementation="pallas")


def test_a_t5_predicts_the_same_by_kernels():
    config = TINY["t5_1_0"]
    batch, model = batch_for(config, 0), config.build(jax.random.key(0))
    _, params = parameters.split(model)

    def output(config):
        graphdef, _ = parameters.split(jax.eval_shape(config.build, jax.random.key(0)))
        model = parameters.merge(graphdef, params)
        return jax.jit(lambda batch: predict(model, batch).decoder_output)(batch)

    real = batch.decoder_segment_ids > 0
    np.testing.assert_allclose(output(by_kernels(config))[real], output(config)[real], atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_trains_the_same_by_kernels(name):
    config = TINY[name]
    batch = batch_for(config, 0)
    assert_same(gradient_of(by_kernels(config), batch), gradient_of(config, batch))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t5_1_0", "llama"])
def test_kernels_see_the_keys_of_an_adapter(name):
    config = replace(TINY[name], adapter=PrefixTuning(length=3))
    batch = batch_for(config, 0)
    assert_same(gradient_of(by_kernels(config), batch), gradient_of(config, batch))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mesh"),
    [
        ("t5_1_0", MeshConfig(data=2, fsdp=2, model=2)),
        ("llama", MeshConfig(data=2, model=4)),
        ("bart", MeshConfig(fsdp=2, model=4)),  # whose decoder has 2 heads
    ],
)
def test_an_architecture_trains_the_same_by_kernels_on_a_mesh(name, mesh):
    config = TINY[name]
    batch = batch_for(config, 0)
    assert_same(gradient_of(by_kernels(config), batch, mesh=mesh.build()), gradient_of(config, batch))


LENGTH, NUM_KEYS = 150, 280
DRAW = np.random.default_rng(0)


def segments(*lengths, total):
    """Segment ids of a row with examples of these lengths, then padding."""
    ids = np.repeat(np.arange(1, len(lengths) + 1), lengths)
    return np.pad(ids, (0, total - len(ids)))


QUERY_SEGMENTS = np.stack([segments(40, 90, total=LENGTH), segments(150, total=LENGTH)])
KEY_SEGMENTS = np.stack([segments(100, 120, total=NUM_KEYS), segments(280, total=NUM_KEYS)])
PACKED = AttentionMask(query_segment_ids=QUERY_SEGMENTS, key_segment_ids=QUERY_SEGMENTS)
# The mask, the number of keys, and what the layer has.
CASES = {
    "everything is visible": (AttentionMask(), NUM_KEYS, ()),
    "segments": (
        AttentionMask(query_segment_ids=QUERY_SEGMENTS, key_segment_ids=KEY_SEGMENTS),
        NUM_KEYS,
        ("dropout",),
    ),
    "padded keys": (AttentionMask(key_segment_ids=KEY_SEGMENTS), NUM_KEYS, ("soft cap",)),
    "causal": (AttentionMask(causal=True), LENGTH, ("groups",)),
    "a causal window": (AttentionMask(causal=True, window=SlidingWindow(left=20)), LENGTH, ("soft cap",)),
    "a window": (PACKED._replace(window=SlidingWindow(left=130, right=4)), LENGTH, ("bias",)),
    "a prefix": (
        AttentionMask(causal=True, prefix=np.asarray([[1] * 140 + [0] * 10, [0] * 150])),
        LENGTH,
        ("bias", "groups"),
    ),
    "ranks": (
        PACKED._replace(query_ranks=QUERY_SEGMENTS[:, ::-1], key_ranks=QUERY_SEGMENTS[:, ::-1]),
        LENGTH,
        ("dropout",),
    ),
    "everything at once": (
        PACKED._replace(causal=True, window=SlidingWindow(left=60)),
        LENGTH,
        ("bias", "groups", "soft cap", "dropout", "adapter"),
    ),
}
CASES_ALWAYS = ("segments", "a prefix")


class Prefix(nnx.Module):
    """Keys and values that all queries see."""

    def __init__(self, width):
        self.vectors = nnx.Param(jax.random.normal(jax.random.key(7), (2, 3, width)))

    def __call__(self):
        return self.vectors[...]


@pytest.mark.parametrize(
    "case", [pytest.param(each, marks=() if each in CASES_ALWAYS else pytest.mark.slow) for each in CASES]
)
def test_every_mask_by_kernels(case):
    assert_same_by_kernels(*CASES[case])


def test_each_device_computes_its_own_rows_and_heads():
    """Two groups of keys on four devices; rows and distances of the bias are on both halves."""
    assert_same_by_kernels(*CASES["everything at once"], mesh=MeshConfig(data=2, model=4))


def assert_same_by_kernels(mask, num_keys, traits, mesh=None):
    mask = jax.tree.map(jnp.asarray, mask._replace(causal=None, window=None))._replace(
        causal=mask.causal, window=mask.window
    )
    config = AttentionConfig(
        num_heads=4,
        head_dim=6,
        num_kv_heads=2 if "groups" in traits else None,
        attention_logit_soft_cap=2.0 if "soft cap" in traits else None,
    )
    attention = Attention(config, 16, key=jax.random.key(0))
    if "adapter" in traits:
        attention.prefix = nnx.data(Prefix(config.kv_heads * config.head_dim))
    relative = RelativeBias(
        RelativeBuckets(num_buckets=8, max_distance=10), num_heads=4, key=jax.random.key(1)
    )
    x, seen = (
        jax.random.normal(jax.random.key(n), (2, size, 16)) for n, size in ((2, LENGTH), (3, num_keys))
    )
    places = jnp.arange(LENGTH), jnp.arange(num_keys)

    def total(parts, implementation):
        attention, relative, x, seen = parts
        whole = implementation == "plain"
        bias = (
            relative.between(*places, bidirectional=True, by_distance=not whole) if "bias" in traits else None
        )
        output = attention(
            x,
            attention.project_keys_values(seen),
            mask=as_array(mask, num_queries=LENGTH, num_keys=num_keys) if whole else mask,
            bias=bias,
            dropout_rate=0.2 if "dropout" in traits else 0.0,
            dropout_key=jax.random.key(5),
            implementation=implementation,
        )
        return jnp.sum(jnp.sin(output) * weights), output

    weights = jax.random.normal(jax.random.key(4), (2, LENGTH, 16)) / LENGTH
    parts = attention, relative, x, seen
    gradient = jax.jit(jax.value_and_grad(total, has_aux=True), static_argnums=1)
    (_, expected), expected_gradients = gradient(parts, "plain")
    with contextlib.nullcontext() if mesh is None else jax.set_mesh(mesh.build()):
        (_, result), gradients = gradient(parts, "pallas")
    np.testing.assert_allclose(result, expected, atol=2e-5)
    for one, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(expected_gradients), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5, rtol=2e-5)


def test_a_bias_by_distance_is_spread_over_diagonals_and_gathered_from_them():
    length = 256
    values = jnp.asarray(DRAW.normal(size=(1, 2 * length)), jnp.float32)
    matrix = jnp.asarray(DRAW.normal(size=(length, length)), jnp.float32)
    places = np.arange(length)
    expected = values[0][length + places[None] - places[:, None]]
    spread, gathered = jax.jit(lambda: (diagonals(values), sum_of_diagonals(matrix)))()
    np.testing.assert_array_equal(spread, expected)
    expected = [np.trace(matrix, offset) for offset in range(-length, length)]
    np.testing.assert_allclose(gathered[0], expected, atol=1e-4)


@pytest.mark.slow
def test_bfloat16_differs_by_its_rounding_only():
    config = replace(TINY["llama"], compute_dtype="bfloat16")
    batch = batch_for(config, 0)
    exact, plain, kernels = (gradient_of(each, batch) for each in (TINY["llama"], config, by_kernels(config)))

    def distance(result):
        squares = jax.tree.map(lambda one, other: np.sum((one - other) ** 2), result[1], exact[1])
        return np.sqrt(sum(jax.tree.leaves(squares)))

    assert distance(kernels) < 1.2 * distance(plain)


def test_blocks_that_a_mask_empties_are_not_computed():
    def products(mask):
        arrays = [jax.ShapeDtypeStruct((1, 512, 1, 8), jnp.float32)] * 3

        def total(*arrays):
            return jnp.sum(
                pallas_attention.pallas_attention(*arrays, mask=mask, bias=None, keep=None, num_prefix=0)
            )

        return traced_flops(jax.grad(total, argnums=(0, 1, 2)), *arrays)

    pair = products(AttentionMask()) / 16
    assert products(AttentionMask(causal=True)) == pytest.approx(10 * pair, rel=0.01)
    window = AttentionMask(causal=True, window=SlidingWindow(left=128))
    assert products(window) == pytest.approx(7 * pair, rel=0.01)


def test_a_mask_that_kernels_can_not_make_is_refused_by_name():
    with pytest.raises(ValueError, match=r"'pallas' with Transformer-XL's attention.*only 'plain'"):
        by_kernels(TINY["xlnet"])
    refusal = r"'pallas' can't compute attention with a mask given as an array.*attention_mask.*'plain' and 'blockwise'"
    mask = jnp.ones((1, 1, 4, 4), bool)
    shape = AttentionShape(8, None, jnp.dtype("float32"), 0.0, lengths=(4, 4), mask=mask)
    with pytest.raises(ValueError, match=refusal):
        check_pallas(shape)
    config = by_kernels(TINY["unilm"])
    batch = batch_for(config, 0)
    rows, length = batch.encoder_input_tokens.shape
    batch = batch._replace(attention_mask=np.ones((rows, length, length), bool))
    with pytest.raises(ValueError, match=refusal):
        jax.eval_shape(predict, config.build(jax.random.key(0)), batch)
