"""Pairs of texts beside GLUE's: SNLI, SciTail and the three rounds of ANLI, worded as MNLI is."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample, WordedRow, Wording
from t5x_like.text.benchmarks.keyed_wording import KeyedWording
from t5x_like.text.benchmarks.record_files import RecordFiles, hub_layout, renamed
from t5x_like.text.benchmarks.source import BenchmarkSource, Columns, Download, FileLayout
from t5x_like.text.heads import SequenceClassification
from t5x_like.text.metrics import accuracy
from t5x_like.text.postprocessing import string_label_to_class_id
from t5x_like.text.tasks.rows import BadRow, RawRow, RowValues

_LABELS = ("entailment", "neutral", "contradiction")
_COLUMNS: Columns = {"premise": "text", "hypothesis": "text", "label": "int"}
_PAIR = ("Two men row a boat.", ("People row.", "They are brothers.", "Nobody rows."))


def _no_index(row: RowValues) -> dict[str, int]:
    del row
    return {}


def _examples(word: str, labels: tuple[str, ...], premise: str = "premise") -> tuple[GoldenExample, ...]:
    """One for each label, and one without where there are but two, worded with ``premise`` as that column's name."""
    text, hypotheses = _PAIR
    return tuple(
        GoldenExample(
            {premise: text, "hypothesis": hypothesis, "label": number},
            ({"inputs": f"{word} hypothesis: {hypothesis} premise: {text}", "targets": target},),
        )
        for hypothesis, number, target in zip(
            hypotheses, (0, 1, 2 if len(labels) > 2 else -1), (*labels, "<unk>"), strict=False
        )
    )


def _pairs(
    name: str,
    title: str,
    *,
    word: str,
    labels: tuple[str, ...],
    source: BenchmarkSource,
    premise: str = "premise",
    leaves_out_unlabelled: bool = False,
    training_examples: int | None = None,
) -> Benchmark:
    keyed = KeyedWording(
        word=word, columns={"hypothesis": "hypothesis", "premise": premise}, labels=labels, index=_no_index
    )
    return Benchmark(
        name=name,
        title=title,
        source=source,
        word=_labelled_only(keyed) if leaves_out_unlabelled else keyed,
        postprocess=partial(string_label_to_class_id, label_classes=labels),
        metrics=(accuracy,),
        labels=labels,
        head=SequenceClassification(texts=(f"{{{premise}}}", "{hypothesis}"), classes=labels),
        training_examples=training_examples,
        examples=_examples(word, labels, premise),
    )


def _labelled_only(word: Wording) -> Wording:
    def word_labelled(row: RowValues) -> list[WordedRow]:
        return word(row) if int(row["label"]) != -1 else []

    return word_labelled


_SNLI_READ = RecordFiles(
    parse=renamed(premise="sentence1", hypothesis="sentence2", label="gold_label"),
    classes=_LABELS,
    unlabelled=("-", ""),
    may_lack_labels=True,
)


def _read_snli(file: str, split: str) -> Iterator[RawRow | BadRow]:
    """The lines of JSON, or the tables, which are named ``.txt``."""
    return replace(_SNLI_READ, format="tsv" if file.endswith(".txt") else "jsonl")(file, split)


