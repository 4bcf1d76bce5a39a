"""Measure whole builds of a corpus, from WET files to shards, on one core and on two. Part of ``corpus_speed.py``."""

import gzip
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

NUM_FILES = 16
WEB_CHARS = 6000  # characters a page of Common Crawl has on average, about
RECIPES = {"exact": "gin/corpora/c4_en.gin", "fast": "gin/corpora/c4_en_fast.gin"}


class Run(NamedTuple):
    """Seconds of a build, its child processes included."""

    wall: float
    processor: float
    peak_mib: float
    manifest: dict[str, Any]
    urls: frozenset[str]  # of the pages that it kept


def measure_whole(
    texts: Sequence[str], rules: Mapping[str, Callable[[str], Any]], seconds: float
) -> dict[str, Any]:
    """Measure builds, and ``rules`` of C4 for single pages: functions of a page's text, one the "reference"."""
    measured: dict[str, Any] = {}
    for kind, pages in (
        ("pages as they are", list(texts)),
        (f"cut to {WEB_CHARS} characters", list(cut(texts))),
    ):
        measured[kind] = _measure(pages, rules, seconds)
        print(f"{kind}: {json.dumps(measured[kind])}", file=sys.stderr)
    return measured


def cut(texts: Sequence[str], limit: int = WEB_CHARS) -> Iterator[str]:
    """Return pieces of whole lines, none much longer than ``limit``."""
    for text in texts:
        piece, size = [], 0
        for line in text.splitlines():
            piece.append(line)
            size += len(line) + 1
            if size >= limit:
                yield "\n".join(piece)
                piece, size = [], 0
        if piece:
            yield "\n".join(piece)


def _measure(
    pages: Sequence[str], rules: Mapping[str, Callable[[str], Any]], seconds: float
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="corpus_speed") as folder:
        megabytes = write_wet_files(pages, folder) / 1e6
        one = {name: _build(recipe, folder, workers=1) for name, recipe in RECIPES.items()}
        rates = {name: rate_over_all(pages, work, seconds) for name, work in rules.items()}
        two = _build(RECIPES["fast"], folder, workers=2)
    exact, fast, plain = one["exact"], one["fast"], rates["reference"]
    return {
        "pages": len(pages),
        "megabytes_of_text": round(megabytes, 1),
        "mean_bytes_a_page": round(megabytes * 1e6 / len(pages)),
        "load_average": round(os.getloadavg()[0], 2),
        "rules_megabytes_per_second": {name: round(rate, 2) for name, rate in rates.items()},
        "rules_times_the_reference": {
            name: round(rate / plain, 1) for name, rate in rates.items() if name != "reference"
        },
        **{f"{name}_build": _figures(run, megabytes, plain) for name, run in one.items()},
        "kept_by": {
            "both": len(exact.urls & fast.urls),
            "exact_alone": len(exact.urls - fast.urls),
            "fast_alone": len(fast.urls - exact.urls),
            "same_verdict": round(1 - len(exact.urls ^ fast.urls) / len(pages), 4),
        },
        "fast_build_by_two_workers": {
            "wall_seconds": round(two.wall, 1),
            "wall_seconds_of_one_worker": round(fast.wall, 1),
            "processor_seconds": round(two.processor, 1),
            "processor_seconds_of_one_worker": round(fast.processor, 1),
        },
    }


def _figures(run: Run, megabytes: float, plain: float) -> dict[str, Any]:
    stages = run.manifest["stages"]
    in_tasks = sum(stage["seconds"]["processor"] for stage in stages)
    between = sum(stage["bytes"] for stage in stages)
    return {
        "megabytes_per_second": round(megabytes / run.processor, 2),
        "without_starting": round(megabytes / in_tasks, 2),
        "times_the_reference": round(megabytes / run.processor / plain, 1),
        "processor_seconds": round(run.processor, 2),
        "seconds_of_stages": {stage["name"]: stage["seconds"]["processor"] for stage in stages},
        "peak_mebibytes": round(run.peak_mib),
        "bytes_between_stages_a_raw_byte": round(between / 1e6 / megabytes, 3),
        "bytes_written_a_raw_byte": round(
            sum(split["bytes"] for split in run.manifest["splits"].values()) / 1e6 / megabytes, 3
        ),
        "kept_share_of_pages": round(len(run.urls) / run.manifest["input"]["pages"], 3),
    }


def write_wet_files(pages: Sequence[str], folder: str) -> int:
    """Write the pages as WET files, a gzip member each, as Common Crawl's; return the bytes of their text."""
    size = 0
    for index in range(min(NUM_FILES, len(pages))):
        with open(f"{folder}/{index:05d}.warc.wet.gz", "wb") as file:
            for place in range(index, len(pages), NUM_FILES):
                body = pages[place].encode()
                size += len(body)
                head = (
                    f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: https://s{place % 997}.example/{place}\r\n"
                    "WARC-Date: 2019-04-20T00:00:00Z\r\nContent-Type: text/plain\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n"
                )
                file.write(gzip.compress(head.encode() + body + b"\r\n\r\n", mtime=0))
    return size


def rate_over_all(pages: Sequence[str], work: Callable[[str], Any], seconds: float) -> float:
    """Return 10^6 bytes per CPU second, on pages from all over the input."""
    size, step = 0, max(1, len(pages) // 997)
    order = itertools.cycle(itertools.chain.from_iterable(range(s, len(pages), step) for s in range(step)))
    for place in itertools.islice(order, 20):  # warm
        work(pages[place])
    start = time.process_time()
    while time.process_time() - start < seconds:
        page = pages[next(order)]
        work(page)
        size += len(page.encode())
    return size / 1e6 / (time.process_time() - start)


def _build(recipe: str, folder: str, *, workers: int) -> Run:
    output = f"{folder}/corpus"
    command = [str(Path(sys.executable).with_name("t5x-like")), "corpus", "build"]
    command += ["--recipe", recipe, "--input", f"{folder}/*.warc.wet.gz", "--output", output]
    command += ["--workers", str(workers)]
    cores = sorted(os.sched_getaffinity(os.getppid()))[:workers]
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, cores)
    )
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    manifest = json.loads(Path(output, "manifest.json").read_text())
    urls = frozenset(_urls(output))
    shutil.rmtree(output)
    return Run(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, manifest, urls)


def _urls(output: str) -> Iterator[str]:
    import zstandard

    for shard in Path(output).glob("*.jsonl.zst"):
        with zstandard.open(shard, "rt", encoding="utf-8") as lines:
            yield from (json.loads(line)["url"] for line in lines)
