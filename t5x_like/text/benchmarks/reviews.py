"""Sentiment of film reviews: IMDb (Maas et al. 2011), and SST-5, the Stanford treebank's (Socher et al. 2013)."""

import os
import re
from collections.abc import Iterator

from t5x_like.io.files import as_path
from t5x_like.io.paths import files_below
from t5x_like.text.benchmarks.keyed_template import classification_benchmark, label_examples
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, archive, files_in
from t5x_like.text.tasks.rows import BadRow, RawRow, convert
from t5x_like.text.tasks.text_lines import filled_lines, text_lines
from t5x_like.text.templates import RowValues

LABELS = ("negative", "positive")
_FOLDERS = ("neg", "pos")  # in the order of the labels


def _read_reviews(file: str, split: str) -> Iterator[RawRow | BadRow]:
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
    digits = os.path.basename(path).partition("_")[0]
    return int(digits) if digits.isdecimal() else -1, path


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
                read=_read_reviews,
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

SST5_LABELS = ("very negative", "negative", "neutral", "positive", "very positive")
_TREE_PART = re.compile(r"\(([0-4]) |([^()\s]+)|(\))|(\s+)")
_TREE_WORDS = {"-LRB-": "(", "-RRB-": ")", "\\/": "/", "\\*": "*"}


def _read_trees(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read sentences from trees, ``(3 (2 A) (3 joy))``, with the label of the whole tree. See ``source.Reader``.

    Words are joined by spaces; escaped brackets, slashes and asterisks are written plainly.
    """
    del split
    lines = filled_lines(text_lines(file))
    return convert(lines, lambda line: RawRow(_tree(line.text.strip()), line.location))


def _tree(text: str) -> dict[str, object]:
    words: list[str] = []
    depth = position = 0
    while position < len(text) and (depth or not position):
        part = _TREE_PART.match(text, position)
        if part is None or (part[2] and not depth):
            raise ValueError(
                f"no tree, such as '(3 (2 A) (3 joy))', is at character {position + 1}: {text[position:][:40]!r}"
            )
        depth += bool(part[1]) - bool(part[3])
        if part[2]:
            words.append(part[2])
        position = part.end()
    if depth or position < len(text) or not words:
        problem = "is never closed" if depth else "ends before its line" if words else "has no words"
        raise ValueError(f"the tree {problem}: {text[:40]!r}")
    plain = (_TREE_WORDS.get(word, word).replace("\\/", "/").replace("\\*", "*") for word in words)
    return {"sentence": " ".join(plain), "label": int(text[1])}


def _hub_sentence(record: RowValues) -> Iterator[dict[str, object]]:
    """Convert one of Hugging Face's rows, whose label is a share of 1, to one of five classes.

    Classes are cut at 0.2, 0.4, 0.6 and 0.8, which belong to the lower class, as the treebank's README says.
    """
    share = float(record["label"])
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"the label {share} is outside 0 to 1")
    yield {"sentence": record["sentence"], "label": sum(share > edge for edge in (0.2, 0.4, 0.6, 0.8))}


_SST5_SPLITS = {"train": "train", "validation": "dev", "test": "test"}
# T5 has no task of five classes; the template is that of its sst2, under another first word.
SST5 = classification_benchmark(
    "sst5",
    "SST-5: how much does a sentence of a film review praise or blame? Five classes",
    source=BenchmarkSource(
        layouts=(
            FileLayout(
                files=files_in(
                    ("sst5/trees", "trees", "sst/trees", "sst5"),
                    {split: f"{short}.txt" for split, short in _SST5_SPLITS.items()},
                ),
                read=_read_trees,
            ),
            FileLayout(
                name="JSON lines",
                files=files_in(("sst5",), {split: f"{short}.jsonl" for split, short in _SST5_SPLITS.items()}),
                read=RecordFiles(parse=renamed(sentence="text", label="label"), classes=SST5_LABELS),
            ),
            hub_layout("sst/default", tuple(_SST5_SPLITS), RecordFiles(parse=_hub_sentence)),
        ),
        rows={"train": 8_544, "validation": 1_101, "test": 2_210},
        home="https://nlp.stanford.edu/sentiment (trainDevTestTrees_PTB.zip, unpacked in sst5/)",
        citation="Socher et al. 2013, https://aclanthology.org/D13-1170",
        license="none is stated; cite the paper",
        columns={"sentence": "text", "label": "int"},
    ),
    word="sst5",
    labels=SST5_LABELS,
    has_index=False,
    examples=label_examples(
        ("sentence",),
        (("A quiet joy .",), 4, "sst5 sentence: A quiet joy .", "very positive"),
        (("It ( almost ) works .",), 2, "sst5 sentence: It ( almost ) works .", "neutral"),
        (("Two hours gone .",), 0, "sst5 sentence: Two hours gone .", "very negative"),
        has_index=False,
    ),
)

BENCHMARKS = (IMDB, SST5)
