"""Attention block by block equals attention with all scores at once."""

import contextlib
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.adapters import PrefixTuning
from t5x_like.model.families.family import predict
from t5x_like.model.layers import blockwise_attention
from t5x_like.model.layers.attention import Attention, AttentionConfig
from t5x_like.model.layers.attention_implementations import AttentionShape, check_cudnn
from t5x_like.model.layers.masks import AttentionMask, SlidingWindow, as_array
from t5x_like.model.layers.positions import RelativeBias, RelativeBuckets
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.training import losses
from t5x_like.training.losses import LossConfig
from tests.model.zoo.tiny_models import TINY
from tests.slow_cases import slow_except
from tests.training.test_every_architecture import batch_for

PLAIN = [
    name
    for name in TINY
    if name not in ("awd_lstm", "bcn", "bilstm", "elmo", "rnn_seq2seq", "transfo_xl", "xlnet")
]
ARCHITECTURES = slow_except(PLAIN, ())  # one with a prefix runs every time


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 5: rows of 12 tokens end in the middle of one."""
    monkeypatch.setattr(blockwise_attention, "BLOCK_LENGTH", 5)


def gradient_of(config, batch, *, mesh=None):
    """The loss and the gradient of every weight, with dropout."""
    graphdef, params = parameters.split(config.build(jax.random.key(0)))

    def objective(params, batch):
        weights, normalizers = losses.normalize(losses.with_targets(batch, LossConfig()), LossConfig())
        predictions = predict(parameters.merge(graphdef, params), batch, dropout_key=jax.random.key(1))
        return losses.total(
            predictions, batch, LossConfig(), weights=weights, normalizers=normalizers, num_tasks=1
        )[0]

    compute = jax.jit(jax.value_and_grad(objective, allow_int=True))  # ELMo's table of characters
    with jax.set_mesh(mesh) if mesh else contextlib.nullcontext():
        loss, gradients = compute(params, batch)
    return loss, [leaf for leaf in jax.tree.leaves(gradients) if leaf.dtype != jax.dtypes.float0]


def assert_same(result, expected):
    np.testing.assert_allclose(result[0], expected[0], rtol=2e-6)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, atol=2e-5, rtol=2e-5),
        result[1],
        expected[1],
    )


def blockwise(config):
    return replace(config, attention_implementation="blockwise")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_trains_the_same_block_by_block(name):
    config = TINY[name]
    batch = batch_for(config, 0)
    assert_same(gradient_of(blockwise(config), batch), gradient_of(config, batch))


@pytest.mark.parametrize("name", [pytest.param("t5_1_0", marks=pytest.mark.slow), "llama"])
def test_a_prefix_is_seen_in_all_blocks(name):
    config = replace(TINY[name], adapter=PrefixTuning(length=3))
    batch = batch_for(config, 0)
    assert_same(gradient_of(blockwise(config), batch), gradient_of(config, batch))


@pytest.mark.slow
def test_blocks_on_a_mesh_give_the_same():
    config = TINY["t5_1_0"]
    batch = batch_for(config, 0)
    mesh = MeshConfig(data=2, fsdp=2, model=2).build()
    assert_same(gradient_of(blockwise(config), batch, mesh=mesh), gradient_of(config, batch))


@pytest.mark.slow
def test_bfloat16_differs_by_its_rounding_only():
    config = replace(TINY["llama"], compute_dtype="bfloat16")
    batch = batch_for(config, 0)
    exact, plain, blocks = (gradient_of(each, batch) for each in (TINY["llama"], config, blockwise(config)))

    def distance(result):
        squares = jax.tree.map(lambda one, other: np.sum((one - other) ** 2), result[1], exact[1])
        return np.sqrt(sum(jax.tree.leaves(squares)))

    assert distance(blocks) < 1.2 * distance(plain)


DRAW = np.random.default_rng(0)


def cases(length: int, num_keys: int) -> dict[str, tuple[AttentionMask, int]]:
    """Every kind of mask between so many queries and as many keys, or in cross-attention ``num_keys``."""

    def segments(size: int) -> np.ndarray:
        padded = [1] * (size // 3) + [2] * (size - size // 3 - 2) + [0] * 2
        return np.asarray([padded, [1] * size])

    own, others = segments(length), segments(num_keys)
    prefix = np.asarray([[1] * (length // 2 + 2) + [0] * (length - length // 2 - 2), [0] * length])
    return {
        "everything is visible": (AttentionMask(), num_keys),
        "segments": (AttentionMask(query_segment_ids=own, key_segment_ids=others), num_keys),
        "padded keys": (AttentionMask(key_segment_ids=others), num_keys),
        "causal": (AttentionMask(causal=True), length),
        "causal segments": (
            AttentionMask(query_segment_ids=own, key_segment_ids=own, causal=True),
            length,
        ),
        "a prefix": (AttentionMask(causal=True, prefix=prefix), length),
        "a causal window": (AttentionMask(causal=True, window=SlidingWindow(left=3)), length),
        "a window": (AttentionMask(window=SlidingWindow(left=2, right=4)), length),
        "ranks": (AttentionMask(query_ranks=own[:, ::-1], key_ranks=own[:, ::-1]), length),
        "a mask of the batch": (AttentionMask(allowed=DRAW.random((2, 1, length, length)) < 0.6), length),
        "a mask of keys": (AttentionMask(allowed=DRAW.random((2, 1, 1, num_keys)) < 0.6), num_keys),
    }


@pytest.mark.parametrize("case", cases(3, 3))
def test_every_mask_by_blocks_with_a_bias_or_without(case):
    assert_mask_by_blocks(case, length=13, num_keys=17)


def assert_mask_by_blocks(case: str, *, length: int, num_keys: int, mesh=None) -> None:
    """Outputs and gradients of blocks are those of attention with all scores at once on one device."""
    mask, num_keys = cases(length, num_keys)[case]
    with_bias = case not in ("everything is visible", "a causal window")
    mask = jax.tree.map(jnp.asarray, mask._replace(causal=None, window=None))._replace(
        causal=mask.causal, window=mask.window
    )
    config = AttentionConfig(num_heads=4, head_dim=6, num_kv_heads=2, attention_logit_soft_cap=2.0)
    attention = Attention(config, 16, key=jax.random.key(0))
    relative = RelativeBias(
        RelativeBuckets(num_buckets=8, max_distance=10), num_heads=4, key=jax.random.key(1)
    )
    x, seen = (
        jax.random.normal(jax.random.key(n), (2, size, 16)) * 3 for n, size in ((2, length), (3, num_keys))
    )
    places = jnp.arange(length), jnp.arange(num_keys)

    def total(parts, implementation):
        attention, relative, x, seen = parts
        by_distance = implementation == "blockwise"
        output = attention(
            x,
            attention.project_keys_values(seen),
            mask=mask if by_distance else as_array(mask, num_queries=length, num_keys=num_keys),
            bias=relative.between(*places, bidirectional=True, by_distance=by_distance)
            if with_bias
            else None,
            dropout_rate=0.2,
            dropout_key=jax.random.key(5),
            implementation=implementation,
        )
        return jnp.sum(jnp.sin(output) * weights), output

    weights = jax.random.normal(jax.random.key(4), (2, length, 16))
    parts = attention, relative, x, seen
    gradient = jax.jit(jax.value_and_grad(total, has_aux=True), static_argnums=1)
    (_, expected), expected_gradients = gradient(parts, "plain")
    with jax.set_mesh(mesh) if mesh else contextlib.nullcontext():
        (_, result), gradients = gradient(parts, "blockwise")
    np.testing.assert_allclose(result, expected, atol=2e-5)
    for one, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(expected_gradients), strict=True):
        largest = max(1.0, np.abs(other).max())  # of sums, small entries round as large ones do
        np.testing.assert_allclose(one, other, atol=2e-5 * largest, rtol=2e-5)


def test_blocks_that_a_mask_empties_are_left_out():
    blocks = [range(start, start + 4) for start in range(0, 16, 4)]

    def computed(mask):
        return [[mask.may_see(query, key) for key in blocks] for query in blocks]

    band = np.eye(4, dtype=bool) | np.eye(4, k=-1, dtype=bool)
    np.testing.assert_array_equal(computed(AttentionMask(causal=True)), np.tri(4, dtype=bool))
    np.testing.assert_array_equal(computed(AttentionMask(causal=True, window=SlidingWindow(left=4))), band)
    np.testing.assert_array_equal(
        computed(AttentionMask(window=SlidingWindow(left=1, right=1))), band | band.T
    )
    assert np.all(computed(AttentionMask(causal=True, prefix=jnp.ones((1, 16), jnp.int32))))


def temporaries(length, implementation):
    config = replace(TINY["llama"], attention_implementation=implementation, vocab_size=8, dropout_rate=0.0)
    batch = jax.tree.map(lambda rows: jax.ShapeDtypeStruct((1, length), rows.dtype), batch_for(config, 0))
    graphdef, params = parameters.split(jax.eval_shape(config.build, jax.random.key(0)))

    def objective(params, batch):
        return jnp.sum(predict(parameters.merge(graphdef, params), batch).decoder_output ** 2)

    compiled = jax.jit(jax.grad(objective)).lower(params, batch).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.slow
def test_memory_grows_with_the_length_and_not_with_its_square(monkeypatch):
    monkeypatch.setattr(blockwise_attention, "BLOCK_LENGTH", 512)
    assert temporaries(8192, "blockwise") < 4.5 * temporaries(2048, "blockwise")
    assert temporaries(4096, "plain") > 3.5 * temporaries(2048, "plain")


def test_what_an_implementation_can_not_compute_is_refused_by_name():
    with pytest.raises(ValueError, match=r"'blockwise' with Transformer-XL's attention.*only 'plain'"):
        replace(TINY["xlnet"], attention_implementation="blockwise")
    with pytest.raises(
        ValueError,
        match=r"attention_logit_soft_cap=50.0 and head_dim=20 .* and dropout_rate=0.1 .* and compute_dtype='float32' "
        r".* the backend 'cpu' .*'plain' and 'blockwise' can",
    ):
        check_cudnn(AttentionShape(20, 50.0, jnp.dtype("float32"), dropout_rate=0.1, lengths=(4, 4)))
    cudnn = replace(TINY["t5_1_0"], attention_implementation="cudnn")
    model = cudnn.build(jax.random.key(0))
    with pytest.raises(ValueError, match="the backend 'cpu'"):
        jax.eval_shape(predict, model, batch_for(cudnn, 0))
