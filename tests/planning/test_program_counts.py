"""Counts of small programs that XLA has compiled for eight devices, against counts by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from t5x_like.model import parameters
from t5x_like.model.layers.mixture_of_experts import MixtureOfExperts, MixtureOfExpertsConfig
from t5x_like.planning.chips import chip_of
from t5x_like.planning.device_groups import (
    BETWEEN_SLICES,
    MeshShape,
    replica_groups,
    source_target_pairs,
)
from t5x_like.planning.device_program import _refused_peak
from t5x_like.planning.hlo_program import parse
from t5x_like.planning.program_counts import CollectiveKind, count, largest_arrays
from t5x_like.planning.topology import topology
from t5x_like.planning.traced_flops import traced_flops

LAYERS, ROWS, WIDTH = 5, 32, 64
FSDP, MODEL = 2, 4
MESH = MeshShape(("fsdp", "model"), (FSDP, MODEL))


@pytest.fixture(scope="module")
def mesh() -> jax.sharding.Mesh:
    return jax.make_mesh((FSDP, MODEL), ("fsdp", "model"), axis_types=(AxisType.Auto,) * 2)


def shape(mesh, dims, *axes) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, jnp.float32, sharding=NamedSharding(mesh, PartitionSpec(*axes)))


@pytest.fixture(scope="module")
def columns(mesh) -> str:
    """A scan of matrix products whose rows lie along ``fsdp`` and whose sums are taken along ``model``."""

    def layers(x, weights):
        def layer(x, weight):
            x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec("fsdp", "model")))
            x = jax.lax.with_sharding_constraint(x @ weight, NamedSharding(mesh, PartitionSpec("fsdp", None)))
            return jnp.tanh(x), None

        return jax.lax.scan(layer, x, weights)[0]

    weights = shape(mesh, (LAYERS, WIDTH, WIDTH), None, "model", None)
    x = shape(mesh, (ROWS, WIDTH), "fsdp", None)
    return jax.jit(layers).lower(x, weights).compile().as_text()


def test_flops_of_a_scan_count_every_layer(columns: str):
    # Each device has ROWS / 2 rows and a quarter of the contracted dimension.
    assert count(columns, MESH).flops == LAYERS * 2 * (ROWS // FSDP) * (WIDTH // MODEL) * WIDTH


def test_collectives_of_a_scan_count_every_layer_with_their_axis_and_bytes(columns: str):
    counts = count(columns, MESH)
    assert set(counts.collectives) == {CollectiveKind("all-reduce", ("model",))}
    result = counts.collectives[CollectiveKind("all-reduce", ("model",))]
    array = ROWS // FSDP * WIDTH * 4
    assert result.times == LAYERS
    assert result.payload_bytes == LAYERS * array
    assert result.sent_bytes == LAYERS * 2 * array * (MODEL - 1) / MODEL
    assert counts.num_open_loops == 0


def test_gathered_weights_count_as_whole_arrays_along_their_axis(mesh):
    def gathered(weights):
        def layer(total, weight):
            whole = jax.lax.with_sharding_constraint(weight, NamedSharding(mesh, PartitionSpec()))
            return total + whole @ whole, None

        return jax.lax.scan(layer, jnp.zeros((WIDTH, WIDTH)), weights)[0]

    weights = shape(mesh, (LAYERS, WIDTH, WIDTH), None, "fsdp", None)
    counts = count(jax.jit(gathered).lower(weights).compile().as_text(), MESH)
    result = counts.collectives[CollectiveKind("all-gather", ("fsdp",))]
    assert result.times == LAYERS
    assert result.payload_bytes == LAYERS * WIDTH * WIDTH * 4
    assert result.sent_bytes == result.payload_bytes / 2
    assert counts.flops == LAYERS * 2 * WIDTH**3


def test_memory_traffic_reads_slices_of_stacked_weights_and_not_the_stack(columns: str):
    """Each layer reads its slice; counting the stack at every layer would be five times as much."""
    counts = count(columns, MESH)
    layer = WIDTH // MODEL * WIDTH * 4  # bytes of the device's part of a weight
    activations = ROWS // FSDP * WIDTH * 4
    assert LAYERS * layer < counts.num_bytes < LAYERS * (3 * layer + 10 * activations) + 5 * activations


def test_loops_inside_loops_multiply(mesh):
    def nested(x):
        def inner(x, _):
            return x @ x, None

        def outer(x, _):
            return jax.lax.scan(inner, x, length=3)[0], None

        return jax.lax.scan(outer, x, length=LAYERS)[0]

    text = jax.jit(nested).lower(jnp.ones((WIDTH, WIDTH))).compile().as_text()
    assert count(text, MeshShape(("data",), (1,))).flops == LAYERS * 3 * 2 * WIDTH**3


def test_a_loop_without_a_fixed_number_of_rounds_is_counted_once_and_named():
    def halve(x, limit):
        return jax.lax.while_loop(lambda x: jnp.sum(x) > limit, lambda x: x @ x, x)

    text = jax.jit(halve).lower(jnp.ones((WIDTH, WIDTH)), 1.0).compile().as_text()
    counts = count(text, MeshShape(("data",), (1,)))
    assert counts.num_open_loops == 1
    assert counts.flops == 2 * WIDTH**3


def test_the_larger_branch_of_a_condition_counts():
    def either(choice, x):
        return jax.lax.cond(choice, lambda x: x @ x, lambda x: (x @ x) @ x, x)

    text = jax.jit(either).lower(True, jnp.ones((WIDTH, WIDTH))).compile().as_text()
    assert count(text, MeshShape(("data",), (1,))).flops == 2 * 2 * WIDTH**3


def test_devices_of_a_manual_axis_do_work_of_their_own_and_others_share_it(mesh):
    def square(x):
        return jax.shard_map(
            lambda x: x @ x,
            in_specs=PartitionSpec("fsdp"),
            out_specs=PartitionSpec("fsdp"),
            axis_names={"fsdp"},
        )(x)

    with jax.set_mesh(mesh):
        assert traced_flops(square, jnp.ones((FSDP, 8, 8))) == FSDP * 2 * 8**3


def test_batched_products_and_gradients_agree_with_the_traced_form():
    def loss(weights, x):
        scores = jnp.einsum("bqhd,bkhd->bhqk", x @ weights[0], x @ weights[1])
        return jnp.sum(jnp.tanh(scores))

    weights, x = jnp.ones((2, 16, 4, 8)), jnp.ones((3, 7, 16))
    weights = weights.reshape(2, 16, 32)

    def step(weights, x):
        def heads(weights, x):
            query, key = ((x @ weight).reshape(3, 7, 4, 8) for weight in weights)
            return jnp.sum(jnp.tanh(jnp.einsum("bqhd,bkhd->bhqk", query, key)))

        return jax.grad(heads)(weights, x)

    text = jax.jit(step).lower(weights, x).compile().as_text()
    projections = 2 * 2 * (3 * 7) * 16 * 32 * 2  # two, forward and backward to the weights
    scores = 3 * 2 * 3 * 4 * 7 * 7 * 8
    assert count(text, MeshShape(("data",), (1,))).flops == projections + scores
    assert traced_flops(step, weights, x) == projections + scores


def test_the_largest_arrays_are_named_with_their_source(columns: str):
    (largest, *_) = largest_arrays(columns, 2)
    assert largest.num_bytes >= ROWS // FSDP * WIDTH * 4
    assert "while" in largest.source_name or "jit" in largest.source_name


@pytest.mark.parametrize(
    ("refusal", "gib"),
    [
        ("Ran out of memory on HBM, the total memory required for HLO temporaries (107.50G) exceeds", 107.5),
        ("Ran out of memory in memory space hbm. Used 25.50G of 15.75G hbm.", 25.5),
        ("Ran out of memory", 0),
    ],
)
def test_the_memory_that_a_refused_program_needs_is_read(refusal: str, gib: float):
    assert _refused_peak(refusal) == gib * 2**30


@pytest.mark.parametrize(
    ("attributes", "groups"),
    [
        ("replica_groups={{0,1,2,3},{4,5,6,7}}", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("replica_groups=[2,4]<=[8], dimensions={1}", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("replica_groups=[4,2]<=[2,4]T(1,0)", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_0'}", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("replica_groups=mesh['a'=8] {'a':(2)2}", [[0, 2], [1, 3], [4, 6], [5, 7]]),
        (
            "replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}",
            [[0, 1], [2, 3], [4, 5], [6, 7]],
        ),
        ("replica_groups=mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'b'}", [[3, 1], [2, 0]]),
        ("replica_groups={}", None),
        ("dimensions={0}", None),
    ],
)
def test_every_way_to_write_replica_groups_is_read(attributes: str, groups: list[list[int]] | None):
    result = replica_groups(attributes)
    assert (result is None and groups is None) or result.tolist() == groups


def test_an_unknown_way_to_write_replica_groups_is_refused_by_its_text():
    with pytest.raises(ValueError, match=r"unknown form of replica groups.*replica_groups=<0>"):
        replica_groups("channel_id=1, replica_groups=<0>")


def test_groups_are_named_by_the_axes_along_which_they_lie():
    mesh = MeshShape(("data", "fsdp", "model"), (1, 2, 4))
    assert mesh.axes_of(np.arange(8).reshape(2, 4)) == ("model",)
    assert mesh.axes_of(np.arange(8).reshape(2, 4).T) == ("fsdp",)
    assert mesh.axes_of(np.arange(8).reshape(1, 8)) == mesh.axes_of(None) == ("fsdp", "model")
    assert mesh.axes_of(np.arange(8).reshape(8, 1)) == ()
    assert mesh.axes_of(np.arange(8).reshape(4, 2)) is None
    pairs = source_target_pairs("source_target_pairs={{0,4},{4,0}}, channel_id=1")
    assert mesh.axes_of_pairs(pairs) == ("fsdp",)


# Written by TPU's compiler: no trip count, products as convolutions, one collective in three fusions.
TPU_TEXT = """HloModule jit_f, is_scheduled=true, num_partitions=4

