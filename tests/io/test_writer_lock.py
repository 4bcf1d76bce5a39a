"""A folder has one writer, which the message names; a writer that is gone is no obstacle."""

import fcntl
import os
import re
import socket
import subprocess
import sys
import time

import pytest

from t5x_like.io.files import read_json, write_json
from t5x_like.io.writer_lock import current_writer, exclusive_writer

HOLD = """
import sys
from t5x_like.io.writer_lock import exclusive_writer
with exclusive_writer(sys.argv[1], "run", signed=sys.argv[2] == "signed"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("signed", [True, False])
def test_a_lock_is_released_when_its_writer_is_killed(tmp_path, signed):
    command = [sys.executable, "-c", HOLD, str(tmp_path), "signed" if signed else "unsigned"]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        who = f" (host {socket.gethostname()}, pid {holder.pid})" if signed else ""
        message = re.escape(f"another process{who} is writing the run {tmp_path}; wait for it or stop it")
        with pytest.raises(ValueError, match=message), exclusive_writer(str(tmp_path), "run", signed=signed):
            pass
        holder.kill()
    with exclusive_writer(str(tmp_path), "run", signed=signed):
        pass
    assert not list(tmp_path.iterdir())


def test_the_current_writer_is_named_until_it_ends(tmp_path):
    assert current_writer(str(tmp_path)) is None
    with exclusive_writer(str(tmp_path), "run", signed=True):
        result = current_writer(str(tmp_path))
        assert result is not None
        assert (result["host"], result["pid"]) == (socket.gethostname(), os.getpid())
    assert current_writer(str(tmp_path)) is None
    write_json(tmp_path / "writer.json", {"host": "elsewhere", "pid": 7, "renewed": time.time()})
    assert current_writer(str(tmp_path)) is None  # nobody holds the lock
    with exclusive_writer(str(tmp_path), "run", signed=True):  # and asking has not taken it
        pass


def test_a_folder_that_is_made_for_nothing_is_removed(tmp_path):
    with exclusive_writer(str(tmp_path / "new"), "run", signed=True):
        assert read_json(tmp_path / "new" / "writer.json")["pid"] == os.getpid()
    assert not (tmp_path / "new").exists()


def test_without_locks_a_signature_counts_while_it_is_renewed(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    signature = {"host": "elsewhere", "pid": 7, "renewed": time.time() - 20}
    write_json(tmp_path / "writer.json", signature)
    message = r"\(host elsewhere, pid 7\) is writing the run .* if it is gone, try again in (40|39) s"
    with pytest.raises(ValueError, match=message), exclusive_writer(str(tmp_path), "run", signed=True):
        pass
    assert (current_writer(str(tmp_path)) or {})["pid"] == 7
    write_json(tmp_path / "writer.json", signature | {"renewed": time.time() - 61})
    assert current_writer(str(tmp_path)) is None
    with exclusive_writer(str(tmp_path), "run", signed=True):
        assert read_json(tmp_path / "writer.json")["pid"] == os.getpid()
    (tmp_path / "writer.json").write_text('{"host":')
    with exclusive_writer(str(tmp_path), "run", signed=True):
        pass


def test_a_signature_is_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr("t5x_like.io.writer_lock._RENEWED_EVERY_SECONDS", 0.01)
    monkeypatch.setattr("t5x_like.io.writer_lock._lock", lambda *_: False)
    with exclusive_writer(str(tmp_path), "run", signed=True):
        first = read_json(tmp_path / "writer.json")["renewed"]
        for _ in range(500):
            if read_json(tmp_path / "writer.json")["renewed"] > first:
                break
            time.sleep(0.01)
        assert read_json(tmp_path / "writer.json")["renewed"] > first


def test_buckets_are_not_locked():
    with exclusive_writer("gs://bucket/folder", "corpus"), exclusive_writer("gs://bucket/folder", "corpus"):
        pass
