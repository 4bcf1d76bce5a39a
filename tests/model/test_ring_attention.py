"""Attention as a ring over parts of rows equals attention with all scores at once on one device."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.adapters import PrefixTuning, PromptTuning
from t5x_like.model.families.family import predict
from t5x_like.model.layers import blockwise_attention
from t5x_like.model.layers.attention_blocks import BlockSizes
from t5x_like.model.layers.attention_ring import RingStep, steps_of_ring
from t5x_like.model.layers.masks import AttentionMask, SlidingWindow
from t5x_like.partitioning.mesh import MESH_AXES, MeshConfig
from t5x_like.partitioning.shard import batch_shardings
from t5x_like.planning.device_groups import MeshShape
from t5x_like.planning.program_counts import CollectiveKind, count
from tests.model.test_blockwise_attention import assert_mask_by_blocks, assert_same, cases, gradient_of
from tests.model.zoo.tiny_models import TINY
from tests.training.test_every_architecture import batch_for

FOUR = MeshConfig(data=1, fsdp=2, context=4)
THREE_AXES = MeshConfig(data=2, context=2, model=2)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Parts of 4 tokens and more end in the middle of a block."""
    monkeypatch.setattr(blockwise_attention, "BLOCK_LENGTH", 3)


@pytest.mark.parametrize(
    "case", [pytest.param(each, marks=() if each == "a window" else pytest.mark.slow) for each in cases(3, 3)]
)
def test_every_mask_around_the_ring(case):
    assert_mask_by_blocks(case, length=16, num_keys=20, mesh=MeshConfig(data=2, context=4).build())


@pytest.mark.parametrize(
    "case", [pytest.param(each, marks=() if each == "segments" else pytest.mark.slow) for each in cases(3, 3)]
)
def test_every_mask_where_heads_are_split(case):
    mesh = MeshConfig(data=2, model=2).build(jax.devices()[:4])
    assert_mask_by_blocks(case, length=13, num_keys=17, mesh=mesh)


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_an_architecture_trains_the_same_on_parts_of_rows(name):
    """Also those whose attention the compiler partitions: Transformer-XL's, LongT5's and ModernBERT's local one."""
    config = TINY[name]
    batch = batch_for(config, 0)
    assert_same(gradient_of(config, batch, mesh=THREE_AXES.build()), gradient_of(config, batch))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t5_1_0", "llama", "bert"])
@pytest.mark.parametrize("remat", ["full", "minimal"])
def test_packed_rows_of_four_parts_train_the_same(name, remat):
    config = replace(TINY[name], remat=remat)
    batch = batch_for(config, 0)
    assert_same(gradient_of(config, batch, mesh=FOUR.build()), gradient_of(TINY[name], batch))


@pytest.mark.slow
@pytest.mark.parametrize("adapter", [PrefixTuning(length=3), PromptTuning(length=3)])
def test_all_parts_see_a_learned_prefix(adapter):
    """Prompts make rows of 15 tokens, which two parts can't have: then they are not split."""
    config = replace(TINY["llama"], adapter=adapter)
    batch = batch_for(config, 0)
    assert_same(gradient_of(config, batch, mesh=THREE_AXES.build()), gradient_of(config, batch))


def blocks_of(length):
    sizes = {"query_length": length, "key_length": length, "num_keys": 2 * length}
    rest = {"scale": 1.0, "soft_cap": None, "varying_axes": ()}
    return BlockSizes(**sizes, **rest, causal=False, window=None)


def test_keys_travel_as_far_as_a_mask_lets_them_be_seen():
    def ring_steps(mask):
        return steps_of_ring(mask, 4, num_queries=8, num_keys=8, blocks=blocks_of(4))

    every = ((0, 0), (0, 1), (1, 0), (1, 1))
    assert ring_steps(AttentionMask()) == (RingStep(every, every),) * 4
    triangle = ((0, 0), (1, 0), (1, 1))
    assert ring_steps(AttentionMask(causal=True)) == (
        RingStep(triangle, triangle),
        *(RingStep(every, ()),) * 3,
    )
    window = AttentionMask(causal=True, window=SlidingWindow(left=4))
    assert ring_steps(window) == (RingStep(triangle, triangle), RingStep(((0, 1),), ()))