%start (p: bf16[64,32]) -> bf16[64,128] {
  %p = bf16[64,32]{1,0:T(8,128)(2,1)} parameter(0)
  ROOT %ag = bf16[64,128]{1,0} all-gather(%p), channel_id=9, replica_groups=[1,4]<=[4], dimensions={1}
}

%middle (p.1: bf16[64,32], w: bf16[128,16]) -> bf16[64,16] {
  %p.1 = bf16[64,32]{1,0:T(8,128)(2,1)} parameter(0)
  %ag.1 = bf16[64,128]{1,0} all-gather(%p.1), channel_id=9, replica_groups=[1,4]<=[4], dimensions={1}
  %w = bf16[128,16]{1,0:T(8,128)(2,1)S(1)} parameter(1)
  ROOT %conv = bf16[64,16]{1,0} convolution(%ag.1, %w), dim_labels=bf_io->bf
}

%all-reduce-scatter.1 (i: bf16[64,16]) -> bf16[16,16] {
  %i = bf16[64,16]{1,0} parameter(0)
  %ar = bf16[64,16]{1,0} all-reduce(%i), channel_id=3, replica_groups={{0,1,2,3}}, to_apply=%add
  %c = u32[] constant(0)
  ROOT %cut = bf16[16,16]{1,0} dynamic-slice(%ar, %c, %c), dynamic_slice_sizes={16,16}
}

