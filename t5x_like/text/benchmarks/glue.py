"""GLUE (Wang et al. 2019, https://gluebenchmark.com) in T5's templates (Raffel et al. 2020, appendix D).

Defines the tasks on acceptability, sentiment and similarity; entailment is in ``glue_inference``.
"""

from t5x_like.text.benchmarks.benchmark import Benchmark, FormattedRow
from t5x_like.text.benchmarks.glue_form import FOLDERS, SENTENCES, glue_source, glue_task, zip_of
from t5x_like.text.benchmarks.glue_inference import (
    AX,
    MNLI,
    MNLI_MATCHED,
    MNLI_MISMATCHED,
    QNLI,
    RTE,
    WNLI,
    WNLI_SIMPLE_EVAL,
)
from t5x_like.text.benchmarks.keyed_template import example, keyed_text, label_examples, number_word
from t5x_like.text.benchmarks.source import Download, FileLayout
from t5x_like.text.benchmarks.tsv import LISTED, TEST, TRAIN, ParaphraseFiles, Table
from t5x_like.text.heads import Regression
from t5x_like.text.metrics import (
    accuracy,
    f1_score_with_invalid,
    matthews_corrcoef,
    pearson_corrcoef,
    spearman_corrcoef,
)
from t5x_like.text.postprocessing import string_to_float
from t5x_like.text.templates import RowValues

_COLA_COLUMNS = ("source", "label", "mark", "sentence")
COLA = glue_task(
    "cola",
    "CoLA: is a sentence acceptable English?",
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
    metrics=(matthews_corrcoef,),
    examples=label_examples(
        ("sentence",),
        (("The baker slept.",), 1, "cola sentence: The baker slept.", "acceptable"),
        (("Slept baker the.",), 0, "cola sentence: Slept baker the.", "unacceptable"),
        (('  It\'s "so".',), -1, 'cola sentence:   It\'s "so".', "<unk>"),
    ),
)

SST2 = glue_task(
    "sst2",
    "SST-2: does a film review's sentence praise or blame?",
    folders=("SST-2", "SST2", "sst2"),
    table=Table(texts={"sentence": "sentence"}, classes=("negative", "positive")),
    rows={"train": 67_349, "validation": 872, "test": 1_821},
    downloads=zip_of("SST-2", "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa", 7_439_277),
    examples=label_examples(
        ("sentence",),
        (("a joy to watch ",), 1, "sst2 sentence: a joy to watch ", "positive"),
        (("flat , and too long",), 0, "sst2 sentence: flat , and too long", "negative"),
        (("it exists",), -1, "sst2 sentence: it exists", "<unk>"),
    ),
)

_SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
_MRPC_DEV = (
    "https://firebasestorage.googleapis.com/v0/b/mtl-sentence-representations.appspot.com/o/data%2Fmrpc_dev_ids.tsv"
    "?alt=media&token=ec5c0836-31d5-48f4-b431-7480817f1adc"
)
MRPC = glue_task(
    "mrpc",
    "MRPC: do two sentences of the news say the same?",
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
    downloads=tuple(
        Download(url=url, unpack={"": f"glue/MRPC/{name}"}, sha256=sha256, num_bytes=num_bytes)
        for url, name, sha256, num_bytes in (
            (
                f"{_SENTEVAL}/msr_paraphrase_train.txt",
                "msr_paraphrase_train.txt",
                "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
                1_047_044,
            ),
            (
                f"{_SENTEVAL}/msr_paraphrase_test.txt",
                "msr_paraphrase_test.txt",
                "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784",
                441_275,
            ),
            (
                _MRPC_DEV,
                "dev_ids.tsv",
                "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
                6_222,
            ),
        )
    ),
    metrics=(f1_score_with_invalid, accuracy),
    examples=tuple(
        example(
            {"sentence1": first, "sentence2": second, "label": label, "idx": idx},
            f"mrpc sentence1: {first} sentence2: {second}",
            targets,
        )
        for first, second, label, idx, targets in (
            ("Sales rose .", "Sales went up .", 1, 0, "equivalent"),
            ("Sales rose .", "Sales fell .", 0, 4, "not_equivalent"),
            ("No", " label ", -1, 7, "<unk>"),
        )
    ),
)


def stsb(row: RowValues) -> list[FormattedRow]:
    """Word STS-B: the target is the similarity in steps of 0.2 as text (``2.6``), or ``-1.0`` without a label."""
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
    ),
    word=stsb,
    postprocess=string_to_float,
    metrics=(pearson_corrcoef, spearman_corrcoef),
    extras={"idx": "int"},
    head=Regression(texts=("{sentence1}", "{sentence2}"), lowest=0.0, highest=5.0),
    examples=label_examples(
        tuple(SENTENCES),
        (
            ("A dog runs.", "A dog is running."),
            4.75,
            "stsb sentence1: A dog runs. sentence2: A dog is running.",
            "4.8",
        ),
        (("A dog.", "A cat."), 1.5, "stsb sentence1: A dog. sentence2: A cat.", "1.6"),
        (("A", "B"), -1.0, "stsb sentence1: A sentence2: B", "-1.0"),
    ),
)

QQP = glue_task(
    "qqp",
    "QQP: do two questions ask the same?",
    folders=("QQP", "qqp"),
    table=Table(
        texts={"question1": "question1", "question2": "question2"},
        label="is_duplicate",
        classes=("not_duplicate", "duplicate"),
        leaves_out_broken=True,
    ),
    rows={"train": 363_849, "validation": 40_430, "test": 390_965},
    downloads=zip_of("QQP", "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0", 41_696_084),
    metrics=(f1_score_with_invalid, accuracy),
    examples=label_examples(
        ("question1", "question2"),
        (
            ("How old is it?", "What is its age?"),
            1,
            "qqp question1: How old is it? question2: What is its age?",
            "duplicate",
        ),
        (("Who?", "When?"), 0, "qqp question1: Who? question2: When?", "not_duplicate"),
        (("Why?", "How?"), -1, "qqp question1: Why? question2: How?", "<unk>"),
    ),
)

BENCHMARKS = (
    COLA, SST2, MRPC, STSB, QQP, MNLI, MNLI_MATCHED, MNLI_MISMATCHED, QNLI, RTE, WNLI, WNLI_SIMPLE_EVAL, AX,
)  # fmt: skip
# WNLI is not trained on: T5 learns WSC and DPR instead (§2.4).
_MIXED = (COLA, SST2, MRPC, QQP, STSB, MNLI, QNLI, RTE, MNLI_MISMATCHED, MNLI_MATCHED, AX)
MIXTURES = {
    "glue_v002_proportional": {each.name: float(each.num_training_examples) for each in _MIXED},
    "glue_mnli_and_dev_v002": {each.name: 1.0 for each in (MNLI, MNLI_MISMATCHED, MNLI_MATCHED)},
}
