"""What SuperGLUE's benchmarks share: where their lines of JSON lie and how labelled rows are worded."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from t5x_like.text.metrics import accuracy
from t5x_like.text.postprocessing import string_label_to_class_id
from t5x_like.text.tasks.benchmarks.benchmark import Benchmark, Example, MetricFunction
from t5x_like.text.tasks.benchmarks.forms import Classes, Form
from t5x_like.text.tasks.benchmarks.keyed_wording import Keyed
from t5x_like.text.tasks.benchmarks.source import Columns, Download, Layout, RawRow, Source
from t5x_like.text.tasks.benchmarks.super_glue_json import JsonLines, Parse

HOME = "https://super.gluebenchmark.com/tasks"
CITATION = "Wang et al. 2019, SuperGLUE, https://arxiv.org/abs/1905.00537"
LICENCE = "each corpus has its own; see https://super.gluebenchmark.com/tasks"
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
    parse: Parse,
    classes: tuple[str, ...] = (),
) -> Source:
    """One of the server's archives. ``columns`` are without label, and without idx where that is one number."""

    def files(split: str) -> tuple[str, ...]:
        names = [f"{_NAMES[split]}.jsonl"] if len(rows) > 1 else [f"{folder}.jsonl", "test.jsonl"]
        spelled = dict.fromkeys([folder, folder.lower(), folder.replace("-", "")])
        return tuple(f"{root}/{each}/{name}" for root in _FOLDERS for each in spelled for name in names)

    label: Columns = {"label": "int"} if classes else {}
    return Source(
        tfds=f"super_glue/{config}:1.0.2",
        layouts=(
            Layout(
                files={split: files(split) for split in rows}, read=JsonLines(parse=parse, classes=classes)
            ),
        ),
        rows=rows,
        downloads=(
            Download(
                url=f"{_SERVER}/{folder}.zip",
                unpack={"": "super_glue/"},
                sha256=sha256,
                num_bytes=num_bytes,
            ),
        ),
        home=HOME,
        citation=CITATION,
        licence=LICENCE,
        columns={"idx": "int", **columns, **label},
    )


def labelled(
    task: str,
    title: str,
    *,
    word: str,
    keys: Mapping[str, str],
    source: Source,
    labels: tuple[str, ...],
    metrics: tuple[MetricFunction, ...] = (accuracy,),
    form: Form | None = None,
    examples: tuple[Example, ...],
) -> Benchmark:
    """A benchmark of one class a row: ``keys`` are the names that the wording writes, and the columns."""
    texts = tuple(f"{{{column}}}" for column, kind in source.columns.items() if kind == "text")
    return Benchmark(
        name=f"super_glue_{task}_v102",
        title=title,
        source=source,
        word=Keyed(word=word, columns=keys, labels=labels),
        postprocess=partial(string_label_to_class_id, label_classes=labels),
        metrics=metrics,
        labels=labels,
        extras={"idx": "int"},
        form=form or Classes(texts=texts, classes=labels),
        examples=examples,
    )


def example(row: RawRow, inputs: str, targets: str, **extras: Any) -> Example:
    """A row that becomes one example, known by its ``idx``."""
    return Example(row, ({"inputs": inputs, "targets": targets, "idx": row["idx"], **extras},))


def same(*names: str) -> dict[str, str]:
    """Columns that are written under their own names."""
    return {name: name for name in names}