%body (b: (s32[], bf16[64,32])) -> (s32[], bf16[64,32]) {
  %b = (s32[]{:T(128)}, bf16[64,32]{1,0}) parameter(0)
  %n = s32[]{:T(128)} get-tuple-element(%b), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%n, %one)
  %x = bf16[64,32]{1,0} get-tuple-element(%b), index=1
  %weight = bf16[128,16]{1,0:S(1)} custom-call(), custom_call_target="AllocateBuffer"
  %f0 = bf16[64,128]{1,0} fusion(%x), kind=kCustom, calls=%start
  %f1 = bf16[64,16]{1,0} fusion(%x, %weight), kind=kOutput, calls=%middle
  %f2 = bf16[16,16]{1,0} fusion(%f1), kind=kCustom, calls=%all-reduce-scatter.1
  ROOT %t = (s32[]{:T(128)}, bf16[64,32]{1,0}) tuple(%next, %x)
}

%cond (k: (s32[], bf16[64,32])) -> pred[] {
  %k = (s32[]{:T(128)}, bf16[64,32]{1,0}) parameter(0)
  %m = s32[]{:T(128)} get-tuple-element(%k), index=0
  %end = s32[]{:T(128)} constant(7)
  ROOT %lt = pred[]{:T(512)} compare(%m, %end), direction=LT
}

