"""Where tests find the repository, its reference values, and the larger sets that may lie beside it."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
FIXTURES = ROOT / "tests/fixtures"


def xla_flags(num_devices: int = 1) -> str:
    """Return ``XLA_FLAGS`` for tests, which compile much and compute little.

    Without optimization they take a quarter of the time, and with XLA's older emitters of fused operations half of it.

    Args:
      num_devices: Simulated devices.
    """
    return (
        f"--xla_force_host_platform_device_count={num_devices} --xla_llvm_disable_expensive_passes=true "
        "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    )


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
