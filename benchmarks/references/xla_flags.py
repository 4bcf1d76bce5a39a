"""Flags of XLA for programs that compile much and compute little."""

from importlib.metadata import version


def xla_flags(num_devices: int = 1) -> str:
    """Return ``XLA_FLAGS`` for tests and comparisons, which compile much and compute little.

    Without optimization they take a quarter of the time, with XLA's older emitters of fused operations half of it, and
    without parts of a program that compile in parallel nine tenths.

    Args:
      num_devices: Simulated devices.
    """
    flags = {
        "xla_force_host_platform_device_count": num_devices,
        "xla_llvm_disable_expensive_passes": "true",
        "xla_backend_optimization_level": 0,
        "xla_cpu_parallel_codegen_split_count": 1,
    }
    if version("jaxlib").startswith("0.10."):
        flags["xla_cpu_use_fusion_emitters"] = (
            "false"  # a process ends at a flag that its version doesn't know
        )
    return " ".join(f"--{name}={value}" for name, value in flags.items())
