"""Description of this machine: processor, memory, versions. Imports nothing heavy."""

import importlib.metadata
import os
import platform
from pathlib import Path

_PACKAGES = ("jax", "flax", "optax", "seqio", "tensorflow", "t5x-like")


def describe_machine() -> dict[str, str]:
    """Return facts for a report as ``{name: text}``; unavailable ones are left out."""
    facts = {"processor": f"{_processor()}, {_num_cores()} cores usable"}
    memory = _memory_gib()
    if memory:
        facts["memory"] = f"{memory:.0f} GiB"
    facts["system"] = f"{platform.system()} {platform.release()}"
    facts["python"] = platform.python_version()
    for package in _PACKAGES:
        try:
            facts[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return facts


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _num_cores() -> int:
    """Return the number of cores this process may use; in a container, fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_gib() -> float | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (ValueError, OSError, AttributeError):
        return None
