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


def test_a_lock_is_released_when_its_writer_is_killed(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        message = rf"another process is writing the cache {tmp_path}; wait for it"
        with pytest.raises(ValueError, match=message), exclusive_writer(str(tmp_path), "cache"):
            pass
        holder.kill()
    with exclusive_writer(str(tmp_path), "cache"):
        pass


def test_buckets_are_not_locked():
    with exclusive_writer("gs://bucket/folder", "corpus"), exclusive_writer("gs://bucket/folder", "corpus"):
        pass
