"""A function compiled ahead of time for a topology, and what its program needs of one device."""

import re
import time
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from t5x_like.partitioning.mesh import sizes_of_slices
from t5x_like.planning.device_groups import MeshShape
from t5x_like.planning.program_counts import LargeArray, ProgramCounts, count, largest_arrays
from t5x_like.planning.roofline import Roofline, roofline
from t5x_like.planning.topology import Topology

_NUM_LARGEST = 6
_USED = re.compile(r"[Uu]sed ([\d.]+)([KMGT]?) of |required for HLO temporaries \(([\d.]+)([KMGT]?)\)")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class DeviceProgram(NamedTuple):
    """One device's program.

    Attributes:
      peak: Bytes in use at once, as the compiler has planned them; 0 if it gave no program and no number.
      largest: The largest arrays that the program computes.
      counts: ``None`` if the program doesn't fit and there is none.
      roofline: Bounds of its time; ``None`` without counts or without a data sheet.
      compile_seconds: Time to compile here.
      refusal: The compiler's words if it found no way to fit the program.
      out_shardings: Shardings of the results.
    """

    peak: int
    largest: tuple[LargeArray, ...]
    counts: ProgramCounts | None
    roofline: Roofline | None
    compile_seconds: float
    refusal: str = ""
    out_shardings: Any = None


def compile_program(jitted: Any, *arguments: Any, topology: Topology, mesh: Mesh) -> DeviceProgram:
    """Compile a jitted function for abstract arguments with shardings.

    Args:
      jitted: Function made by ``jax.jit``.
      *arguments: Shapes with shardings.
      topology: The devices.
      mesh: Their arrangement, which is set while tracing.
    """
    start = time.perf_counter()
    try:
        with jax.set_mesh(mesh):
            compiled = _compiled(jitted.lower(*arguments), topology)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        refusal = str(error)
        return DeviceProgram(_refused_peak(refusal), (), None, None, time.perf_counter() - start, refusal)
    seconds = time.perf_counter() - start
    text = _text_of(compiled, topology)
    # Each TPU slice has a program of its own, whose collectives are among its devices.
    sizes, _ = sizes_of_slices(mesh.devices.shape, topology.num_slices)
    counts = count(text, MeshShape(tuple(mesh.axis_names), sizes))
    memory = compiled.memory_analysis()
    external_bytes = memory.argument_size_in_bytes + memory.output_size_in_bytes
    return DeviceProgram(
        _peak_bytes(memory, is_tpu=topology.chip.kind == "tpu"),
        tuple(largest_arrays(text, _NUM_LARGEST)),
        counts,
        roofline(counts, topology, mesh, external_bytes=external_bytes),
        seconds,
        out_shardings=compiled.output_shardings,
    )


def _compiled(lowered: Any, topology: Topology) -> Any:
    """Compile; for GPUs without kernels by Triton where XLA finds none of those for a product.

    On a GPU it would measure some, and take cuBLAS's.
    """
    try:
        return lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        if topology.chip.kind != "gpu" or "tile sizes" not in str(error):
            raise
        return lowered.compile(compiler_options={"xla_gpu_enable_triton_gemm": False})


def _text_of(compiled: Any, topology: Topology) -> str:
    try:
        return compiled.as_text()
    except jax.errors.JaxRuntimeError as error:
        if "RET_CHECK" not in str(error):
            raise
        raise ValueError(
            f"JAX {jax.__version__} can't read the program that libtpu compiled for {topology.text}: this libtpu "
            "belongs to another JAX; pip install 't5x-like[plan]' brings the right one"
        ) from None


def _peak_bytes(memory: Any, *, is_tpu: bool) -> int:
    """Return the bytes in use at once: the compiler's plan; sums for CPUs, where that lacks temporaries."""
    if is_tpu:
        return int(memory.peak_memory_in_bytes)
    results = memory.output_size_in_bytes - memory.alias_size_in_bytes
    return int(memory.argument_size_in_bytes + results + memory.temp_size_in_bytes)


def _refused_peak(refusal: str) -> int:
    """Return the bytes that the compiler says it would need, at least; 0 if it doesn't say."""
    match = _USED.search(refusal)
    if not match:
        return 0
    return int(float(match[1] or match[3]) * _UNITS[match[2] or match[4] or ""])