ENTRY %main (a: bf16[64,32]) -> bf16[64,32] {
  %a = bf16[64,32]{1,0} parameter(0)
  %zero = s32[]{:T(128)} constant(0)
  %copy = s32[]{:T(128)} copy(%zero)
  %start.t = (s32[]{:T(128)}, bf16[64,32]{1,0}) tuple(%copy, %a)
  %loop = (s32[]{:T(128)}, bf16[64,32]{1,0}) while(%start.t), condition=%cond, body=%body
  ROOT %out = bf16[64,32]{1,0} get-tuple-element(%loop), index=1
}
"""


def test_a_tpu_program_is_counted_as_its_compiler_writes_it():
    counts = count(TPU_TEXT, MeshShape(("fsdp",), (4,)))
    assert counts.num_open_loops == 0
    assert counts.flops == 7 * 2 * 64 * 128 * 16
    gathered = counts.collectives.pop(CollectiveKind("all-gather", ("fsdp",)))
    assert (gathered.times, gathered.payload_bytes) == (7, 7 * 64 * 128 * 2)
    scattered = counts.collectives.pop(CollectiveKind("reduce-scatter", ("fsdp",)))
    assert (scattered.times, scattered.sent_bytes) == (7, 7 * 64 * 16 * 2 * 3 / 4)
    assert not counts.collectives
    assert not counts.custom_calls


def test_a_collective_that_goes_on_during_a_loop_is_counted_where_it_starts():
    start = "%before = bf16[64,128]{1,0} fusion(%a), kind=kCustom, calls=%start"
    started = TPU_TEXT.replace("  %start.t =", f"  {start}\n  %start.t =")
    counts = count(started, MeshShape(("fsdp",), (4,)))
    assert counts.collectives[CollectiveKind("all-gather", ("fsdp",))].times == 1


COST = '"cost_estimate":{"flops":"1000","transcendentals":"9","bytes_accessed":"500"}'
KERNELS = f"""HloModule jit_step, is_scheduled=true

ENTRY %main (a: f32[8,4]) -> f32[8,4] {{
  %a = f32[8,4]{{1,0}} parameter(0)
  %b = f32[8,4]{{1,0}} custom-call(%a), custom_call_target="tpu_custom_call", backend_config={{"config":{{{COST}}}}}
  ROOT %c = f32[8,4]{{1,0}} custom-call(%b), custom_call_target="tpu_custom_call", backend_config={{"body":"TUzv"}}
}}
"""


def test_a_kernel_counts_as_it_states_of_itself():
    counts = count(KERNELS, MeshShape(("fsdp",), (4,)))
    assert counts.flops == 1000
    assert counts.num_bytes == 500 + 2 * 8 * 4 * 4
    assert counts.custom_calls == {"tpu_custom_call": 1}


def test_fusions_that_a_collective_passes_through_do_not_read_or_write_its_arrays():
    counter, product, scattered = 3 * 4, 64 * 16 * 2, 16 * 16 * 2
    counts = count(TPU_TEXT, MeshShape(("fsdp",), (4,)))
    assert counts.num_bytes == 7 * (counter + product + scattered) + 2 * 4  # the entry copies the counter


@pytest.mark.parametrize("is_fused", [True, False])
def test_a_scatter_reads_and_writes_the_rows_that_change(is_fused):
    scatter = "ROOT %s = f32[512,16] scatter(%x, %i, %u), to_apply=%add"
    parameters = """
  %x = f32[512,16]{1,0} parameter(0)
  %i = s32[4,1]{1,0} parameter(1)
  %u = f32[4,16]{1,0} parameter(2)"""
    fusion = "ROOT %s = f32[512,16]{1,0} fusion(%x, %i, %u), kind=kCustom, calls=%fused"
    text = f"""HloModule m

