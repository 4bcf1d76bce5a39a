"""PAWS-Wiki (Zhang et al. 2019): paraphrase detection for sentences with nearly the same words."""

from t5x_like.text.benchmarks.keyed_template import UNLABELED, classification_benchmark, label_examples
from t5x_like.text.benchmarks.source import BenchmarkSource, FileLayout, archive, files_in
from t5x_like.text.benchmarks.tsv import Table
from t5x_like.text.metrics import accuracy, f1_score_with_invalid

LABELS = ("not_paraphrase", "paraphrase")
_COLUMNS = {"sentence1": "sentence1", "sentence2": "sentence2"}
_FILES = {"train": "train.tsv", "validation": "dev.tsv", "test": "test.tsv"}
_FOLDERS = ("paws/final", "paws/labeled_final", "paws", "final", "paws_wiki_labeled_final/final")


PAWS = classification_benchmark(
    "paws_wiki_v110",
    "PAWS-Wiki: do two sentences of nearly the same words mean the same?",
    source=BenchmarkSource(
        tfds="paws_wiki/labeled_final_tokenized:1.1.0",
        hugging_face="paws/labeled_final",
        layouts=(FileLayout(files=files_in(_FOLDERS, _FILES), read=Table(texts=_COLUMNS, classes=LABELS)),),
        rows={"train": 49_401, "validation": 8_000, "test": 8_000},
        downloads=archive(
            "https://storage.googleapis.com/paws/english/paws_wiki_labeled_final.tar.gz", "paws/"
        ),
        home="https://github.com/google-research-datasets/paws",
        citation="Zhang et al. 2019, https://arxiv.org/abs/1904.01130",
        license="may be freely used for any purpose; https://github.com/google-research-datasets/paws",
        columns={"sentence1": "text", "sentence2": "text", "label": "int"},
    ),
    word="paws",
    labels=LABELS,
    has_index=False,
    metrics=(f1_score_with_invalid, accuracy),
    examples=label_examples(
        tuple(_COLUMNS),
        (
            ("Flights from Rome to Oslo .", "Flights from Oslo to Rome ."),
            0,
            "paws sentence1: Flights from Rome to Oslo . sentence2: Flights from Oslo to Rome .",
            "not_paraphrase",
        ),
        (
            ("In 1868 he came to Oslo .", "He came to Oslo in 1868 ."),
            1,
            "paws sentence1: In 1868 he came to Oslo . sentence2: He came to Oslo in 1868 .",
            "paraphrase",
        ),
        (("A sentence2: b", "B"), -1, "paws sentence1: A sentence2: b sentence2: B", UNLABELED),
        has_index=False,
    ),
)

BENCHMARKS = (PAWS,)