SNLI = _pairs(
    "snli",
    "SNLI: does a caption entail a sentence, contradict it, or neither? Rows on which judges split are left out",
    word="snli",
    labels=_LABELS,
    source=BenchmarkSource(
        tfds="snli:1.1.0",
        hugging_face="snli",
        layouts=(
            FileLayout(
                files={
                    split: tuple(
                        f"{folder}/snli_1.0_{short}.{ending}"
                        for folder in ("snli/snli_1.0", "snli_1.0", "snli")
                        for ending in ("jsonl", "txt")
                    )
                    for split, short in {"train": "train", "validation": "dev", "test": "test"}.items()
                },
                read=_read_snli,
            ),
        ),
        rows={"train": 550_152, "validation": 10_000, "test": 10_000},
        downloads=(
            Download(
                url="https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
                unpack={"": "snli/"},
                num_bytes=94_550_081,
                sha256="afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
            ),
        ),
        home="https://nlp.stanford.edu/projects/snli",
        citation="Bowman et al. 2015, https://arxiv.org/abs/1508.05326",
        licence="CC BY-SA 4.0",
        columns=_COLUMNS,
    ),
    leaves_out_unlabelled=True,
    training_examples=549_367,
)

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
_SCITAIL_FILES = {"train": "train", "validation": "dev", "test": "test"}
SCITAIL = _pairs(
    "scitail",
    "SciTail: does a sentence entail the answer to a school's question of science?",
    word="scitail",
    labels=_SCITAIL_LABELS,
    source=BenchmarkSource(
        tfds="sci_tail:1.0.0",
        layouts=(
            FileLayout(
                files={
                    split: tuple(f"{folder}/scitail_1.0_{short}.tsv" for folder in _SCITAIL_FOLDERS)
                    for split, short in _SCITAIL_FILES.items()
                },
                read=_SCITAIL_READ,
            ),
            hub_layout(
                "scitail/tsv_format",
                tuple(_SCITAIL_FILES),
                RecordFiles(parse=_SCITAIL_READ.parse, classes=_SCITAIL_LABELS),
            ),
        ),
        rows={"train": 23_596, "validation": 1_304, "test": 2_126},
        downloads=(
            Download(
                url="http://data.allenai.org.s3.amazonaws.com/downloads/SciTailV1.1.zip",
                unpack={"": "scitail/"},
                num_bytes=14_174_621,
                sha256="3fccd37350a94ca280b75998568df85fc2fc62843a3198d644fcbf858e6943d5",
            ),
        ),
        home="https://allenai.org/data/scitail",
        citation="Khot et al. 2018, SciTail: A Textual Entailment Dataset from Science Question Answering, AAAI",
        licence="Apache 2.0",
        columns=_COLUMNS,
    ),
)

_ANLI_FOLDERS = ("anli/anli_v1.0", "anli/anli_v0.1", "anli_v1.0", "anli_v0.1", "anli")
_ANLI_FILES = {"train": "train", "validation": "dev", "test": "test"}
_ANLI_LETTERS = ("e", "n", "c")


def _anli(number: int, rows: Mapping[str, int]) -> Benchmark:
    official = RecordFiles(
        parse=renamed(context="context", hypothesis="hypothesis", label="label"), classes=_ANLI_LETTERS
    )
    hub = RecordFiles(
        parse=renamed(context="premise", hypothesis="hypothesis", label="label"), classes=_LABELS
    )
    return _pairs(
        f"anli_r{number}",
        f"ANLI, round {number}: pairs written to mislead models",
        word="anli",
        labels=_LABELS,
        premise="context",
        source=BenchmarkSource(
            tfds=f"anli/r{number}:0.1.0",
            layouts=(
                FileLayout(
                    files={
                        split: tuple(f"{folder}/R{number}/{short}.jsonl" for folder in _ANLI_FOLDERS)
                        for split, short in _ANLI_FILES.items()
                    },
                    read=official,
                ),
                hub_layout(
                    "anli",
                    tuple(_ANLI_FILES),
                    hub,
                    names={split: f"{short}_r{number}" for split, short in _ANLI_FILES.items()},
                ),
            ),
            rows=rows,
            downloads=(
                Download(
                    url="https://dl.fbaipublicfiles.com/anli/anli_v0.1.zip",
                    unpack={"": "anli/"},
                    num_bytes=18_621_352,
                    sha256="16ac929a7e90ecf9093deaec89cc81fe86a379265a5320a150028efe50c5cde8",
                ),
            ),
            home="https://github.com/facebookresearch/anli",
            citation="Nie et al. 2019, https://arxiv.org/abs/1910.14599",
            licence="CC BY-NC 4.0",
            columns={"context": "text", "hypothesis": "text", "label": "int"},
        ),
    )


ANLI_R1 = _anli(1, {"train": 16_946, "validation": 1_000, "test": 1_000})
ANLI_R2 = _anli(2, {"train": 45_460, "validation": 1_000, "test": 1_000})
ANLI_R3 = _anli(3, {"train": 100_459, "validation": 1_200, "test": 1_200})

BENCHMARKS = (SNLI, SCITAIL, ANLI_R1, ANLI_R2, ANLI_R3)
