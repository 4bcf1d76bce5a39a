"""Expert parallelism: tokens go to the devices that hold their experts (Lepikhin et al. 2020, §3.2)."""

import math

import jax
from jax.sharding import PartitionSpec

from t5x_like.partitioning.rules import BATCH_MESH_AXES, spec_for


def constrain_experts(tokens: jax.Array) -> jax.Array:
    """Shard [experts, rows, ...] as the experts' weights are, and rows along the batch's other axes; inside jit.

    Between this and :func:`~t5x_like.partitioning.activations.constrain_rows` there is an all-to-all. Does nothing
    where no mesh is set or the rows don't divide.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or not set(BATCH_MESH_AXES) <= set(mesh.axis_names):
        return tokens
    (expert_axes,) = spec_for(("experts",), tokens.shape[:1], mesh)[0]
    taken = (expert_axes,) if isinstance(expert_axes, str) else expert_axes or ()
    row_axes = tuple(axis for axis in BATCH_MESH_AXES if axis not in taken)
    if tokens.shape[1] % math.prod(mesh.shape[axis] for axis in row_axes):
        return tokens
    rest = (PartitionSpec.UNCONSTRAINED,) * (tokens.ndim - 2)
    return jax.lax.with_sharding_constraint(tokens, PartitionSpec(expert_axes, row_axes, *rest))