%fused (x: f32[512,16], i: s32[4,1], u: f32[4,16]) -> f32[512,16] {{{parameters}
  {scatter}
}}

ENTRY %main (x: f32[512,16], i: s32[4,1], u: f32[4,16]) -> f32[512,16] {{{parameters}
  {fusion if is_fused else scatter}
}}
"""
    indices = 16 if is_fused else 0
    assert count(text, MeshShape(("data",), (1,))).num_bytes == 3 * 4 * 16 * 4 + indices


def test_slices_that_a_gpu_keeps_in_the_hosts_memory_are_counted():
    text = """HloModule m

%store (h: f32[8,64,32], a: f32[1,64,32], n: s32[]) -> f32[8,64,32] {
  %h = f32[8,64,32]{2,1,0:S(5)} parameter(0)
  %a = f32[1,64,32]{2,1,0} parameter(1)
  %n = s32[] parameter(2)
  %c = f32[1,64,32]{2,1,0} copy(%a)
  ROOT %u = f32[8,64,32]{2,1,0:S(5)} dynamic-update-slice(%h, %c, %n, %n, %n)
}

%load (h: f32[8,64,32], n: s32[]) -> f32[1,64,32] {
  %h = f32[8,64,32]{2,1,0:S(5)} parameter(0)
  %n = s32[] parameter(1)
  ROOT %d = f32[1,64,32]{2,1,0} dynamic-slice(%h, %n, %n, %n), dynamic_slice_sizes={1,64,32}
}

ENTRY %main (h: f32[8,64,32], a: f32[1,64,32], n: s32[]) -> f32[1,64,32] {
  %h = f32[8,64,32]{2,1,0:S(5)} parameter(0)
  %a = f32[1,64,32]{2,1,0} parameter(1)
  %n = s32[] parameter(2)
  %s = ((HOST, SLICE, s32[]), HOST, u32[]) fusion-start(%h, %a, %n), kind=kLoop, calls=%store
  %v = f32[8,64,32]{2,1,0:S(5)} fusion-done(%s)
  %l = ((HOST, s32[]), SLICE, u32[]) fusion-start(%v, %n), kind=kLoop, calls=%load
  ROOT %d = f32[1,64,32]{2,1,0} fusion-done(%l)
}
""".replace("HOST", "f32[8,64,32]{2,1,0:S(5)}").replace("SLICE", "f32[1,64,32]{2,1,0}")
    counts, slice_bytes = count(text, MeshShape(("data",), (1,))), 64 * 32 * 4
    assert counts.host_bytes == 2 * slice_bytes
    assert counts.num_bytes == pytest.approx(2 * slice_bytes, abs=16)  # read once, written once; indices


def test_an_asynchronous_slice_reads_the_slice_only():
    text = """HloModule m

ENTRY %main (a: f32[8,64,32]) -> f32[1,64,32] {
  %a = f32[8,64,32]{2,1,0} parameter(0)
  %s = ((f32[8,64,32]{2,1,0}), f32[1,64,32]{2,1,0:S(1)}, s32[]{:S(2)}) slice-start(%a), slice={[0:1], [0:64], [0:32]}
  ROOT %d = f32[1,64,32]{2,1,0:S(1)} slice-done(%s)
}
"""
    assert count(text, MeshShape(("data",), (1,))).num_bytes == 64 * 32 * 4


def test_values_in_the_hosts_memory_are_read_and_written_slice_by_slice_and_take_none_of_the_devices():
    text = """HloModule m

