"""Time of a train step and of generation on the devices that are here, with random tokens."""

import ctypes
import gc
import re
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from t5x_like.batch import Batch, DataField
from t5x_like.model import parameters
from t5x_like.partitioning.shard import place
from t5x_like.planning.chips import GIB, chip_of
from t5x_like.planning.device_groups import MeshShape
from t5x_like.planning.program_counts import count
from t5x_like.planning.roofline import operation_seconds
from t5x_like.planning.traced_flops import computed_once, traced_flops
from t5x_like.training.hooks import peak_memory
from t5x_like.training.losses import LossConfig
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.state import StateLayout, new_state, plan_state, shardings_of
from t5x_like.training.step import train_step

_LOSS = LossConfig()
_MASKED = 0.15  # of an encoder's tokens (Devlin et al. 2019, section 3.1)


def random_batch(rows: Batch, *, batch_size: int, vocab_size: int, seed: int = 0) -> Batch:
    """Return a batch of full rows of random tokens. Encoders predict 15 % of theirs, other models all of their targets.

    Args:
      rows: one row of each stream, for shapes and types.
      batch_size: rows of the batch.
      vocab_size: token ids are drawn from 2 to this.
      seed: of the draws.
    """
    rng = np.random.default_rng(seed)

    def fill(field: DataField, row: np.ndarray) -> np.ndarray:
        name, shape = field.name, (batch_size, *row.shape[1:])
        if name.endswith("tokens"):
            return rng.integers(2, vocab_size, shape, dtype=np.int32)
        if name.endswith("positions") or name == "ranks":
            return np.broadcast_to(np.arange(shape[-1], dtype=row.dtype), shape).copy()
        if name == "loss_weights" and rows.decoder_input_tokens is None:
            return (rng.random(shape) < _MASKED).astype(row.dtype)
        is_on = name.endswith("segment_ids") or name in ("loss_weights", "attention_mask")
        return np.full(shape, int(is_on), row.dtype)

    return rows.map(fill)


def empty_rows(inputs_length: int, targets_length: int) -> Batch:
    """Return one row of each stream that a model reads; a length is 0 for a model without that stack."""
    inputs, targets = (np.zeros((1, length), np.int32) for length in (inputs_length, targets_length))
    streams = {}
    if inputs_length:
        streams |= {"encoder_input_tokens": inputs, "encoder_segment_ids": inputs}
    if targets_length:
        streams |= {"decoder_input_tokens": targets, "decoder_segment_ids": targets}
    learned = targets if targets_length else inputs
    return Batch(**streams, target_tokens=learned, loss_weights=learned.astype(np.float32))


class CompiledStep(NamedTuple):
    """A train step's program.

    Attributes:
      plan: shapes and shardings of the state.
      program: the compiled step.
      batch: its batch, on the devices.
      model_flops: of the step's matrix products, without what remat or attention computes again.
      compile_seconds: the time to compile it.
    """

    plan: StateLayout
    program: Any
    batch: Batch
    model_flops: float
    compile_seconds: float


def compile_step(
    model: Any,
    optimizer: Any,
    batch: Batch,
    mesh: Mesh,
    *,
    loss: LossConfig = _LOSS,
    num_microbatches: int = 1,
    num_tasks: int = 1,
) -> CompiledStep:
    """Compile the train step of a model's configuration."""

    def step_of(model: Any, *, in_parts: bool) -> tuple[StateLayout, Any]:
        plan = plan_state(model, optimizer, mesh, num_tasks=num_tasks, batch_size=len(batch.loss_weights))
        method = Supervised(loss=loss)
        return plan, train_step(plan, method, seed=0, num_microbatches=num_microbatches, in_parts=in_parts)

    plan, step = step_of(model, in_parts=True)
    counted, counted_step = step_of(computed_once(model), in_parts=False)
    jitted = jax.jit(step, donate_argnums=0, out_shardings=shardings_of(plan.abstract))
    with jax.set_mesh(mesh):
        placed = place(batch, mesh)
        model_flops = traced_flops(counted_step, counted.abstract, placed)
        start = time.perf_counter()
        program = jitted.lower(plan.abstract, placed).compile()
        return CompiledStep(plan, program, placed, model_flops, time.perf_counter() - start)


class StepTime(NamedTuple):
    """Seconds of a step, and processor seconds of all threads, which other work on the machine changes little."""

    seconds: float
    processor_seconds: float


