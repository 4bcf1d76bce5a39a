from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from t5x_like.batch import Batch
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.rules import BATCH_MESH_AXES
from t5x_like.partitioning.shard import (
    RowShare,
    batch_sharding,
    batch_shardings,
    check_batch_size,
    check_experts,
    check_sequence_length,
    place,
    replicated,
    row_share,
    sharding_notes,
    tree_shardings,
)

MESH = MeshConfig(data=2, fsdp=2, model=2).build()
LONG = MeshConfig(data=2, context=2, model=2).build()


class Moments(NamedTuple):
    count: object
    rows: object
    columns: object


def _shape(*sizes):
    return jax.ShapeDtypeStruct(sizes, jnp.float32)


def test_a_tree_of_weights_and_factored_moments_gets_its_shardings():
    shapes = {
        "params": {"wi": _shape(3, 8, 32)},
        "optimizer": Moments(_shape(), {"wi": _shape(3, 8)}, {"wi": _shape(3, 32), "scale": None}),
    }
    axes = {
        "params": {"wi": ("layers", "embed", "mlp")},
        "optimizer": Moments((), {"wi": ("layers", "embed")}, {"wi": ("layers", "mlp"), "scale": None}),
    }
    specs = jax.tree.map(lambda sharding: sharding.spec, tree_shardings(axes, shapes, MESH))
    assert specs == {
        "params": {"wi": P(None, "fsdp", "model")},
        "optimizer": Moments(P(), {"wi": P(None, "fsdp")}, {"wi": P(None, "model"), "scale": None}),
    }


def test_placeholders_of_one_element_are_held_whole():
    assert tree_shardings({"v": ("embed", "mlp")}, {"v": _shape(1)}, MESH)["v"].spec == P()


def test_a_wrong_axis_names_the_weight():
    with pytest.raises(
        ValueError, match="encoder/wi: no partitioning rule for the weight axis 'mpl'; did you mean 'mlp'"
    ):
        tree_shardings({"encoder": {"wi": ("embed", "mpl")}}, {"encoder": {"wi": _shape(8, 8)}}, MESH)


def test_dimensions_that_stay_whole_are_reported_once_for_all_weights():
    shapes = {name: _shape(8, 33) for name in ("wi_0", "wi_1", "wi_2")}
    axes = dict.fromkeys(shapes, ("embed", "mlp"))
    assert sharding_notes(axes, shapes, MESH) == [
        "mlp of 33 can't be cut into model=2 equal parts: wi_0 and 2 more stay whole on every such device"
    ]


def test_a_batch_is_cut_by_rows_over_data_and_fsdp():
    batch = Batch(target_tokens=np.arange(32, dtype=np.int32).reshape(8, 4))
    placed = place(batch, MESH)
    assert placed.encoder_input_tokens is None
    assert placed.target_tokens.sharding == batch_sharding(MESH)
    assert {shard.data.shape for shard in placed.target_tokens.addressable_shards} == {(2, 4)}
    np.testing.assert_array_equal(placed.target_tokens, batch.target_tokens)


def test_tokens_of_a_batch_are_cut_along_context():
    batch = Batch(
        decoder_input_tokens=np.zeros((8, 4), np.int32),
        encoder_input_tokens=np.zeros((8, 3, 6), np.int32),  # of multiple choice
        decoder_segment_ids=np.zeros((8, 5), np.int32),  # 2 don't divide it
        attention_mask=np.zeros((8, 4, 6), bool),
        sequence_labels=np.zeros(8, np.int32),
        sequence_spans=np.zeros((8, 2), np.int32),
    )
    rows = BATCH_MESH_AXES
    assert jax.tree.map(lambda sharding: sharding.spec, batch_shardings(batch, LONG)) == Batch(
        decoder_input_tokens=P(rows, "context"),
        encoder_input_tokens=P(rows, None, "context"),
        decoder_segment_ids=P(rows),
        attention_mask=P(rows, "context"),
        sequence_labels=P(rows),
        sequence_spans=P(rows),
    )
    tokens = np.arange(32, dtype=np.int32).reshape(8, 4)
    placed = place(Batch(target_tokens=tokens), LONG).target_tokens
    assert {shard.data.shape for shard in placed.addressable_shards} == {(4, 2)}
    np.testing.assert_array_equal(placed, tokens)


def test_an_expert_axis_that_does_not_divide_the_experts_names_the_sizes_that_do():
    with pytest.raises(ValueError, match="expert=3 can't share out 8 experts evenly; use one of 1, 2, 4, 8"):
        check_experts(8, 3)
    with pytest.raises(ValueError, match="the mesh has expert=2, and the model has no experts; use fsdp=2"):
        check_experts(0, 2)
    for num_experts, parts in ((8, 4), (0, 1), (3, 1)):
        check_experts(num_experts, parts)


@pytest.mark.parametrize(
    ("length", "mesh", "message"),
    [
        (10, LONG, "rows of 10 tokens .* into context 2 × model 2 = 4 parts; use 8 or 12 tokens"),
        (3, MeshConfig(data=2, context=4).build(), "3 tokens .* into context 4 parts; use 4 tokens"),
    ],
)
def test_a_length_that_does_not_divide_names_the_nearest(length, mesh, message):
    with pytest.raises(ValueError, match=message):
        check_sequence_length(length, mesh)
    check_sequence_length(8, mesh)
    check_sequence_length(length, MESH)


def test_one_process_reads_the_whole_batch():
    assert row_share(MESH) == RowShare(0, 1)


@pytest.mark.parametrize(("rows", "nearest"), [(10, "8 or 12"), (3, "4"), (0, "4")])
def test_a_batch_that_does_not_divide_names_the_nearest_sizes(rows, nearest):
    with pytest.raises(
        ValueError, match=f"{rows} rows can't .* data 2 × fsdp 2 = 4 groups of devices; use {nearest} rows"
    ):
        check_batch_size(rows, MESH)
    check_batch_size(8, MESH)


def test_scalars_are_replicated():
    assert jax.device_put(jnp.float32(1), replicated(MESH)).sharding.is_fully_replicated
