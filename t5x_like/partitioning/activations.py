"""Layout of activations and of loops' weights on a mesh, inside jit."""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
from jax.sharding import AbstractMesh, PartitionSpec
from jaxtyping import PyTree

from t5x_like.nested_values import one_or_several
from t5x_like.partitioning.rules import BATCH_MESH_AXES, CONTEXT_MESH_AXIS, spec_for
from t5x_like.partitioning.shard import row_groups

Tree = TypeVar("Tree")

# Dimensions of arrays in ``map_heads``.
ROWS, HEADS = "rows", "heads"


def constrain_rows(activations: jax.Array) -> jax.Array:
    """Shard the leading dimension like the batch, inside jit; other dimensions are left to the compiler.

    Otherwise the compiler may shard activations like the fsdp weights and gather whole batches. Does nothing where no
    mesh is set (``jax.set_mesh``) or the rows don't divide.
    """
    rest = (PartitionSpec.UNCONSTRAINED,) * (activations.ndim - 1)
    return _constrain(activations, *rest) if _divided_by(activations) else activations


def constrain_experts(tokens: jax.Array) -> jax.Array:
    """Shard [experts, rows, ...] as the experts' weights are, and rows along the batch's other axes; inside jit.

    This is expert parallelism: tokens go to the devices that hold their experts (Lepikhin et al. 2020, §3.2), by an
    all-to-all between this and ``constrain_rows``. Does nothing where no mesh is set or the rows don't divide.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or not set(BATCH_MESH_AXES) <= set(mesh.axis_names):
        return tokens
    (expert_axes,) = spec_for(("experts",), tokens.shape[:1], mesh)[0]
    expert_axis_names = one_or_several(expert_axes)
    row_axes = tuple(axis for axis in BATCH_MESH_AXES if axis not in expert_axis_names)
    if tokens.shape[1] % math.prod(mesh.shape[axis] for axis in row_axes):
        return tokens
    rest = (PartitionSpec.UNCONSTRAINED,) * (tokens.ndim - 2)
    return jax.lax.with_sharding_constraint(tokens, PartitionSpec(expert_axes, row_axes, *rest))


def constrain_state(state: Tree) -> Tree:
    """Shard the leading dimension of each array like the batch, and keep the others whole; inside jit.

    For arrays that a recurrent loop reads, carries or returns. See ``gather_weight``.
    """

    def constrain(part: jax.Array) -> jax.Array:
        return _constrain(part, *(None,) * (part.ndim - 1)) if _divided_by(part) else part

    return jax.tree.map(constrain, state)


def gather_weight(weight: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    """Gather a weight along the batch's axes before a recurrent loop, which would do so in each pass; inside jit.

    Left to the compiler, gradients of layers that read in both directions are wrong on a mesh of data 2, fsdp 2 and
    model 2 (JAX 0.10.2 with Shardy). This and ``constrain_state`` together mend them.

    Args:
      weight: Weight of a layer inside the loop.
      axes: Axis name of each dimension.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if not _has_rules(mesh):
        return weight
    spec = spec_for(axes, weight.shape, mesh)[0]
    return jax.lax.with_sharding_constraint(weight, PartitionSpec(*map(_without_batch_axes, spec)))


