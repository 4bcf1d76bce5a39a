"""Where tests find the repository, its reference values, and the larger sets that may lie beside it."""

import os
import socket
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
FIXTURES = ROOT / "tests/fixtures"


def xla_flags(num_devices: int = 1) -> str:
    """Return ``XLA_FLAGS`` for tests, which compile much and compute little.

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


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def references() -> Path:
    """The folder of reference inputs and outputs: the larger set where there is one, else the repository's own.

    ``T5X_LIKE_REFERENCES`` names another folder of the same layout; ``tests/fixtures`` tests what a clone alone tests.
    """
    named = os.environ.get("T5X_LIKE_REFERENCES")
    if named:
        return (ROOT / named).resolve()
    larger = SHARED / "golden"
    return larger if larger.is_dir() else FIXTURES


GOLDEN = references()
