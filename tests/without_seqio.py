"""Programs in which the extra ``seqio`` is absent, whatever is installed."""

import os
import subprocess
import sys
from pathlib import Path

from tests.references import xla_flags

ROOT = Path(__file__).parents[1]
LIBRARIES = ("seqio", "tensorflow", "tensorflow_text", "tensorflow_datasets", "clu", "airio")
_ABSENT = f"import sys; sys.modules.update(dict.fromkeys({LIBRARIES!r}))\n"  # importing one raises


def run_without_seqio(program: str, *arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a program in another process.

    Args:
      program: Its source.
      *arguments: Its ``sys.argv[1:]``.
      folder: Working directory.
    """
    return subprocess.run(
        [sys.executable, "-c", _ABSENT + program, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": xla_flags()},
        timeout=600,
    )
