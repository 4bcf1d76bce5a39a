"""Generation by an experiment's model, compiled ahead of time: its cache, reading of prompts, and one token."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import PyTree

from t5x_like.model import parameters
from t5x_like.model.families.family import can_decode
from t5x_like.model.layers.stack import unrolled
from t5x_like.model.layers.top_k import argmax
from t5x_like.model.parameters import Parameters
from t5x_like.partitioning.shard import batch_sharding, check_batch_size, with_shardings
from t5x_like.planning.device_program import DeviceProgram, compile_program
from t5x_like.planning.step_plan import bytes_per_device, compilable, resolved
from t5x_like.planning.topology import Topology
from t5x_like.text.tasks.task_set import TaskSet
from t5x_like.training.experiment import Experiment


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodePlan:
    """Needs of each device for greedy generation.

    Attributes:
      topology: The devices.
      mesh: Their arrangement.
      num_rows: Prompts at once.
      prompt_length: Tokens of a prompt.
      max_new_tokens: Tokens of a continuation.
      weight_bytes: Bytes of the weights on each device, in the run's types.
      cache_bytes: Bytes of the cache on each device: keys and values, and the encoder's output where there is an
        encoder.
      prefill: Program that reads the prompts.
      token: Program that reads one token of each row and chooses the next.
    """

    topology: Topology
    mesh: Mesh
    num_rows: int
    prompt_length: int
    max_new_tokens: int
    weight_bytes: int
    cache_bytes: int
    prefill: DeviceProgram
    token: DeviceProgram

    @property
    def peak(self) -> int:
        """Bytes of a device at the larger of both peaks."""
        return max(self.prefill.peak, self.token.peak)


def plan_decoding(
    experiment: Experiment,
    tasks: TaskSet,
    topology: Topology,
    devices: Sequence[Any],
    *,
    num_rows: int,
    prompt_length: int,
    max_new_tokens: int,
) -> DecodePlan:
    """Compile prefill and one greedy decoding step of an experiment's model.

    Args:
      experiment: The configuration; its mesh must fit the topology.
      tasks: Tasks that it trains on.
      topology: The devices.
      devices: Devices from ``topology.devices()``.
      num_rows: Prompts at once, over all devices.
      prompt_length: Tokens of a prompt.
      max_new_tokens: Tokens of a continuation.

    Raises:
      ValueError: The model doesn't generate, the mesh doesn't divide devices or rows, or positions are too few.
    """
    config: Any = compilable(resolved(experiment, tasks), topology).model
    mesh = experiment.mesh.build(devices)
    check_batch_size(num_rows, mesh)
    model = jax.eval_shape(lambda key: unrolled(config.build(key)), jax.random.key(0))
    if not can_decode(model):
        raise ValueError(
            f"{type(config).__name__} of this recipe doesn't generate, so there is no decoding to plan"
        )
    graphdef, shapes = parameters.split(model)
    params = with_shardings(parameters.axes_of(model), shapes, mesh)
    rows = batch_sharding(mesh)
    prompts = jax.ShapeDtypeStruct((num_rows, prompt_length), jnp.int32, sharding=rows)

    def prefill(params: Parameters, prompts: jax.Array, mask: jax.Array) -> PyTree:
        model = parameters.merge(graphdef, params)
        return model.prefill(prompts, mask, max_new_tokens=max_new_tokens, start_id=0)

    def choose_token(params: Parameters, tokens: jax.Array, cache: PyTree) -> object:
        logits, cache = parameters.merge(graphdef, params).decode_step(tokens, cache)
        return argmax(logits), cache

    reading = compile_program(
        jax.jit(prefill, keep_unused=True), params, prompts, prompts, topology=topology, mesh=mesh
    )
    with jax.set_mesh(mesh):
        first, cache = jax.eval_shape(prefill, params, prompts, prompts)
    shardings = reading.out_shardings or jax.tree.map(lambda _: rows, (first, cache))
    first, cache = jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        (first, cache),
        shardings,
    )
    token = compile_program(
        jax.jit(choose_token, donate_argnums=2, keep_unused=True),
        params,
        first,
        cache,
        topology=topology,
        mesh=mesh,
    )
    return DecodePlan(
        topology=topology,
        mesh=mesh,
        num_rows=num_rows,
        prompt_length=prompt_length,
        max_new_tokens=max_new_tokens,
        weight_bytes=bytes_per_device(params),
        cache_bytes=bytes_per_device(cache),
        prefill=reading,
        token=token,
    )
