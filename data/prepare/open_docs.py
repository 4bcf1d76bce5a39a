"""A corpus to pretrain on: documentation, books and dictionaries of Debian packages, cleaned by the project's pipeline.

python -m data.prepare.open_docs --output corpus/open_docs

downloads the packages by ``apt-get download`` (Debian 12; no root, nothing is installed) and needs ``pip install
't5x-like[corpora]'`` and 8 GB of disk. With ``--debs FOLDER`` the packages are read from there.
"""

import argparse
import gzip
import io
import itertools
import json
import multiprocessing
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import zstandard

from data.prepare.open_docs_files import unpack
from data.prepare.open_docs_sources import SOURCES, Source
from data.prepare.splits import shuffle_by_key
from t5x_like.cli.main import main as run_command
from t5x_like.corpora.rules.url_lists import normalize_url, url_digest
from t5x_like.io.files import read_json, read_jsonl, shipped_directory, write_bytes, write_json, write_jsonl

PathLike = str | os.PathLike[str]
Row = dict[str, str]

SEED = 0
RECIPE = "gin/corpora/open_docs.gin"
SPLITS = ("train", "validation", "test")
SAMPLE_BYTES = {"train": 900_000, "validation": 100_000}
MAX_SAMPLE_CHARS = 6_000
STATISTICS, NOTICES = "statistics.json", "copyright.txt.gz"

_NO_COUNTS: dict[str, Counter[str]] = {"documents": Counter(), "characters": Counter()}
_NAME = "open_docs"  # of the folder that the pipeline reads, and so the start of all addresses


def prepare(
    output: PathLike,
    debs: PathLike | None = None,
    *,
    sources: Sequence[Source] = SOURCES,
    workers: int = 1,
    recipe: str = RECIPE,
) -> None:
    """Write ``train-*.jsonl``, ``validation.jsonl``, ``test.jsonl``, a sample of them, and ``statistics.json``.

    Args:
      output: Folder of the corpus.
      debs: Folder with the packages; None downloads them to ``output/debs``.
      sources: The packages.
      workers: Number of processes.
      recipe: Recipe of the corpus.

    Raises:
      ValueError: A package is absent or damaged, or the pipeline failed.
    """
    started = time.monotonic()
    output = Path(output)
    folder = Path(debs) if debs is not None else download(sources, output / "debs")
    packages = find_packages(sources, folder)
    work = output / "work"
    shutil.rmtree(work, ignore_errors=True)
    (output / "copyright").mkdir(parents=True, exist_ok=True)
    calls = (sources, packages, itertools.repeat(work / _NAME), itertools.repeat(output / "copyright"))
    if workers > 1:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            rows = list(pool.map(unpack, *calls))
    else:
        rows = list(map(unpack, *calls))
    unpacked = time.monotonic()
    write_evaluation_texts(shipped_directory("data"), work / "evaluation")
    build(work, output / "pipeline", recipe, workers=workers)
    counts = write_splits(output / "pipeline", output)
    built = time.monotonic()
    write_sample(output, output / "sample")
    statistics = {
        "packages": [row._asdict() | counts.get(row.package, _NO_COUNTS) for row in rows],
        "seconds": {"unpacking": round(unpacked - started), "pipeline": round(built - unpacked)},
        "steps": read_json(output / "pipeline/manifest.json", dict)["steps"],
    }
    for step in statistics["steps"]:
        del step["repeated"], step["rule"]
    write_json(output / STATISTICS, statistics)
    shutil.rmtree(work)


