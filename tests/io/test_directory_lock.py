import subprocess
import sys

import pytest

from t5x_like.io.files import exclusive_writer

HOLD = """
import sys
from t5x_like.io.files import exclusive_writer
with exclusive_writer(sys.argv[1], "corpus"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_free_again_once_its_writer_is_killed(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        told = rf"another process is writing the cache {tmp_path}; wait for it"
        with pytest.raises(ValueError, match=told), exclusive_writer(str(tmp_path), "cache"):
            pass
        holder.kill()
    with exclusive_writer(str(tmp_path), "cache"):
        pass


def test_nothing_is_held_in_a_bucket():
    with exclusive_writer("gs://bucket/folder", "corpus"), exclusive_writer("gs://bucket/folder", "corpus"):
        pass
