"""XLA's compiler for NVIDIA GPUs, which needs JAX's CUDA plugin and no GPU."""

import importlib.util
from typing import NamedTuple

import jax
from jax.experimental import topologies

from t5x_like.planning.chips import GPUS_PER_MACHINE, Chip

_PLUGINS = ("jax_cuda13_plugin", "jax_cuda12_plugin")


class _Multiprocessors(NamedTuple):
    """Hardware limits of a GPU's streaming multiprocessors, which XLA's compiler reads.

    From NVIDIA's CUDA programming guide (https://docs.nvidia.com/cuda/cuda-c-programming-guide/, "Compute
    Capabilities") and the white papers of the A100 and the H100.

    Attributes:
      compute_capability: Major and minor number.
      count: Multiprocessors of a GPU.
      clock_ghz: Highest clock rate.
      cores: For float32, of each.
      shared_memory: Bytes of each.
      shared_memory_of_block: The most bytes that a block may have.
      cache: Bytes of the GPU's L2 cache.
    """

    compute_capability: tuple[int, int]
    count: int
    clock_ghz: float
    cores: int
    shared_memory: int
    shared_memory_of_block: int
    cache: int


_KIB, _MIB = 2**10, 2**20
_AMPERE = _Multiprocessors((8, 0), 108, 1.41, 64, 164 * _KIB, 163 * _KIB, 40 * _MIB)
_HOPPER = _Multiprocessors((9, 0), 132, 1.98, 128, 228 * _KIB, 227 * _KIB, 50 * _MIB)
_BLACKWELL = _Multiprocessors((10, 0), 148, 1.965, 128, 228 * _KIB, 227 * _KIB, 126 * _MIB)
_MULTIPROCESSORS = {"a100": _AMPERE, "h100": _HOPPER, "h200": _HOPPER, "b200": _BLACKWELL}


def is_installed() -> bool:
    """Return True if JAX's CUDA plugin is installed; nothing is imported."""
    return any(importlib.util.find_spec(name) is not None for name in _PLUGINS)


def absent_gpus(chip: Chip, num_gpus: int) -> list[object]:
    """Return GPUs to compile for, which can't run anything.

    Args:
      chip: Their figures.
      num_gpus: How many; beyond one machine's, full machines are assumed where the number allows.

    Raises:
      ValueError: JAX can't use the plugin.
    """
    per_machine = GPUS_PER_MACHINE if num_gpus % GPUS_PER_MACHINE == 0 else num_gpus
    try:
        description = topologies.get_topology_desc(
            platform="cuda",
            topology=f"1x{num_gpus // per_machine}x{per_machine}",  # partitions, machines, GPUs of a machine
            target_config=_target_config(chip),
        )
    except NotImplementedError:
        raise ValueError(
            f"JAX {jax.__version__} can't use the CUDA plugin that is installed, so there is no compiler for "
            f"{chip.name}; pip install 't5x-like[gpu]' brings the plugin that belongs to this JAX"
        ) from None
    return list(description.devices)


def _target_config(chip: Chip) -> str:
    """Return XLA's description of a GPU (``GpuTargetConfigProto``, as text)."""
    units = _MULTIPROCESSORS[chip.name]
    major, minor = units.compute_capability
    return f"""
        platform_name: "CUDA"
        device_description_str: "{chip.device_kind}"
        dnn_version_info {{ major: 9 minor: 8 }}
        runtime_version {{ major: 12 minor: 8 }}
        gpu_device_info {{
            cuda_compute_capability {{ major: {major} minor: {minor} }}
            core_count: {units.count}
            clock_rate_ghz: {units.clock_ghz}
            fpus_per_core: {units.cores}
            shared_memory_per_core: {units.shared_memory}
            shared_memory_per_block: {48 * _KIB}
            shared_memory_per_block_optin: {units.shared_memory_of_block}
            l2_cache_size: {units.cache}
            device_memory_size: {int(chip.memory_bytes)}
            memory_bandwidth: {int(chip.memory_bytes_per_second)}
            threads_per_warp: 32
            threads_per_block_limit: 1024
            threads_per_core_limit: 2048
            registers_per_core_limit: 65536
            registers_per_block_limit: 65536
            block_dim_limit_x: 2147483647
            block_dim_limit_y: 65535
            block_dim_limit_z: 65535
        }}
    """
