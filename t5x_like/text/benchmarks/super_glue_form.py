"""What SuperGLUE's benchmarks share: where their lines of JSON lie."""

from collections.abc import Mapping

from t5x_like.text.benchmarks.source import BenchmarkSource, Columns, Download, FileLayout
from t5x_like.text.benchmarks.super_glue_json import JsonLines, Parse

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
) -> BenchmarkSource:
    """One of the server's archives. ``columns`` are without label, and without idx where that is one number."""

    def files(split: str) -> tuple[str, ...]:
        names = [f"{_NAMES[split]}.jsonl"] if len(rows) > 1 else [f"{folder}.jsonl", "test.jsonl"]
        spelled = dict.fromkeys([folder, folder.lower(), folder.replace("-", "")])
        return tuple(f"{root}/{each}/{name}" for root in _FOLDERS for each in spelled for name in names)

    label: Columns = {"label": "int"} if classes else {}
    return BenchmarkSource(
        tfds=f"super_glue/{config}:1.0.2",
        layouts=(
            FileLayout(
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


def same(*names: str) -> dict[str, str]:
    """Columns that are written under their own names."""
    return {name: name for name in names}