def run_steps(step: CompiledStep, model: Any, mesh: Mesh, num_steps: int) -> list[StepTime]:
    """Return the time of each of ``num_steps`` steps from fresh weights, after one more that warms caches up."""
    with jax.set_mesh(mesh):
        return run_from(step, new_state(step.plan, model, seed=0), num_steps)


def run_from(step: CompiledStep, state: Any, num_steps: int) -> list[StepTime]:
    """Return the time of each of ``num_steps`` steps from a state, which is used up, after one more."""
    times = []
    for _ in range(num_steps + 1):
        start, processor_start = time.perf_counter(), time.process_time()
        state = jax.block_until_ready(step.program(state, step.batch))
        times.append(StepTime(time.perf_counter() - start, time.process_time() - processor_start))
    return times[1:]


def time_train_step(
    model: Any, optimizer: Any, batch: Batch, mesh: Mesh, *, num_steps: int, **options: Any
) -> dict[str, Any]:
    """Compile the train step of a model's configuration, and run it ``num_steps`` times, waiting for each.

    Args:
      model: the configuration.
      optimizer: its optimizer.
      batch: full rows.
      mesh: the devices.
      num_steps: steps to time.
      **options: further arguments of ``compile_step``.
    """
    step = compile_step(model, optimizer, batch, mesh, **options)
    times = run_steps(step, model, mesh, num_steps)
    seconds = [each.seconds for each in times]
    median, device = statistics.median(seconds), mesh.devices.flat[0]
    chip = chip_of(device.device_kind)
    streams = (batch.encoder_input_tokens, batch.decoder_input_tokens)
    num_tokens = sum(stream.size for stream in streams if stream is not None)
    shape = MeshShape(tuple(mesh.axis_names), tuple(mesh.devices.shape))
    counts = count(step.program.as_text() or "", shape)
    return {
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(parameters.abstract(model)[1])),
        "rows": len(batch.loss_weights),
        "tokens": num_tokens,
        "num_microbatches": options.get("num_microbatches", 1),
        "compute_dtype": model.compute_dtype,
        "remat": getattr(model, "remat", "none"),
        "mesh": dict(mesh.shape),
        "compile_seconds": round(step.compile_seconds, 2),
        "seconds_per_step": {"median": median, "fastest": min(seconds), "slowest": max(seconds)},
        "processor_seconds_per_step": statistics.median(each.processor_seconds for each in times),
        "tokens_per_second": num_tokens / median,
        "model_flops": step.model_flops,
        # With what rematerialization computes again.
        "compiled_flops_per_device": counts.flops,
        "least_seconds_per_step": None if chip is None else operation_seconds(counts, chip),
        "model_flops_per_second": step.model_flops / median,
        "model_flops_utilization": None
        if chip is None
        else step.model_flops / median / (chip.flops_per_second * mesh.size),
        "memory": memory(device, step.program),
        "device": device.device_kind,
        "steps_timed": num_steps,
    }


def time_calls(function: Callable[[], Any], num_calls: int) -> float:
    """Return the median of the seconds that a function takes, after a first call that compiles it."""
    jax.block_until_ready(function())
    seconds = []
    for _ in range(num_calls):
        start = time.perf_counter()
        jax.block_until_ready(function())
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def grown_gib(function: Callable[[], Any]) -> tuple[Any, float]:
    """Call a function; return its result, and by how many GiB the process grew at most. For Linux with glibc."""
    status = Path("/proc/self/status")

    def size(name: str) -> int:
        (kib,) = re.findall(rf"{name}:\s+(\d+) kB", status.read_text())
        return int(kib)

    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # memory that is free but kept would not count as growth
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak becomes the present size
    before = size("VmRSS")
    result = function()
    return result, (size("VmHWM") - before) * 1024 / GIB


def memory(device: Any, compiled: Any) -> dict[str, float]:
    """Return peak memory in GiB: by the device, by the compiler's plan, and of the process."""
    planned = compiled.memory_analysis()
    known = {"process_peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB}
    known |= peak_memory(device)
    if planned is not None:
        known["compiled_arguments_gib"] = planned.argument_size_in_bytes / GIB
        known["compiled_temporaries_gib"] = planned.temp_size_in_bytes / GIB
    return known
