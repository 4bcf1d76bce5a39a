"""Measure whole builds of a corpus on each engine, with one worker and with two.

    pip install 't5x-like[corpora,ray]'
    apt-get download python3.11-doc anarchism
    python -m benchmarks.corpus_engines --packages python3.11-doc_*.deb anarchism_*.deb --output engines.json

Pages are those of ``corpus_speed.py``, as WET files. Each engine builds the same corpus in turn, several times. The
program's start is left out, and Ray's clusters are there before. A worker of Ray is a node of one processor. The bytes
of all corpora are compared. Prints a JSON object; ``--output`` keeps it.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.corpus_speed import read_texts
from benchmarks.corpus_whole import cut, write_wet_files
from benchmarks.machine import about
from t5x_like.corpora.building.build import build_corpus
from t5x_like.corpora.building.recipe import CorpusRecipe
from t5x_like.gin_config.configuration import load
from t5x_like.io.engine import Engine
from t5x_like.io.engines import ProcessEngine, cluster_engine

RECIPE = "gin/corpora/c4_en_near.gin"
WORKERS = (1, 2)
_STORE = 80 * 2**20  # bytes of a node's object store: no task uses it
TERABYTES = (1, 100)


def main() -> None:
    arguments = parse()
    pages = list(cut(read_texts(arguments.packages)))
    kept = itertools.accumulate(len(page.encode()) for page in pages)
    pages = [page for page, size in zip(pages, kept, strict=True) if size <= arguments.megabytes * 1e6]
    with tempfile.TemporaryDirectory(prefix="corpus_engines") as folder:
        megabytes = write_wet_files(pages, folder) / 1e6
        result = about(num_cores=2) | {
            "recipe": RECIPE,
            "pages": len(pages),
            "megabytes_of_text": round(megabytes, 1),
            "load_average": round(os.getloadavg()[0], 2),
            **measure(folder, megabytes, arguments.rounds),
        }
    print(json.dumps(result, indent=2))
    if arguments.output:
        from t5x_like.io.files import write_json

        write_json(arguments.output, result)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packages", nargs="*", default=[], metavar="DEB", help="Debian packages with HTML")
    parser.add_argument("--megabytes", type=float, default=20.0, help="of text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", metavar="FILE")
    return parser.parse_args()


def measure(folder: str, megabytes: float, rounds: int) -> dict[str, Any]:
    """Build with each engine in turn, so that all meet the same load of the machine."""
    walls: dict[str, list[float]] = {}
    processors: dict[str, list[float]] = {}
    stages: dict[str, float] = {}
    digests = set()
    with contextlib.ExitStack() as opened:
        engines = {f"processes, {count}": process_engine(count) for count in WORKERS}
        engines |= {f"ray, {count}": opened.enter_context(ray_nodes(count)) for count in WORKERS}
        for number, (name, engine) in itertools.product(range(rounds), engines.items()):
            wall, manifest, digest = _build(folder, f"{folder}/{number}-{name}", engine)
            seconds = {stage["name"]: stage["seconds"].get("processor", 0.0) for stage in manifest["stages"]}
            walls.setdefault(name, []).append(wall)
            processors.setdefault(name, []).append(sum(seconds.values()))
            stages = seconds if name == "processes, 1" else stages
            digests.add(digest)
            print(f"{name}: {wall:.1f} s, {sum(seconds.values()):.1f} s of a processor", file=sys.stderr)
    if len(digests) != 1:
        raise SystemExit("the engines wrote different bytes")
    fastest = min(processors["processes, 1"])
    seconds_a_gigabyte = fastest / megabytes * 1e3
    return {
        "rounds": rounds,
        "wall_seconds": {name: _summary(values) for name, values in walls.items()},
        "wall_over_that_of_one_process": {
            name: round(
                statistics.median(a / b for a, b in zip(values, walls["processes, 1"], strict=True)), 2
            )
            for name, values in walls.items()
        },
        "processor_seconds": {name: _summary(values) for name, values in processors.items()},
        "processor_seconds_of_stages": {name: round(value, 2) for name, value in stages.items()},
        "processor_seconds_a_gigabyte": round(seconds_a_gigabyte, 1),
        "core_hours_of_terabytes": {
            str(size): round(seconds_a_gigabyte * 1e3 * size / 3600) for size in TERABYTES
        },
        "same_bytes": True,
    }


def process_engine(count: int) -> Engine:
    return ProcessEngine(num_processes=count, owner="the benchmark", flag="workers", kept="tasks")


@contextlib.contextmanager
def ray_nodes(count: int) -> Iterator[Engine]:
    """Start a cluster of a head without work, and nodes of one processor each."""
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(count):
            cluster.add_node(num_cpus=1, object_store_memory=_STORE)
        yield cluster_engine("ray", ray_address=cluster.address)
    finally:
        cluster.shutdown()


def _build(folder: str, output: str, engine: Engine) -> tuple[float, dict[str, Any], str]:
    """Return seconds, the manifest, and a digest of all shards."""
    recipe: CorpusRecipe = load([RECIPE], [], roots=[CorpusRecipe]).value
    start = time.perf_counter()
    made = build_corpus(recipe, f"{folder}/*.warc.wet.gz", output, engine=engine, progress=False)
    wall = time.perf_counter() - start
    shards = sorted(path for path in Path(output).iterdir() if path.name != "manifest.json")
    digest = hashlib.md5(b"".join(path.read_bytes() for path in shards)).hexdigest()
    return wall, made.manifest, digest


def _summary(values: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 1), "fastest": round(min(values), 1)}


if __name__ == "__main__":
    main()
