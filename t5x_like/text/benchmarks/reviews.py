"""IMDb's film reviews: sentiment classification (Maas et al. 2011)."""

import os
from collections.abc import Iterator

from t5x_like.io.files import as_path
from t5x_like.io.paths import files_below
from t5x_like.text.benchmarks.keyed_wording import classification_benchmark, label_examples
from t5x_like.text.benchmarks.record_files import RecordFiles, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, archive, files_in
from t5x_like.text.tasks.rows import BadRow, RawRow

LABELS = ("negative", "positive")
_FOLDERS = ("neg", "pos")  # in the order of the labels


def read_reviews(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read the reviews of a list of film addresses: ``train/neg/0_3.txt`` and so on for ``train/urls_neg.txt``.

    A review's file is named after the number of its address and the number of stars. See ``source.Reader``.

    Raises:
      ValueError: The numbers of reviews and addresses differ.
    """
    del split
    kind = os.path.basename(file).removeprefix("urls_").removesuffix(".txt")
    folder = os.path.join(os.path.dirname(file), kind)
    paths = sorted(files_below(folder, "*_*.txt"), key=_number_of)
    listed = sum(1 for line in as_path(file).read_text().splitlines() if line.strip())
    if len(paths) != listed:
        raise ValueError(
            f"{file} lists {listed:,} reviews, but {folder} has {len(paths):,}; unpack the whole archive again"
        )
    for path in paths:
        try:
            text = as_path(path).read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            yield BadRow(f"invalid UTF-8 at byte {error.start}", path)
            continue
        yield RawRow({"text": text, "label": _FOLDERS.index(kind)}, path)


def _number_of(path: str) -> tuple[int, str]:
    number = os.path.basename(path).partition("_")[0]
    return int(number) if number.isdecimal() else -1, path


_PLACES = ("imdb/aclImdb", "aclImdb", "imdb")
IMDB = classification_benchmark(
    "imdb",
    "IMDb: does a film review praise or blame?",
    source=BenchmarkSource(
        tfds="imdb_reviews/plain_text:1.0.0",
        hugging_face="imdb/plain_text",
        layouts=(
            FileLayout(
                files=files_in(
                    _PLACES, {split: f"{split}/urls_[np][eo][gs].txt" for split in ("train", "test")}
                ),
                read=read_reviews,
            ),
            FileLayout(
                name="JSON lines",
                files={split: (f"imdb/{split}.jsonl",) for split in ("train", "test")},
                read=RecordFiles(parse=renamed(text="text", label="label"), classes=LABELS),
            ),
        ),
        rows={"train": 25_000, "test": 25_000},
        downloads=archive(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            "imdb/",
            84_125_825,
            "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        ),
        home="https://ai.stanford.edu/~amaas/data/sentiment",
        citation="Maas et al. 2011, https://aclanthology.org/P11-1015",
        license="none is stated; cite the paper",
        columns={"text": "text", "label": "int"},
    ),
    word="imdb",
    labels=LABELS,
    columns={"review": "text"},
    has_index=False,
    examples=label_examples(
        ("text",),
        (
            ("I laughed throughout.<br /><br />See it!",),
            1,
            "imdb review: I laughed throughout.<br /><br />See it!",
            "positive",
        ),
        (("Two hours that I want back.",), 0, "imdb review: Two hours that I want back.", "negative"),
        (("It has a beginning.",), -1, "imdb review: It has a beginning.", "<unk>"),
        has_index=False,
    ),
)

BENCHMARKS = (IMDB,)