def _without_batch_axes(names: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the mesh axes of a dimension without those of the batch; ``None`` if no other is left."""
    return tuple(name for name in one_or_several(names) if name not in BATCH_MESH_AXES) or None


def constrain_tokens(activations: jax.Array) -> jax.Array:
    """Shard [rows, tokens, ...] between layers, inside jit: tokens along ``context`` and ``model``.

    Layers gather the tokens that ``model`` splits and scatter their sums. In the forward pass this moves as many bytes
    as summing on all devices; the backward pass gathers once more. Norms and activations that it needs are then split,
    too (Korthikanti et al. 2022, §4.2.2). Where ``model`` doesn't divide the tokens, ``context`` alone splits them;
    where it doesn't either, only rows are sharded.
    """
    for axes in ((CONTEXT_MESH_AXIS, "model"), (CONTEXT_MESH_AXIS,)):
        if _divided_by(activations, *axes, axis=1):
            return _constrain(activations, axes)
    return constrain_rows(activations)


def gather_tokens(activations: jax.Array) -> jax.Array:
    """Undo the split of tokens along ``model`` for a layer that is itself split along ``model``; inside jit.

    Otherwise the compiler may keep the tokens split, gather the layer's weights instead, and exchange its results.
    Along ``context`` they stay split.
    """
    if _divided_by(activations, CONTEXT_MESH_AXIS, "model", axis=1):
        return _constrain(activations, CONTEXT_MESH_AXIS)
    return activations


@jax.custom_vjp
def gather_output(activations: jax.Array) -> jax.Array:
    """Undo the split of tokens along ``model`` for the readers of a stack's output; inside jit.

    All layers of a decoder read one gathered array. Each reader's gradient is split again, so that sums of them are.
    """
    return gather_tokens(activations)


gather_output.defvjp(
    lambda activations: (gather_output(activations), None),
    lambda _, gradient: (constrain_tokens(gradient),),
)


def constrain_inner(activations: jax.Array, axis: int) -> jax.Array:
    """Shard activations inside a layer along ``model``; inside jit.

    Dimensions between the first and the sharded one stay whole, and the compiler decides where ``context`` may split
    them. The first is left to the compiler too: of experts it is no rows of the batch. Does nothing where ``model`` is
    1 or doesn't divide the dimension.

    Args:
      activations: Array of at least two dimensions.
      axis: Dimension to shard.
    """
    if not _divided_by(activations, "model", axis=axis):
        return activations
    has_context = jax.sharding.get_abstract_mesh().shape[CONTEXT_MESH_AXIS] > 1
    between = (PartitionSpec.UNCONSTRAINED if has_context else None,) * (axis % activations.ndim - 1)
    spec = PartitionSpec(PartitionSpec.UNCONSTRAINED, *between, "model")
    return jax.lax.with_sharding_constraint(activations, spec)


def num_context_parts(num_rows: int, *lengths: int) -> int:
    """Return the number of parts that ``context`` splits rows into; 1 where it doesn't divide one of the lengths.

    Args:
      num_rows: Rows of the batch.
      *lengths: Lengths of the rows' streams in tokens.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if not _has_rules(mesh) or num_rows % row_groups(mesh):
        return 1
    parts = mesh.shape[CONTEXT_MESH_AXIS]
    return 1 if any(length % parts for length in lengths) else parts


def _divided_by(activations: jax.Array, *mesh_axes: str, axis: int = 0) -> bool:
    """Return whether a mesh is set that divides the rows, and whether its axes cut a dimension evenly."""
    mesh = jax.sharding.get_abstract_mesh()
    if not _has_rules(mesh) or len(activations) % row_groups(mesh):
        return False
    parts = math.prod(mesh.shape[name] for name in mesh_axes)
    return not mesh_axes or (parts > 1 and activations.shape[axis] % parts == 0)


def _constrain(activations: jax.Array, *rest: object) -> jax.Array:
    return jax.lax.with_sharding_constraint(activations, PartitionSpec(BATCH_MESH_AXES, *rest))


def map_tokens(function: Callable[..., Tree], shared: PyTree, *tokens: jax.Array) -> Tree:
    """Return ``function(shared, *tokens)``, run on every group of devices for its own rows and tokens; inside jit.

    ``shared`` is gathered along the batch's axes once, and its gradient is summed over them and ``context`` once.
    The compiler would do both in each pass of a loop in ``function``. Without a mesh, or where the rows don't divide,
    the function runs as it is.

    Args:
      function: Called with ``shared`` and arrays [rows, tokens, ...]; returns such arrays.
      shared: Weights; cut along ``model`` as the compiler chooses.
      tokens: Arrays of the batch's tokens.
    """
    num_rows, length = tokens[0].shape[:2]
    mesh, parts = jax.sharding.get_abstract_mesh(), num_context_parts(num_rows, length)
    if not _has_rules(mesh) or row_groups(mesh) * parts == 1 or num_rows % row_groups(mesh):
        return function(shared, *tokens)
    axes = (*BATCH_MESH_AXES, CONTEXT_MESH_AXIS) if parts > 1 else BATCH_MESH_AXES

    def on_own_tokens(shared: PyTree, *tokens: jax.Array) -> PyTree:
        # Varying from here on: the sum over devices is then the transpose of this line, outside of all loops.
        varying = jax.tree.map(lambda leaf: jax.lax.pcast(leaf, axes, to="varying"), shared)
        return function(varying, *tokens)

    of_tokens = PartitionSpec(BATCH_MESH_AXES, CONTEXT_MESH_AXIS if parts > 1 else None)
    return jax.shard_map(
        on_own_tokens,
        in_specs=(PartitionSpec(), *(of_tokens,) * len(tokens)),
        out_specs=of_tokens,
        axis_names=set(axes),
    )(shared, *tokens)


def map_experts(function: Callable[..., jax.Array], experts: PyTree, *tokens: PyTree) -> jax.Array:
    """Return ``function(experts, first, *tokens)``, run on every device for some of the experts; inside jit.

    Along ``expert``, devices exchange all of their tokens, and add up the outputs. Along other axes that share out the
    experts, either tokens or experts travel, whichever are fewer bytes. Without a mesh the function runs as it is.
    Where the mesh doesn't divide the rows, all devices read all of them.

    Args:
      function: Called with some experts, the number of the first, and arrays of the tokens that may use them; returns
        an array of the tokens, 0 for those that use other experts.
      experts: Weights with a leading axis of all experts.
      *tokens: Trees of arrays [rows, ...].
    """
    mesh = jax.sharding.get_abstract_mesh()
    if not _has_rules(mesh) or row_groups(mesh) == 1:
        return function(experts, 0, *tokens)
    num_experts, num_rows = len(jax.tree.leaves(experts)[0]), len(jax.tree.leaves(tokens)[0])
    (expert_axes,) = spec_for(("experts",), (num_experts,), mesh)[0]
    names = one_or_several(expert_axes) if expert_axes else ()
    is_divided = num_rows % row_groups(mesh) == 0
    token_names = names
    if is_divided and _are_experts_smaller(experts, tokens, mesh, names):
        token_names = tuple(name for name in names if name == "expert")
    expert_names = tuple(name for name in names if name not in token_names)
    parts = math.prod(mesh.shape[name] for name in token_names)

    def on_own_experts(experts: PyTree, *tokens: PyTree) -> jax.Array:
        experts = _gather(experts, expert_names)
        if not token_names:
            return function(experts, 0, *tokens)
        first = jax.lax.axis_index(token_names) * (num_experts // parts)
        if not is_divided:
            return jax.lax.psum(function(experts, first, *tokens), token_names)
        outputs = function(experts, first, *_gather(tokens, token_names))
        return jax.lax.psum_scatter(outputs, token_names, tiled=True)

    of_tokens = PartitionSpec(BATCH_MESH_AXES if is_divided else None)
    return jax.shard_map(
        on_own_experts,
        in_specs=(PartitionSpec(expert_axes), *(of_tokens,) * len(tokens)),
        out_specs=of_tokens,
        axis_names=set(BATCH_MESH_AXES),
        check_vma=False,
    )(experts, *tokens)


def _are_experts_smaller(
    experts: PyTree, tokens: tuple[PyTree, ...], mesh: AbstractMesh, names: tuple[str, ...]
) -> bool:
    """Return whether a device's experts have fewer bytes than its inputs and outputs, exchanged along ``expert``.

    Each device of the other axes gets as many.

    Args:
      experts: Weights of all experts.
      tokens: Arrays of all tokens, of which the first is as large as the outputs.
      mesh: Devices.
      names: Axes that share out the experts.
    """
    parts = math.prod(mesh.shape[name] for name in (*names, "model"))
    of_experts = sum(leaf.nbytes for leaf in jax.tree.leaves(experts)) // parts
    of_tokens = 2 * jax.tree.leaves(tokens[0])[0].nbytes // row_groups(mesh)
    return of_experts < of_tokens * mesh.shape["expert"]


def _gather(parts: Tree, names: tuple[str, ...]) -> Tree:
    """Return arrays of all devices along some axes, joined along the first dimension."""
    if not names:
        return parts
    return jax.tree.map(lambda each: jax.lax.all_gather(each, names, tiled=True), parts)


def map_heads(
    function: Callable[..., PyTree],
    arrays: tuple[PyTree, ...],
    dims: PyTree,
    out_dims: PyTree,
    *,
    sizes: Sequence[int],
) -> PyTree:
    """Return ``function(*arrays)``, run on every device for its own rows and heads; inside jit.

    For what the compiler can't split, such as kernels. Gradients of what devices share are summed over them. Without a
    mesh the function runs as it is. Rows or heads that the mesh doesn't divide are whole on every device.

    Args:
      function: Called with parts of the arrays.
      arrays: Trees of arrays.
      dims: For each array, or each tree, a ``PartitionSpec`` of ``ROWS``, ``HEADS`` and ``None``.
      out_dims: A ``PartitionSpec`` for each result, or each tree of results.
      sizes: Numbers of rows and of heads.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if not _has_rules(mesh) or mesh.size == 1:
        return function(*arrays)
    axes = {
        ROWS: BATCH_MESH_AXES if sizes[0] % row_groups(mesh) == 0 else None,
        HEADS: "model" if num_parts_of_heads(sizes[1]) > 1 else None,
    }

    def spec(dims: PartitionSpec) -> PartitionSpec:
        return PartitionSpec(*(axes.get(dim) for dim in dims))

    in_specs, out_specs = jax.tree.map(spec, (dims, out_dims))
    return jax.shard_map(function, in_specs=in_specs, out_specs=out_specs, check_vma=False)(*arrays)


def num_parts_of_heads(num_heads: int) -> int:
    """Return over how many devices the mesh splits heads: 1 without a mesh, or where ``model`` doesn't divide them."""
    mesh = jax.sharding.get_abstract_mesh()
    return mesh.shape["model"] if _has_rules(mesh) and num_heads % mesh.shape["model"] == 0 else 1


def num_parts_of_rows(num_rows: int) -> int:
    """Return over how many devices the mesh splits rows: 1 without a mesh, or where it doesn't divide them."""
    mesh = jax.sharding.get_abstract_mesh()
    return row_groups(mesh) if _has_rules(mesh) and num_rows % row_groups(mesh) == 0 else 1


def divides_heads(num_rows: int, num_heads: int) -> bool:
    """Return True if ``model`` is more than 1 and divides the heads, and the mesh divides the rows.

    Args:
      num_rows: Rows of the batch.
      num_heads: Attention heads.
    """
    mesh = jax.sharding.get_abstract_mesh()
    return num_parts_of_heads(num_heads) > 1 and num_rows % row_groups(mesh) == 0


def _has_rules(mesh: AbstractMesh) -> bool:
    """Return whether a mesh is set, and has the axes that the rules name."""
    return not mesh.empty and set(BATCH_MESH_AXES) <= set(mesh.axis_names)
