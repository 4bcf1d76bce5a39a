"""GLUE's sentences and pairs of like ones: CoLA, SST-2, MRPC, STS-B, QQP."""

from t5x_like.text.benchmarks.benchmark import Benchmark, WordedRow
from t5x_like.text.benchmarks.glue_form import FOLDERS, SENTENCES, glue_source, zip_of
from t5x_like.text.benchmarks.keyed_wording import example, keyed_text, labelled, number_word
from t5x_like.text.benchmarks.mrpc_files import LISTED, TEST, TRAIN, ParaphraseFiles
from t5x_like.text.benchmarks.source import Download, FileLayout
from t5x_like.text.benchmarks.tsv import Table
from t5x_like.text.heads import Regression
from t5x_like.text.metrics import (
    accuracy,
    f1_score_with_invalid,
    matthews_corrcoef,
    pearson_corrcoef,
    spearman_corrcoef,
)
from t5x_like.text.postprocessing import string_to_float
from t5x_like.text.tasks.rows import RowValues

_COLA_COLUMNS = ("source", "label", "mark", "sentence")
_cola = glue_source(
    "cola",
    folders=("CoLA", "cola"),
    table=Table(
        texts={"sentence": "sentence"},
        classes=("unacceptable", "acceptable"),
        headerless={"train": _COLA_COLUMNS, "validation": _COLA_COLUMNS},
    ),
    files={
        "train": ("train.tsv", "original/raw/in_domain_train.tsv"),
        "validation": ("dev.tsv", "original/raw/*_dev.tsv"),
        "test": ("test.tsv",),
    },
    rows={"train": 8_551, "validation": 1_043, "test": 1_063},
    downloads=zip_of("CoLA", "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff", 376_971),
)
COLA = labelled(
    "glue_cola_v002",
    "CoLA: is a sentence acceptable English?",
    word="cola",
    keys=("sentence",),
    source=_cola,
    labels=("unacceptable", "acceptable"),
    metrics=(matthews_corrcoef,),
    examples=(
        example(
            {"sentence": "The baker slept.", "label": 1, "idx": 0},
            "cola sentence: The baker slept.",
            "acceptable",
        ),
        example(
            {"sentence": "Slept baker the.", "label": 0, "idx": 1},
            "cola sentence: Slept baker the.",
            "unacceptable",
        ),
        example(
            {"sentence": '  It\'s "so".', "label": -1, "idx": 2}, 'cola sentence:   It\'s "so".', "<unk>"
        ),
    ),
)

SST2 = labelled(
    "glue_sst2_v002",
    "SST-2: does a film review's sentence praise or blame?",
    word="sst2",
    keys=("sentence",),
    source=glue_source(
        "sst2",
        folders=("SST-2", "SST2", "sst2"),
        table=Table(texts={"sentence": "sentence"}, classes=("negative", "positive")),
        rows={"train": 67_349, "validation": 872, "test": 1_821},
        downloads=zip_of(
            "SST-2", "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa", 7_439_277
        ),
    ),
    labels=("negative", "positive"),
    examples=(
        example(
            {"sentence": "a joy to watch ", "label": 1, "idx": 0},
            "sst2 sentence: a joy to watch ",
            "positive",
        ),
        example(
            {"sentence": "flat , and too long", "label": 0, "idx": 1},
            "sst2 sentence: flat , and too long",
            "negative",
        ),
        example({"sentence": "it exists", "label": -1, "idx": 2}, "sst2 sentence: it exists", "<unk>"),
    ),
)

_SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
_MRPC_DEV = (
    "https://firebasestorage.googleapis.com/v0/b/mtl-sentence-representations.appspot.com/o/data%2Fmrpc_dev_ids.tsv"
    "?alt=media&token=ec5c0836-31d5-48f4-b431-7480817f1adc"
)
MRPC = labelled(
    "glue_mrpc_v002",
    "MRPC: do two sentences of the news say the same?",
    word="mrpc",
    keys=SENTENCES,
    source=glue_source(
        "mrpc",
        folders=("MRPC", "mrpc"),
        table=Table(
            texts={"sentence1": "#1 String", "sentence2": "#2 String"},
            label="Quality",
            classes=("not_equivalent", "equivalent"),
        ),
        others=(
            FileLayout(
                name="Microsoft's files",
                files={
                    split: tuple(f"{root}/{folder}/{name}" for root in FOLDERS for folder in ("MRPC", "mrpc"))
                    for split, name in {"train": TRAIN, "validation": LISTED, "test": TEST}.items()
                },
                read=ParaphraseFiles(classes=("not_equivalent", "equivalent")),
            ),
        ),
        rows={"train": 3_668, "validation": 408, "test": 1_725},
        downloads=(
            Download(
                url=f"{_SENTEVAL}/msr_paraphrase_train.txt",
                unpack={"": "glue/MRPC/msr_paraphrase_train.txt"},
                sha256="60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
                num_bytes=1_047_044,
            ),
            Download(
                url=f"{_SENTEVAL}/msr_paraphrase_test.txt",
                unpack={"": "glue/MRPC/msr_paraphrase_test.txt"},
                sha256="a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784",
                num_bytes=441_275,
            ),
            Download(
                url=_MRPC_DEV,
                unpack={"": "glue/MRPC/dev_ids.tsv"},
                sha256="971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
                num_bytes=6_222,
            ),
        ),
    ),
    labels=("not_equivalent", "equivalent"),
    metrics=(f1_score_with_invalid, accuracy),
    examples=(
        example(
            {"sentence1": "Sales rose .", "sentence2": "Sales went up .", "label": 1, "idx": 0},
            "mrpc sentence1: Sales rose . sentence2: Sales went up .",
            "equivalent",
        ),
        example(
            {"sentence1": "Sales rose .", "sentence2": "Sales fell .", "label": 0, "idx": 4},
            "mrpc sentence1: Sales rose . sentence2: Sales fell .",
            "not_equivalent",
        ),
        example(
            {"sentence1": "No", "sentence2": " label ", "label": -1, "idx": 7},
            "mrpc sentence1: No sentence2:  label ",
            "<unk>",
        ),
    ),
)


def stsb(row: RowValues) -> list[WordedRow]:
    """How alike two sentences are, in steps of 0.2 as text: ``2.6``; ``-1.0`` where unlabelled."""
    inputs = keyed_text("stsb", SENTENCES, row)
    return [{"inputs": inputs, "targets": number_word(row["label"]), "idx": row["idx"]}]


STSB = Benchmark(
    name="glue_stsb_v002",
    title="STS-B: how alike are two sentences, from 0 to 5?",
    source=glue_source(
        "stsb",
        folders=("STS-B", "STSB", "stsb"),
        table=Table(texts=SENTENCES, label="score"),
        rows={"train": 5_749, "validation": 1_500, "test": 1_379},
        downloads=zip_of(
            "STS-B", "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85", 802_872
        ),
        label="float",
    ),
    word=stsb,
    postprocess=string_to_float,
    metrics=(pearson_corrcoef, spearman_corrcoef),
    extras={"idx": "int"},
    head=Regression(texts=("{sentence1}", "{sentence2}"), lowest=0.0, highest=5.0),
    examples=(
        example(
            {"sentence1": "A dog runs.", "sentence2": "A dog is running.", "label": 4.75, "idx": 0},
            "stsb sentence1: A dog runs. sentence2: A dog is running.",
            "4.8",
        ),
        example(
            {"sentence1": "A dog.", "sentence2": "A cat.", "label": 1.5, "idx": 1},
            "stsb sentence1: A dog. sentence2: A cat.",
            "1.6",
        ),
        example(
            {"sentence1": "A", "sentence2": "B", "label": -1.0, "idx": 2},
            "stsb sentence1: A sentence2: B",
            "-1.0",
        ),
    ),
)

QQP = labelled(
    "glue_qqp_v002",
    "QQP: do two questions ask the same?",
    word="qqp",
    keys=("question1", "question2"),
    source=glue_source(
        "qqp",
        folders=("QQP", "qqp"),
        table=Table(
            texts={"question1": "question1", "question2": "question2"},
            label="is_duplicate",
            classes=("not_duplicate", "duplicate"),
            leaves_out_broken=True,
        ),
        rows={"train": 363_849, "validation": 40_430, "test": 390_965},
        downloads=zip_of(
            "QQP", "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0", 41_696_084
        ),
    ),
    labels=("not_duplicate", "duplicate"),
    metrics=(f1_score_with_invalid, accuracy),
    examples=(
        example(
            {"question1": "How old is it?", "question2": "What is its age?", "label": 1, "idx": 0},
            "qqp question1: How old is it? question2: What is its age?",
            "duplicate",
        ),
        example(
            {"question1": "Who?", "question2": "When?", "label": 0, "idx": 1},
            "qqp question1: Who? question2: When?",
            "not_duplicate",
        ),
        example(
            {"question1": "Why?", "question2": "How?", "label": -1, "idx": 2},
            "qqp question1: Why? question2: How?",
            "<unk>",
        ),
    ),
)
