"""What GLUE's benchmarks share: where their tables lie."""

from collections.abc import Mapping, Sequence

from t5x_like.text.benchmarks.source import BenchmarkSource, Columns, Download, FileLayout
from t5x_like.text.benchmarks.tsv import Table

HOME = "https://gluebenchmark.com/tasks"
CITATION = "Wang et al. 2019, GLUE, https://arxiv.org/abs/1804.07461"
LICENCE = "each corpus has its own; see https://gluebenchmark.com/faq"
_SERVER = "https://dl.fbaipublicfiles.com/glue/data"
FOLDERS = ("glue", "GLUE", "glue_data", ".")

ENTAILMENT = ("entailment", "not_entailment")
MNLI_LABELS = ("entailment", "neutral", "contradiction")
FILES = {"train": ("train.tsv",), "validation": ("dev.tsv",), "test": ("test.tsv",)}
SENTENCES = {"sentence1": "sentence1", "sentence2": "sentence2"}


def zip_of(name: str, sha256: str, num_bytes: int) -> tuple[Download, ...]:
    """One of the server's archives, which goes below ``glue``."""
    return (Download(url=f"{_SERVER}/{name}.zip", unpack={"": "glue/"}, sha256=sha256, num_bytes=num_bytes),)


def glue_source(
    config: str,
    *,
    folders: Sequence[str],
    table: Table,
    rows: Mapping[str, int],
    downloads: tuple[Download, ...],
    files: Mapping[str, tuple[str, ...]] = FILES,
    label: str = "int",
    others: tuple[FileLayout, ...] = (),
) -> BenchmarkSource:
    """Tables of ``files`` in any of the folder's spellings, then what ``others`` find."""
    below = [f"{root}/{folder}" for root in FOLDERS for folder in folders]
    columns: Columns = {**dict.fromkeys(table.texts, "text"), "label": label, "idx": "int"}  # pyright: ignore[reportAssignmentType]
    return BenchmarkSource(
        tfds=f"glue/{config}:2.0.0",
        layouts=(
            FileLayout(
                files={
                    split: tuple(f"{folder}/{name}" for name in files[split] for folder in below)
                    for split in rows
                },
                read=table,
            ),
            *others,
        ),
        rows=rows,
        downloads=downloads,
        home=HOME,
        citation=CITATION,
        licence=LICENCE,
        columns=columns,
    )
