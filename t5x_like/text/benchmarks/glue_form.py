"""Definitions that GLUE's tasks share: the layout of their tables, and a task with its source."""

from collections.abc import Mapping, Sequence

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample, MetricFunction
from t5x_like.text.benchmarks.keyed_template import classification_benchmark
from t5x_like.text.benchmarks.source import BenchmarkSource, Columns, Download, FileLayout, archive
from t5x_like.text.benchmarks.tsv import Table
from t5x_like.text.metrics import accuracy

FOLDERS = ("glue", "GLUE", "glue_data", ".")
MNLI_LABELS = ("entailment", "neutral", "contradiction")
ENTAILMENT = ("entailment", "not_entailment")
SENTENCES = {"sentence1": "sentence1", "sentence2": "sentence2"}
_FILES = {"train": ("train.tsv",), "validation": ("dev.tsv",), "test": ("test.tsv",)}
_SERVER = "https://dl.fbaipublicfiles.com/glue/data"


def zip_of(name: str, sha256: str, num_bytes: int) -> tuple[Download, ...]:
    """Return the download of one of the server's archives, which is unpacked into ``glue``.

    Args:
      name: Name of the archive without its ending.
      sha256: Checksum of the archive.
      num_bytes: Size of the archive.
    """
    return archive(f"{_SERVER}/{name}.zip", "glue/", num_bytes, sha256)


def glue_source(
    config: str,
    *,
    folders: Sequence[str],
    table: Table,
    rows: Mapping[str, int],
    downloads: tuple[Download, ...],
    files: Mapping[str, tuple[str, ...]] = _FILES,
    others: tuple[FileLayout, ...] = (),
) -> BenchmarkSource:
    """Define the source of a task.

    Args:
      config: TFDS's configuration name.
      folders: Names of the task's folder.
      table: Reader of the tables.
      rows: Published number of rows by split.
      downloads: Files to fetch.
      files: File names by split.
      others: Further layouts, to search after the tables.
    """
    below = [f"{root}/{folder}" for root in FOLDERS for folder in folders]
    label = "float" if table.classes is None else "int"
    columns: Columns = {**dict.fromkeys(table.texts, "text"), "label": label, "idx": "int"}  # pyright: ignore[reportAssignmentType]
    tables = {split: tuple(f"{folder}/{name}" for name in files[split] for folder in below) for split in rows}
    return BenchmarkSource(
        tfds=f"glue/{config}:2.0.0",
        layouts=(FileLayout(files=tables, read=table), *others),
        rows=rows,
        downloads=downloads,
        home="https://gluebenchmark.com/tasks",
        citation="Wang et al. 2019, GLUE, https://arxiv.org/abs/1804.07461",
        license="each corpus has its own; see https://gluebenchmark.com/faq",
        columns=columns,
    )


def glue_task(
    config: str,
    title: str,
    *,
    folders: Sequence[str],
    table: Table,
    rows: Mapping[str, int],
    downloads: tuple[Download, ...],
    files: Mapping[str, tuple[str, ...]] = _FILES,
    others: tuple[FileLayout, ...] = (),
    word: str = "",
    metrics: tuple[MetricFunction, ...] = (accuracy,),
    training_task: str = "",
    examples: tuple[GoldenExample, ...],
) -> Benchmark:
    """Define the classification task ``glue_<config>_v002`` over the labels of its table.

    Args:
      config: TFDS's configuration name.
      title: One line for people.
      folders: Names of the task's folder.
      table: Reader of the tables.
      rows: Published number of rows by split.
      downloads: Files to fetch.
      files: File names by split.
      others: Further layouts, to search after the tables.
      word: First word of the inputs; ``config`` by default.
      metrics: Metric functions over class ids.
      training_task: Task to train on, for a task without training rows.
      examples: Golden examples.
    """
    assert table.classes is not None
    return classification_benchmark(
        f"glue_{config}_v002",
        title,
        word=word or config,
        source=glue_source(
            config, folders=folders, table=table, rows=rows, downloads=downloads, files=files, others=others
        ),
        labels=table.classes,
        metrics=metrics,
        training_task=training_task,
        examples=examples,
    )