def download(sources: Sequence[Source], folder: Path) -> Path:
    """Download the packages that the folder lacks, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lacking = [source.package for source in sources if not _packages(folder, source)]
    if lacking:
        try:
            subprocess.run(["apt-get", "download", *lacking], cwd=folder, check=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            raise ValueError(
                f"{len(lacking)} packages could not be downloaded by apt-get ({error}); on Debian 12 run "
                "apt-get update, or give a folder of the packages by --debs"
            ) from error
    return folder


def find_packages(sources: Sequence[Source], folder: Path) -> list[Path]:
    """Return the file of each package.

    Args:
      sources: The packages.
      folder: The folder that has them.

    Raises:
      ValueError: A package is absent, or there are several versions of it.
    """
    found = [_packages(folder, source) for source in sources]
    lacking = [source.package for source, files in zip(sources, found, strict=True) if not files]
    if lacking:
        raise ValueError(
            f"{folder} lacks {len(lacking)} of {len(sources)} packages; run there: apt-get download {' '.join(lacking)}"
        )
    several = [files for files in found if len(files) > 1]
    if several:
        names = ", ".join(file.name for file in several[0])
        raise ValueError(f"{folder} has several versions of a package: {names}; keep one")
    return [files[0] for files in found]


def _packages(folder: Path, source: Source) -> list[Path]:
    return sorted(folder.glob(f"{source.package}_*.deb"))


def write_evaluation_texts(data: Path, output: Path) -> None:
    """Write the texts of all held-out rows of the shipped data, one file of strings for each split.

    Args:
      data: Folder of the shipped data.
      output: Folder for the files.
    """
    for file in sorted(data.glob("*/*")):
        if file.stem in ("validation", "test") and file.parent.name != _NAME:
            texts = list(_texts(file))
            write_jsonl(output / f"{file.parent.name}-{file.stem}.jsonl", texts)


def _texts(file: Path) -> Iterator[str]:
    if file.suffix == ".jsonl":
        for row in read_jsonl(file):
            yield from _strings(row)
        return
    lines = file.read_text(encoding="utf-8").splitlines()
    for line in lines[1:] if file.suffix == ".tsv" else lines:
        yield from line.split("\t")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _strings(part)


def build(work: Path, output: Path, recipe: str, *, workers: int) -> None:
    """Build the corpus and its report by the commands that users run.

    Args:
      work: Folder of the documents and evaluation texts.
      output: Folder for the corpus.
      recipe: Its recipe.
      workers: Number of processes.

    Raises:
      ValueError: A command failed; it has said why.
    """
    command = ["corpus", "build", "--recipe", recipe, "--input", str(work / _NAME), "--output", str(output)]
    command += ["--workers", str(workers), "--set", f"EVALUATION_TEXTS={work}/evaluation/*.jsonl"]
    for arguments in (command, ["corpus", "report", str(output)]):
        if run_command(arguments):
            raise ValueError(f"t5x-like {' '.join(arguments)} failed")


def write_splits(pipeline: Path, output: Path) -> dict[str, dict[str, Counter[str]]]:
    """Write the splits as JSON lines; half of the pipeline's held-out pages are the test split.

    Args:
      pipeline: The corpus of the pipeline.
      output: Folder for the splits.

    Returns:
      ``documents`` and ``characters`` of each package, by split.
    """
    shards = _shards(pipeline, "train")
    files = {f"train-{number:05d}-of-{len(shards):05d}": [shard] for number, shard in enumerate(shards)}
    held_out = _shards(pipeline, "validation")
    files |= {"validation": held_out, "test": held_out}
    counts: dict[str, dict[str, Counter[str]]] = {}
    for name, parts in files.items():
        split = name.partition("-")[0]
        rows = [
            row for part in parts for row in _rows(part) if _split(row, is_train=split == "train") == split
        ]
        write_jsonl(output / f"{name}.jsonl", rows)
        for row in rows:
            of_package = counts.setdefault(package_of(row), {"documents": Counter(), "characters": Counter()})
            of_package["documents"][split] += 1
            of_package["characters"][split] += len(row["text"])
    return counts


def _shards(pipeline: Path, split: str) -> list[Path]:
    return sorted(pipeline.glob(f"{split}-*.jsonl.zst"))


def _rows(shard: Path) -> Iterator[Row]:
    with shard.open("rb") as stream, zstandard.ZstdDecompressor().stream_reader(stream) as reader:
        for line in io.TextIOWrapper(reader, encoding="utf-8", newline="\n"):
            yield json.loads(line)


def _split(row: Row, *, is_train: bool) -> str:
    # The pipeline holds out by the digest modulo 1000, which says nothing about the first byte.
    is_test = url_digest(normalize_url(row["url"]))[0] % 2 == 0
    return "train" if is_train else "test" if is_test else "validation"


def package_of(row: Row) -> str:
    """Return the package that a row comes from: the second part of its address."""
    return row["url"].split("/")[1]


def write_sample(corpus: Path, output: Path) -> None:
    """Write about a megabyte of a corpus: documents of all packages in turn, in an order drawn by ``SEED``.

    Licenses ask to keep their notices with copies. So ``copyright.txt.gz`` has the packages' copyright files, and
    packages that keep theirs in another package are left out.

    Args:
      corpus: Folder of the corpus.
      output: Folder for ``train.jsonl`` and ``validation.jsonl``, drawn from the splits of these names.
    """
    notices = {file.name: file.read_bytes() for file in sorted((corpus / "copyright").iterdir())}
    for split, size in SAMPLE_BYTES.items():
        rows = itertools.chain.from_iterable(map(read_jsonl, sorted(corpus.glob(f"{split}*.jsonl"))))
        write_jsonl(
            output / f"{split}.jsonl", draw((row for row in rows if package_of(row) in notices), size)
        )
    text = b"".join(b"== %s ==\n\n%s\n" % (name.encode(), notice) for name, notice in notices.items())
    write_bytes(output / NOTICES, gzip.compress(text, mtime=0))


def draw(rows: Iterable[Row], size: int) -> list[Row]:
    """Return rows of all packages in turn, up to a size, in the order of their addresses.

    Args:
      rows: Rows of a corpus.
      size: Largest sum of the rows' bytes as JSON.
    """
    of_package: dict[str, list[Row]] = {}
    for row in rows:
        if len(row["text"]) <= MAX_SAMPLE_CHARS:
            of_package.setdefault(package_of(row), []).append(row)
    drawn = [
        shuffle_by_key(of_package[package], lambda row: row["url"], seed=SEED)
        for package in sorted(of_package)
    ]
    chosen: list[Row] = []
    for row in (row for turn in itertools.zip_longest(*drawn) for row in turn if row is not None):
        size -= len(json.dumps(row, ensure_ascii=False).encode()) + 1
        if size < 0:
            break
        chosen.append(row)
    return sorted(chosen, key=lambda row: row["url"])


def source_table(statistics: Mapping[str, Any]) -> str:
    """Return the table of sources of the data card.

    Args:
      statistics: Contents of ``statistics.json``.
    """
    licenses = {source.package: source.license for source in SOURCES}
    lines = [
        "| package | version | license | MB in | documents | characters out |",
        "|---|---|---|---:|---:|---:|",
    ]
    for row in statistics["packages"]:
        cells = (
            row["package"],
            row["version"],
            licenses[row["package"]],
            f"{row['bytes'] / 1e6:.1f}",
            f"{sum(row['documents'].values()):,}",
            f"{sum(row['characters'].values()):,}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def split_table(statistics: Mapping[str, Any]) -> str:
    """Return the table of splits of the data card.

    Args:
      statistics: Contents of ``statistics.json``.
    """
    lines = ["| split | documents | characters |", "|---|---:|---:|"]
    for split in SPLITS:
        documents, characters = (
            sum(row[unit].get(split, 0) for row in statistics["packages"])
            for unit in ("documents", "characters")
        )
        lines.append(f"| {split} | {documents:,} | {characters:,} |")
    return "\n".join(lines)


def run(arguments: Sequence[str] | None = None) -> None:
    """Build the corpus as the command line says, and print the tables of the data card.

    Args:
      arguments: Command line; None for this program's.
    """
    parser = argparse.ArgumentParser(
        prog="data.prepare.open_docs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", required=True, metavar="FOLDER", help="folder for the corpus")
    parser.add_argument("--debs", metavar="FOLDER", help="packages that were downloaded before")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (%(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        prepare(options.output, options.debs, workers=options.workers)
    except (ValueError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    statistics = read_json(Path(options.output) / STATISTICS, dict)
    print(split_table(statistics), source_table(statistics), sep="\n\n")


if __name__ == "__main__":
    run()
