"""Memory doesn't grow with the corpus: gigabytes of synthetic pages, built as a user would."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zstandard

RECIPE = """
from __gin__ import dynamic_registration
from t5x_like.corpora.building import recipe
from t5x_like.corpora.duplicates import duplicate_lines
from t5x_like.corpora.rules import cleaning
from t5x_like.corpora.rules import size_rules
recipe.CorpusRecipe:
    name = 'large'
    steps = (@size_rules.MaxLength(), @recipe.UniqueUrls(), @cleaning.C4Cleaning(), @duplicate_lines.DuplicateLines())
"""
WORDS = (
    "harbour",
    "town",
    "was",
    "built",
    "by",
    "people",
    "who",
    "never",
    "saw",
    "any",
    "ship",
    "arrive",
    "before",
)


def write_crawl(folder: Path, num_bytes: int, num_files: int) -> None:
    """Write pages that share a third of their lines, one on every page; a tenth of the pages come twice."""
    random_ = random.Random(0)
    common = [f"Report {n} says {' '.join(random_.choices(WORDS, k=12))}." for n in range(200_000)]
    number = 0
    for file in range(num_files):
        compressor = zstandard.ZstdCompressor(level=1)
        with open(folder / f"{file:02d}.jsonl.zst", "wb") as raw, compressor.stream_writer(raw) as stream:
            written = 0
            while written < num_bytes // num_files:
                number += 1
                own = [f"Page {number}: {line}" for line in random_.choices(common, k=20)]
                text = "\n".join(
                    [*own, *random_.choices(common, k=10), "This line is on every page of them."]
                )
                url = f"http://example.org/{number if number % 10 else number // 2}"
                stream.write(json.dumps({"url": url, "text": text}).encode() + b"\n")
                written += len(text)


def memory_of(pid: int) -> int:
    """Return the bytes of a process and its children, shared memory counted once."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    status = Path(f"/proc/{pid}/smaps_rollup").read_text()
    own = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("Pss:"))
    return own + sum(map(_memory_or_nothing, map(int, children)))


def _memory_or_nothing(pid: int) -> int:
    try:
        return memory_of(pid)
    except (OSError, StopIteration):  # it has just ended
        return 0


@pytest.mark.slow
def test_five_gigabytes_on_two_cores_stay_below_two(tmp_path):
    gigabytes = float(os.environ.get("T5X_LIKE_TEST_GIGABYTES", "5"))
    (tmp_path / "in").mkdir()
    (tmp_path / "large.gin").write_text(RECIPE)
    write_crawl(tmp_path / "in", int(gigabytes * 1e9), 12)
    program = "from t5x_like.cli.main import run_and_exit; run_and_exit()"
    command = [sys.executable, "-c", program, "corpus", "build", "--recipe", str(tmp_path / "large.gin")]
    flags = ["--input", f"{tmp_path}/in/*.zst", "--output", f"{tmp_path}/out", "--workers", "2"]
    process, most = subprocess.Popen([*command, *flags]), 0
    start = time.monotonic()
    while process.poll() is None:
        most = max(most, _memory_or_nothing(process.pid))
        time.sleep(0.2)
    assert process.returncode == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    seconds = {stage["name"]: stage["seconds"]["processor"] for stage in manifest["stages"]}
    message = (
        f"{most / 1e9:.2f} GB at most, {time.monotonic() - start:.0f} s; seconds of processors: {seconds}"
    )
    sys.stderr.write(message + "\n")
    assert manifest["splits"]["train"]["pages"] > 0
    assert manifest["input"]["chars"] >= gigabytes * 1e9
    assert most < 2e9