ENTRY %main (h: f32[8,64,32], a: f32[1,64,32], n: s32[]) -> f32[1,64,32] {
  %h = f32[8,64,32]{2,1,0:S(5)} parameter(0)
  %a = f32[1,64,32]{2,1,0} parameter(1)
  %n = s32[] parameter(2)
  %u = ((HOST, SLICE, s32[]), HOST, u32[]{:S(2)}) dynamic-update-slice-start(%h, %a, %n, %n, %n)
  %v = f32[8,64,32]{2,1,0:S(5)} dynamic-update-slice-done(%u)
  %s = ((HOST, s32[]), SLICE, u32[]{:S(2)}) dynamic-slice-start(%v, %n, %n, %n)
  ROOT %d = f32[1,64,32]{2,1,0} dynamic-slice-done(%s)
}
""".replace("HOST", "f32[8,64,32]{2,1,0:S(5)}").replace("SLICE", "f32[1,64,32]{2,1,0}")
    counts, slice_bytes = count(text, MeshShape(("data",), (1,))), 64 * 32 * 4
    assert counts.host_bytes == 2 * slice_bytes
    assert counts.num_bytes == 2 * slice_bytes  # read once, written once
    assert largest_arrays(text, 1)[0].num_bytes == slice_bytes


def test_a_loop_that_advances_by_two_runs_half_as_often():
    """TPU's compiler unrolls the loops in which it exchanges parts of a matrix product."""
    unrolled = TPU_TEXT.replace("%one = s32[] constant(1)", "%one = s32[] constant(2)")
    assert count(unrolled, MeshShape(("fsdp",), (4,))).flops == 4 * 2 * 64 * 128 * 16
    twice = TPU_TEXT.replace("%next = s32[]", "%between = s32[] add(%n, %one)\n  %next = s32[]").replace(
        "%next = s32[] add(%n, ", "%next = s32[] add(%between, "
    )
    assert count(twice, MeshShape(("fsdp",), (4,))).flops == 4 * 2 * 64 * 128 * 16
    by_itself = TPU_TEXT.replace("add(%n, %one)", "add(%n, %n)")
    assert count(by_itself, MeshShape(("fsdp",), (4,))).num_open_loops == 1


def test_a_weight_that_stays_on_the_chip_is_not_read_from_memory():
    body = parse(TPU_TEXT).computations["body"]
    assert body.instructions["weight"].shapes[0].main_memory_bytes == 0
    assert body.instructions["weight"].shapes[0].num_bytes == 128 * 16 * 2


def test_a_batched_product_written_as_a_convolution_counts_valid_positions_only():
    """TPU's compiler writes [8, 64, 32] x [8, 32, 16] with the batch as a spatial dimension of dilated elements."""
    text = """HloModule m

ENTRY %main (a: f32[64,32,8], b: f32[32,16,8]) -> f32[64,16,8] {
  %a = f32[64,32,8]{2,1,0} parameter(0)
  %b = f32[32,16,8]{2,1,0} parameter(1)
  ROOT %c = f32[64,16,8]{2,1,0} convolution(%a, %b), window={size=8 stride=7 lhs_dilate=8}, dim_labels=bf0_io0->bf0
}
"""
    assert count(text, MeshShape(("data",), (1,))).flops == 8 * 2 * 64 * 32 * 16


