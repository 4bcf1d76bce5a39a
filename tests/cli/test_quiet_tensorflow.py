"""TensorFlow's greetings are kept off stderr, its errors are not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(("ending", "shown"), [("", False), ("raise ImportError('broken')", True)])
def test_what_an_import_says_is_shown_only_if_it_fails(tmp_path: Path, ending: str, shown: bool) -> None:
    # A small stand-in under the real name: what matters is who writes to file descriptor 2, not what TensorFlow does.
    (tmp_path / "tensorflow.py").write_text(f"import os\nos.write(2, b'greetings from C++')\n{ending}\n")
    code = (
        "from t5x_like.cli.quiet_tensorflow import quiet_tensorflow\n"
        "quiet_tensorflow(); quiet_tensorflow()\n"
        "import tensorflow, sys; sys.stderr.write('afterwards'); assert tensorflow.os\n"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.returncode != 0) == shown
    assert ("greetings" in done.stderr) == shown
    assert ("afterwards" in done.stderr) != shown