def program(config, mesh, length):
    """The compiled gradient of the last layer's output for a row of this length."""
    config = replace(config, vocab_size=8, dropout_rate=0.0)
    rows = jax.tree.map(lambda rows: jax.ShapeDtypeStruct((1, length), rows.dtype), batch_for(config, 0))
    batch = jax.tree.map(
        lambda row, sharding: jax.ShapeDtypeStruct(row.shape, row.dtype, sharding=sharding),
        rows,
        batch_shardings(rows, mesh),
    )
    graphdef, params = parameters.split(jax.eval_shape(config.build, jax.random.key(0)))

    def objective(params, batch):
        return (predict(parameters.merge(graphdef, params), batch).decoder_output ** 2).sum()

    with jax.set_mesh(mesh):
        return jax.jit(jax.grad(objective)).lower(params, batch).compile()


def test_loops_over_blocks_exchange_nothing_where_heads_are_split(monkeypatch):
    monkeypatch.setattr(blockwise_attention, "BLOCK_LENGTH", 128)
    config = replace(TINY["llama"], remat="full", attention_implementation="blockwise")
    compiled = program(config, MeshConfig(model=2).build(jax.devices()[:2]), 1024)
    result = count(compiled.as_text(), MeshShape(MESH_AXES, (1, 1, 1, 1, 2))).collectives
    # Two layers: each gathers and sums activations a few times in both passes, and no block does.
    assert sum(each.times for each in result.values()) < 20 * config.num_layers
    assert not [kind for kind in result if kind.kind == "all-to-all"]


def test_a_device_needs_memory_for_its_part_and_only_keys_and_values_travel(monkeypatch):
    monkeypatch.setattr(blockwise_attention, "BLOCK_LENGTH", 128)
    length, config = 4096, TINY["llama"]
    whole, parts = (
        program(config, MeshConfig(context=size).build(jax.devices()[:size]), length) for size in (1, 4)
    )
    sizes = [each.memory_analysis().temp_size_in_bytes for each in (whole, parts)]
    assert sizes[1] < 0.4 * sizes[0]
    result = count(parts.as_text(), MeshShape(MESH_AXES, (1, 1, 1, 4, 1))).collectives
    ring = CollectiveKind("collective-permute", ("context",))
    # Each of 4 steps sends keys and values on, in both passes of a layer; their gradients travel, and then home.
    keys_values = 2 * config.num_kv_heads * config.model_dim // config.num_heads * length // 4 * 4
    assert result.pop(ring).sent_bytes == pytest.approx(
        config.num_layers * (4 + 4 + 4) * keys_values, rel=0.01
    )
    weights = sum(leaf.size * 4 for leaf in jax.tree.leaves(parameters.abstract(config)[1]))
    assert sum(each.payload_bytes for each in result.values()) < 2 * weights + 16 * length


@pytest.mark.slow
def test_lengths_that_do_not_divide_are_read_whole():
    config = TINY["llama"]
    batch = jax.tree.map(lambda rows: rows[:, :11], batch_for(config, 0))
    assert_same(gradient_of(config, batch, mesh=THREE_AXES.build()), gradient_of(config, batch))


def test_kernels_that_know_no_ring_are_refused():
    config = replace(TINY["t5_1_0"], attention_implementation="cudnn")
    model = config.build(jax.random.key(0))
    with (
        jax.set_mesh(FOUR.build()),
        pytest.raises(ValueError, match=r"attention_implementation='cudnn' on a mesh with context=4"),
    ):
        jax.eval_shape(predict, model, jax.tree.map(np.asarray, batch_for(config, 0)))
