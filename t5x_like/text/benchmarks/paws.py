"""PAWS-Wiki (Zhang et al. 2019): pairs of sentences of nearly the same words; does one say what the other says?"""

from functools import partial

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.keyed_wording import UNLABELLED, KeyedWording
from t5x_like.text.benchmarks.source import BenchmarkSource, Download, FileLayout
from t5x_like.text.benchmarks.tsv import Table
from t5x_like.text.heads import SequenceClassification
from t5x_like.text.metrics import accuracy, f1_score_with_invalid
from t5x_like.text.postprocessing import string_label_to_class_id
from t5x_like.text.tasks.rows import RowValues

LABELS = ("not_paraphrase", "paraphrase")
_COLUMNS = {"sentence1": "sentence1", "sentence2": "sentence2"}
_FILES = {"train": "train.tsv", "validation": "dev.tsv", "test": "test.tsv"}
_FOLDERS = ("paws/final", "paws/labeled_final", "paws", "final", "paws_wiki_labeled_final/final")


def _no_index(row: RowValues) -> dict[str, int]:
    """TensorFlow Datasets' rows have no number."""
    del row
    return {}


def _example(sentence1: str, sentence2: str, label: int, targets: str) -> GoldenExample:
    row = {"sentence1": sentence1, "sentence2": sentence2, "label": label}
    inputs = f"paws sentence1: {sentence1} sentence2: {sentence2}"
    return GoldenExample(row, ({"inputs": inputs, "targets": targets},))


PAWS = Benchmark(
    name="paws_wiki_v110",
    title="PAWS-Wiki: do two sentences of nearly the same words mean the same?",
    source=BenchmarkSource(
        tfds="paws_wiki/labeled_final_tokenized:1.1.0",
        hugging_face="paws/labeled_final",
        layouts=(
            FileLayout(
                files={
                    split: tuple(f"{folder}/{name}" for folder in _FOLDERS) for split, name in _FILES.items()
                },
                read=Table(texts=_COLUMNS, classes=LABELS),
            ),
        ),
        rows={"train": 49_401, "validation": 8_000, "test": 8_000},
        downloads=(
            Download(
                url="https://storage.googleapis.com/paws/english/paws_wiki_labeled_final.tar.gz",
                unpack={"": "paws/"},
            ),
        ),
        home="https://github.com/google-research-datasets/paws",
        citation="Zhang et al. 2019, https://arxiv.org/abs/1904.01130",
        licence="may be freely used for any purpose; https://github.com/google-research-datasets/paws",
        columns={"sentence1": "text", "sentence2": "text", "label": "int"},
    ),
    word=KeyedWording(word="paws", columns=_COLUMNS, labels=LABELS, index=_no_index),
    postprocess=partial(string_label_to_class_id, label_classes=LABELS),
    metrics=(f1_score_with_invalid, accuracy),
    labels=LABELS,
    head=SequenceClassification(texts=("{sentence1}", "{sentence2}"), classes=LABELS),
    examples=(
        _example("Flights from Rome to Oslo .", "Flights from Oslo to Rome .", 0, "not_paraphrase"),
        _example("In 1868 he came to Oslo .", "He came to Oslo in 1868 .", 1, "paraphrase"),
        _example("A sentence2: b", "B", -1, UNLABELLED),
    ),
)

BENCHMARKS = (PAWS,)
