import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.rules import BATCH_MESH_AXES, UnsplitDimension, sharding_for, spec_for

MESH = MeshConfig(data=2, fsdp=2, model=2).build()


@pytest.mark.parametrize(
    ("axes", "shape", "spec"),
    [
        (("embed", "mlp"), (8, 32), P("fsdp", "model")),
        (("layers", "joined_heads", "embed"), (3, 16, 8), P(None, "model", "fsdp")),
        (("embed", "joined_kv_heads"), (8, 16), P("fsdp", "model")),
        (("vocab", "embed"), (64, 8), P(("model", "fsdp"), None)),
        (("embed", "vocab"), (8, 64), P("fsdp", "model")),
        (("heads", "relpos_buckets"), (4, 32), P("model", None)),
        (("layers", "norm"), (3, 8), P(None, None)),
    ],
)
def test_named_axes_are_cut_along_their_mesh_axes(axes, shape, spec):
    assert spec_for(axes, shape, MESH) == (spec, [])


def test_an_axis_that_does_not_divide_is_dropped_and_reported():
    spec, dropped = spec_for(("embed", "mlp"), (8, 33), MESH)
    assert spec == P("fsdp", None)
    assert dropped == [UnsplitDimension("mlp", 33, "model", 2)]


def test_a_table_whose_rows_take_one_mesh_axis_gives_the_other_to_its_columns():
    assert spec_for(("vocab", "embed"), (66, 8), MESH) == (P("model", "fsdp"), [])


def test_mesh_axes_of_one_device_are_left_out():
    assert sharding_for(("embed", "mlp"), (8, 32), MeshConfig().build()).spec == P(None, None)


def test_an_unknown_axis_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"weight axis 'embde'; did you mean 'embed'\?"):
        spec_for(("embde",), (8,), MESH)


def test_each_dimension_needs_a_name():
    with pytest.raises(ValueError, match=r"name 1 dimensions of an array of shape \(8, 2\)"):
        spec_for(("embed",), (8, 2), MESH)


def test_looking_up_a_cut_table_never_gathers_all_of_it():
    rows = NamedSharding(MESH, P(BATCH_MESH_AXES))

    def loss(table, tokens):
        return jnp.sum(jax.lax.with_sharding_constraint(jnp.take(table, tokens, axis=0), rows) ** 2)

    table = jax.ShapeDtypeStruct(
        (64, 6), jnp.float32, sharding=sharding_for(("vocab", "embed"), (64, 6), MESH)
    )
    tokens = jax.ShapeDtypeStruct((8, 4), jnp.int32, sharding=rows)
    compiled = jax.jit(jax.grad(loss), out_shardings=table.sharding).lower(table, tokens).compile()
    assert "f32[16,6]" in compiled.as_text()
    assert "f32[64,6]" not in compiled.as_text()


@pytest.mark.parametrize(
    ("num_experts", "spec"),
    [
        (8, P(("expert", "fsdp"), None, "model")),
        (2, P("expert", "fsdp", "model")),  # fsdp cuts each expert, too
        (3, P(None, ("fsdp", "expert"), "model")),
    ],
)
def test_experts_are_cut_along_expert_first(num_experts, spec):
    mesh = MeshConfig(data=1, fsdp=2, expert=2, model=2).build()
    assert spec_for(("experts", "embed", "mlp"), (num_experts, 8, 8), mesh)[0] == spec
    assert spec_for(("embed", "mlp"), (8, 8), mesh)[0] == P(("fsdp", "expert"), "model")


def test_rows_of_a_table_are_cut_along_fsdp_and_expert_together_or_not_at_all():
    mesh = MeshConfig(data=2, fsdp=2, expert=2).build()
    assert spec_for(("vocab", "embed"), (8, 8), mesh) == (P(("fsdp", "expert"), None), [])
    assert spec_for(("vocab", "embed"), (6, 8), mesh) == (P(None, ("fsdp", "expert")), [])
    assert spec_for(("vocab", "norm"), (6, 8), mesh) == (
        P(None, None),
        [UnsplitDimension("vocab", 6, "fsdp x expert", 4)],
    )
