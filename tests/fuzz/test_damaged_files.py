"""Damaged files of every format, in a process of their own: none hangs, exhausts memory or ends in a traceback."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fuzz import mutated
from tests.references import ROOT

SHORT, LONG = 120, 100_000  # inputs


def fuzz(output: Path, *flags: str, timeout: float) -> dict:
    command = [sys.executable, "-m", "benchmarks.fuzz", f"--output={output}", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout)
    assert (output / "results.json").exists(), done.stderr[-3000:]
    return json.loads((output / "results.json").read_text())


@pytest.mark.slow
def test_readers_read_or_refuse_by_the_files_name(tmp_path: Path) -> None:
    result = fuzz(tmp_path, f"--inputs={SHORT}", timeout=300)
    failures = {
        name: text[-600:] for each in result["formats"].values() for name, text in each["failures"].items()
    }
    assert failures == {}
    assert result["inputs"] >= SHORT
    assert all(
        each["refused"] and each["read"] + each["refused"] == each["inputs"]
        for each in result["formats"].values()
    )


@pytest.mark.slow
def test_readers_read_or_refuse_many_more(tmp_path: Path) -> None:
    assert fuzz(tmp_path, f"--inputs={LONG}", "--seed=1", timeout=3 * 3600)["failed"] == 0


def test_the_same_seed_damages_a_file_in_the_same_way() -> None:
    whole = b'{"a": [1, 2, {"b": "c"}], "d": null}'
    first, second = ([mutated(whole, random.Random(index)) for index in range(200)] for _ in range(2))
    assert first == second
    assert len(set(first)) > 100