# Lines of programs that XLA of JAX 0.11 compiled for an H200, without what isn't counted.
_GPU_PROGRAM = """HloModule jit_step, is_scheduled=true

%gemm_fusion (parameter_0: bf16[2048,64], parameter_1: bf16[64,512]) -> bf16[2048,512] {
  %parameter_0 = bf16[2048,64]{1,0} parameter(0)
  %parameter_1 = bf16[64,512]{1,0} parameter(1)
  ROOT %dot.1 = bf16[2048,512]{1,0} dot(%parameter_0, %parameter_1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main (q: bf16[16,128,32,64], k: bf16[16,96,4,64], x: bf16[2048,64], w: bf16[64,512]) -> bf16[2048,64] {
  %q = bf16[16,128,32,64]{3,2,1,0} parameter(0)
  %k = bf16[16,96,4,64]{3,2,1,0} parameter(1)
  %x = bf16[2048,64]{1,0} parameter(2)
  %w = bf16[64,512]{1,0} parameter(3)
  %forward = (bf16[16,32,128,64]{3,1,2,0}, f32[16,32,128]{2,1,0}, u8[256]{0}) custom-call(%q, %k, %k), \
custom_call_target="__cudnn$fmhaSoftmax", backend_config={"cudnn_fmha_backend_config":{"bmm1_dot_dimension_numbers":\
{"lhs_batch_dimensions":["0","2"]},"intermediate_tensor_shape":{"dimensions":["16","32","128","96"]}}}
  %backward = (bf16[16,32,128,64]{3,1,2,0}, u8[256]{0}) custom-call(%q, %k, %k, %forward#1, %forward#0), \
custom_call_target="__cudnn$fmhaSoftmaxBackward", backend_config={"cudnn_fmha_backend_config":\
{"intermediate_tensor_shape":{"dimensions":["16","32","128","96"]}}}
  %wide = bf16[2048,512]{1,0} fusion(%x, %w), kind=kCustom, calls=%gemm_fusion
  ROOT %product = (bf16[2048,64]{1,0}, s8[33554432]{0}) custom-call(%wide, %w), \
custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":{"dot_dimension_numbers":\
{"lhs_batch_dimensions":[],"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["1"]}}}
}
"""


def test_products_by_libraries_of_gpus_are_counted():
    counts = count(_GPU_PROGRAM.replace("\\\n", ""), MeshShape(("data",), (1,)))
    attention = 2 * 16 * 32 * 128 * 96 * 64
    assert [each.flops for each in counts.operations] == [
        2 * attention,
        5 * attention,
        2 * 2048 * 64 * 512,
        2 * 2048 * 512 * 64,
    ]
    assert not counts.custom_calls


def test_elements_of_a_tuple_are_read_alone():
    counts = count(_GPU_PROGRAM.replace("\\\n", ""), MeshShape(("data",), (1,)))
    query, key, statistics = 16 * 128 * 32 * 64 * 2, 16 * 96 * 4 * 64 * 2, 16 * 32 * 128 * 4
    backward = counts.operations[1]
    assert backward.num_bytes == query + 2 * key + statistics + query + (query + 256)


@pytest.mark.parametrize(
    ("kind", "name"), [("NVIDIA H200", "h200"), ("TPU v5", "v5p"), ("TPU v5 lite", "v5e"), ("cpu", None)]
)
def test_devices_have_the_figures_of_their_data_sheet(kind: str, name: str | None):
    chip = chip_of(kind)
    assert (chip and chip.name) == name


@pytest.fixture(scope="module")
def experts() -> tuple[Any, Any]:
    config = MixtureOfExpertsConfig(
        mlp_dim=16, activation="gelu", num_experts=4, num_experts_per_token=2, capacity_factor=None
    )
    graphdef, params = parameters.split(MixtureOfExperts(config, 8, key=jax.random.key(0)))

    def loss(params: Any, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(parameters.merge(graphdef, params)(x)[0]))

    return loss, params


# Of each token, two products of 8 * 16 in two experts, and one of 8 * 4 in the router.
OF_A_TOKEN = 2 * (2 * 2 * 8 * 16 + 8 * 4)


def test_traced_experts_count_as_if_equally_busy_and_nothing_twice(experts: tuple[Any, Any]):
    loss, params = experts
    x = jnp.ones((16, 64, 8))
    forward = 16 * 64 * OF_A_TOKEN
    assert traced_flops(loss, params, x) == forward
    assert traced_flops(jax.grad(loss, argnums=(0, 1)), params, x) == 3 * forward


