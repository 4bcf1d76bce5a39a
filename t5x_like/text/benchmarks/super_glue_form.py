"""Definitions that SuperGLUE's tasks share: the layout of their JSON lines, and a task with its source."""

from collections.abc import Mapping
from typing import Any

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.keyed_template import classification_benchmark
from t5x_like.text.benchmarks.source import BenchmarkSource, Columns, FileLayout, archive
from t5x_like.text.benchmarks.super_glue_json import JsonLines, Parse, flat

_SERVER = "https://dl.fbaipublicfiles.com/glue/superglue/data/v2"
_FOLDERS = ("super_glue", "SuperGLUE", "superglue", "super_glue_data", ".")
_NAMES = {"train": "train", "validation": "val", "test": "test"}


def super_glue_source(
    config: str,
    folder: str,
    *,
    columns: Columns,
    rows: Mapping[str, int],
    sha256: str,
    num_bytes: int,
    parse: Parse | None = None,
    classes: tuple[str, ...] = (),
) -> BenchmarkSource:
    """Define the source of a task.

    Args:
      config: TFDS's configuration name.
      folder: Name of the archive and its folder.
      columns: Columns without label, and without idx if that is one number.
      rows: Published number of rows by split.
      sha256: Checksum of the archive.
      num_bytes: Size of the archive.
      parse: Converts an object to rows; by default the object has the columns.
      classes: Class names in the order of class ids.
    """

    def files(split: str) -> tuple[str, ...]:
        names = [f"{_NAMES[split]}.jsonl"] if len(rows) > 1 else [f"{folder}.jsonl", "test.jsonl"]
        spelled = dict.fromkeys([folder, folder.lower(), folder.replace("-", "")])
        return tuple(f"{root}/{each}/{name}" for root in _FOLDERS for each in spelled for name in names)

    read = JsonLines(parse=parse or flat(*columns), classes=classes)
    label: Columns = {"label": "int"} if classes else {}
    return BenchmarkSource(
        tfds=f"super_glue/{config}:1.0.2",
        layouts=(FileLayout(files={split: files(split) for split in rows}, read=read),),
        rows=rows,
        downloads=archive(f"{_SERVER}/{folder}.zip", "super_glue/", num_bytes, sha256),
        home="https://super.gluebenchmark.com/tasks",
        citation="Wang et al. 2019, SuperGLUE, https://arxiv.org/abs/1905.00537",
        license="each corpus has its own; see https://super.gluebenchmark.com/tasks",
        columns={"idx": "int", **columns, **label},
    )


def super_glue_task(
    folder: str,
    title: str,
    *,
    columns: Columns,
    rows: Mapping[str, int],
    sha256: str,
    num_bytes: int,
    labels: tuple[str, ...],
    word: str = "",
    keys: Mapping[str, str] | None = None,
    examples: tuple[GoldenExample, ...],
    **others: Any,
) -> Benchmark:
    """Define the classification task ``super_glue_<config>_v102``; TFDS's configuration is named after the folder.

    Args:
      folder: Name of the archive and its folder.
      title: One line for people.
      columns: Columns without label, and without idx if that is one number.
      rows: Published number of rows by split.
      sha256: Checksum of the archive.
      num_bytes: Size of the archive.
      labels: Class names in the order of class ids.
      word: First word of the inputs; the configuration's name by default.
      keys: Row columns by the names that the template writes; by default all texts in alphabetical order.
      examples: Golden examples.
      **others: Further arguments of ``classification_benchmark``.
    """
    config = folder.lower().replace("-", "")
    source = super_glue_source(
        config, folder, columns=columns, rows=rows, sha256=sha256, num_bytes=num_bytes, classes=labels
    )
    return classification_benchmark(
        f"super_glue_{config}_v102",
        title,
        word=word or config,
        columns=keys,
        source=source,
        labels=labels,
        examples=examples,
        **others,
    )
