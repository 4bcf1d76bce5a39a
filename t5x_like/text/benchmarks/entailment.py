"""Further entailment tasks, formatted as MNLI: SNLI, SciTail and the three rounds of ANLI."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow, GoldenExample
from t5x_like.text.benchmarks.keyed_template import classification_benchmark, label_examples
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, Columns, FileLayout, archive, files_in
from t5x_like.text.tasks.rows import BadRow, RawRow
from t5x_like.text.templates import RowValues

_LABELS = ("entailment", "neutral", "contradiction")
_SHORT = {"train": "train", "validation": "dev", "test": "test"}  # splits as the files name them
_COLUMNS: Columns = {"premise": "text", "hypothesis": "text", "label": "int"}
_PAIR = ("Two men row a boat.", ("People row.", "They are brothers.", "Nobody rows."))


def _examples(word: str, labels: tuple[str, ...], premise: str = "premise") -> tuple[GoldenExample, ...]:
    """Return a golden example for each label; if there are only two labels, the third is unlabeled."""
    text, hypotheses = _PAIR
    numbers = (0, 1, 2 if len(labels) > 2 else -1)
    cases = zip(hypotheses, numbers, (*labels, "<unk>"), strict=False)
    return label_examples(
        (premise, "hypothesis"),
        *(
            ((text, each), label, f"{word} hypothesis: {each} premise: {text}", targets)
            for each, label, targets in cases
        ),
        has_index=False,
    )


def _pairs(
    name: str,
    title: str,
    *,
    word: str,
    labels: tuple[str, ...],
    source: BenchmarkSource,
    premise: str = "premise",
    **others: Any,
) -> Benchmark:
    return classification_benchmark(
        name,
        title,
        word=word,
        source=source,
        labels=labels,
        columns={"hypothesis": "hypothesis", "premise": premise},
        has_index=False,
        examples=_examples(word, labels, premise),
        **others,
    )


_SNLI_READ = RecordFiles(
    parse=renamed(premise="sentence1", hypothesis="sentence2", label="gold_label"),
    classes=_LABELS,
    unlabeled=("-", ""),
    may_lack_labels=True,
)


def _read_snli(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """Read JSON lines, or tables, which are named ``.txt``."""
    return replace(_SNLI_READ, format="tsv" if file.endswith(".txt") else "jsonl")(file, split)


_SNLI = _pairs(
    "snli",
    "SNLI: does a caption entail a sentence, contradict it, or neither? Rows on which judges split are left out",
    word="snli",
    labels=_LABELS,
    source=BenchmarkSource(
        tfds="snli:1.1.0",
        hugging_face="snli",
        layouts=(
            FileLayout(
                files=files_in(
                    ("snli/snli_1.0", "snli_1.0", "snli"),
                    {
                        split: (f"snli_1.0_{short}.jsonl", f"snli_1.0_{short}.txt")
                        for split, short in _SHORT.items()
                    },
                ),
                read=_read_snli,
            ),
        ),
        rows={"train": 550_152, "validation": 10_000, "test": 10_000},
        downloads=archive(
            "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
            "snli/",
            94_550_081,
            "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
        ),
        home="https://nlp.stanford.edu/projects/snli",
        citation="Bowman et al. 2015, https://arxiv.org/abs/1508.05326",
        license="CC BY-SA 4.0",
        columns=_COLUMNS,
    ),
    training_examples=549_367,
)


def _word_labeled(row: RowValues) -> list[FormattedRow]:
    return _SNLI.word(row) if int(row["label"]) != -1 else []


SNLI = replace(_SNLI, word=_word_labeled)

_SCITAIL_LABELS = ("entails", "neutral")
_SCITAIL_READ = RecordFiles(
    parse=renamed(premise="premise", hypothesis="hypothesis", label="label"),
    classes=_SCITAIL_LABELS,
    columns=("premise", "hypothesis", "label"),
    format="tsv",
)
_SCITAIL_FOLDERS = (
    "scitail/SciTailV1.1/tsv_format", "SciTailV1.1/tsv_format", "scitail/tsv_format", "scitail",
)  # fmt: skip
SCITAIL = _pairs(
    "scitail",
    "SciTail: does a sentence entail the answer to a school's question of science?",
    word="scitail",
    labels=_SCITAIL_LABELS,
    source=BenchmarkSource(
        tfds="sci_tail:1.0.0",
        layouts=(
            FileLayout(
                files=files_in(
                    _SCITAIL_FOLDERS,
                    {split: f"scitail_1.0_{short}.tsv" for split, short in _SHORT.items()},
                ),
                read=_SCITAIL_READ,
            ),
            hub_layout(
                "scitail/tsv_format",
                tuple(_SHORT),
                RecordFiles(parse=_SCITAIL_READ.parse, classes=_SCITAIL_LABELS),
            ),
        ),
        rows={"train": 23_596, "validation": 1_304, "test": 2_126},
        downloads=archive(
            "http://data.allenai.org.s3.amazonaws.com/downloads/SciTailV1.1.zip",
            "scitail/",
            14_174_621,
            "3fccd37350a94ca280b75998568df85fc2fc62843a3198d644fcbf858e6943d5",
        ),
        home="https://allenai.org/data/scitail",
        citation="Khot et al. 2018, SciTail: A Textual Entailment Dataset from Science Question Answering, AAAI",
        license="Apache 2.0",
        columns=_COLUMNS,
    ),
)

_ANLI_FOLDERS = ("anli/anli_v1.0", "anli/anli_v0.1", "anli_v1.0", "anli_v0.1", "anli")
_ANLI_LETTERS = ("e", "n", "c")


def _anli(round_number: int, rows: Mapping[str, int]) -> Benchmark:
    official = RecordFiles(
        parse=renamed(context="context", hypothesis="hypothesis", label="label"), classes=_ANLI_LETTERS
    )
    hub = RecordFiles(
        parse=renamed(context="premise", hypothesis="hypothesis", label="label"), classes=_LABELS
    )
    return _pairs(
        f"anli_r{round_number}",
        f"ANLI, round {round_number}: pairs written to mislead models",
        word="anli",
        labels=_LABELS,
        premise="context",
        source=BenchmarkSource(
            tfds=f"anli/r{round_number}:0.1.0",
            layouts=(
                FileLayout(
                    files=files_in(
                        _ANLI_FOLDERS,
                        {split: f"R{round_number}/{short}.jsonl" for split, short in _SHORT.items()},
                    ),
                    read=official,
                ),
                hub_layout(
                    "anli",
                    tuple(_SHORT),
                    hub,
                    names={split: f"{short}_r{round_number}" for split, short in _SHORT.items()},
                ),
            ),
            rows=rows,
            downloads=archive(
                "https://dl.fbaipublicfiles.com/anli/anli_v0.1.zip",
                "anli/",
                18_621_352,
                "16ac929a7e90ecf9093deaec89cc81fe86a379265a5320a150028efe50c5cde8",
            ),
            home="https://github.com/facebookresearch/anli",
            citation="Nie et al. 2019, https://arxiv.org/abs/1910.14599",
            license="CC BY-NC 4.0",
            columns={"context": "text", "hypothesis": "text", "label": "int"},
        ),
    )


ANLI_R1 = _anli(1, {"train": 16_946, "validation": 1_000, "test": 1_000})
ANLI_R2 = _anli(2, {"train": 45_460, "validation": 1_000, "test": 1_000})
ANLI_R3 = _anli(3, {"train": 100_459, "validation": 1_200, "test": 1_200})

BENCHMARKS = (SNLI, SCITAIL, ANLI_R1, ANLI_R2, ANLI_R3)