def test_compiled_experts_count_as_if_equally_busy(experts: tuple[Any, Any]):
    loss, params = experts
    x = jnp.ones((16, 64, 8))
    counts = count(jax.jit(loss).lower(params, x).compile().as_text(), MeshShape(("data",), (1,)))
    assert counts.flops == 16 * 64 * OF_A_TOKEN
    assert counts.num_open_loops == 0


# As TPU's compiler writes an all-reduce over four slices of 16 chips: within a slice, then by the host.
SLICES_PROGRAM = """HloModule jit_step, is_scheduled=true, num_partitions=16

ENTRY %main (p: bf16[64,1024]) -> token[] {
  %p = bf16[64,1024]{1,0} parameter(0)
  %after-all = token[] after-all()
  %send = (bf16[64,1024]{1,0}, u32[], token[]) send(%p, %after-all), channel_id=2, is_host_transfer=true, """
SLICES_PROGRAM += """frontend_attributes={_xla_megascale_target="{1:3,4}x{0:15}",_xla_megascale_transfer_type="%s"}
  ROOT %send-done = token[] send-done(%%send), channel_id=2, is_host_transfer=true
}
"""


@pytest.mark.parametrize(
    ("transfer", "payload", "sent"),
    [
        ("ALL_REDUCE", 64 * 1024 * 2, 64 * 1024 * 2 * 2 * 3 / 4),
        ("ALL_GATHER", 4 * 64 * 1024 * 2, 3 * 64 * 1024 * 2),
        ("REDUCE_SCATTER", 64 * 1024 * 2, 64 * 1024 * 2 * 3 / 4),
        ("ONE_TO_ONE", 64 * 1024 * 2, 64 * 1024 * 2),
    ],
)
def test_what_tpu_slices_exchange_is_counted(transfer, payload, sent):
    counts = count(SLICES_PROGRAM.replace("%s", transfer).replace("%%", "%"), MeshShape(("data",), (16,)))
    ((kind, each),) = counts.collectives.items()
    assert kind == CollectiveKind(transfer.lower().replace("_", "-"), BETWEEN_SLICES)
    assert (each.times, each.payload_bytes, each.sent_bytes) == (1, payload, sent)
    assert topology("4xv5e:4x4").send_seconds(sent, None, BETWEEN_SLICES) == pytest.approx(sent / 3.125e9)


@pytest.mark.parametrize(
    ("text", "num_devices"),
    [("v5e:4x4", 16), ("2xv5e:16x16", 512), ("16xv6e:16x16", 4096), ("tpu7x:4x4x4", 128)],
)
def test_devices_of_slices_and_of_chips_with_two_devices(text, num_devices):
    assert topology(text).num_devices == num_devices
    assert topology(text).text == text


def test_collectives_that_a_sparse_core_runs_are_counted():
    """A TPU7x's program starts a call on another thread, and passes it operands later."""
    text = """HloModule jit_step, is_scheduled=true, num_partitions=8

%called (p: f32[1,32,128]) -> f32[1,128,128] {
  %p = f32[1,32,128]{2,0,1} parameter(0)
  ROOT %gather = f32[1,128,128]{2,0,1} all-gather(%p), channel_id=2, replica_groups=[2,4]<=[8], dimensions={1}
}, execution_thread="sparsecore"

ENTRY %main (x: f32[1,32,128]) -> f32[1,128,128] {
  %x = f32[1,32,128]{2,0,1} parameter(0)
  %start = ((), (), (s32[1]{0})) call-start(), async_execution_thread="sparsecore", to_apply=%called
  %update = ((f32[1,32,128]{2,0,1}), f32[1,128,128]{2,0,1}) call-update(%start, %x)
  ROOT %done = f32[1,128,128]{2,0,1} call-done(%update)
}
"""
    counts = count(text, MeshShape(("data", "fsdp"), (2, 4)))
    ((kind, each),) = counts.collectives.items()
    assert kind == CollectiveKind("all-gather", ("fsdp",))
    assert each.sent_bytes == 3 * 32 * 128 * 4
    assert counts.num_bytes == 0
