"""GLUE (Wang et al. 2019, https://gluebenchmark.com), as T5 words it: https://arxiv.org/abs/1910.10683, appendix D."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from t5x_like.text.metrics import (
    accuracy,
    f1_score_with_invalid,
    matthews_corrcoef,
    pearson_corrcoef,
    spearman_corrcoef,
)
from t5x_like.text.postprocessing import string_label_to_class_id, string_to_float, wsc_simple
from t5x_like.text.tasks.benchmarks.benchmark import Benchmark, Example, MetricFunction, WordedRow
from t5x_like.text.tasks.benchmarks.forms import Classes, Number
from t5x_like.text.tasks.benchmarks.keyed_wording import Keyed, keyed_text, number_word
from t5x_like.text.tasks.benchmarks.mrpc_files import LISTED, TEST, TRAIN, ParaphraseFiles
from t5x_like.text.tasks.benchmarks.source import Columns, Download, Layout, RawRow, Source
from t5x_like.text.tasks.benchmarks.tsv import Table
from t5x_like.text.tasks.benchmarks.wnli_pronouns import wnli_simple

HOME = "https://gluebenchmark.com/tasks"
CITATION = "Wang et al. 2019, GLUE, https://arxiv.org/abs/1804.07461"
LICENCE = "each corpus has its own; see https://gluebenchmark.com/faq"
_SERVER = "https://dl.fbaipublicfiles.com/glue/data"
_FOLDERS = ("glue", "GLUE", "glue_data", ".")

ENTAILMENT = ("entailment", "not_entailment")
MNLI_LABELS = ("entailment", "neutral", "contradiction")
_FILES = {"train": ("train.tsv",), "validation": ("dev.tsv",), "test": ("test.tsv",)}
_MNLI_FILES = {
    "train": ("train.tsv",),
    "validation_matched": ("dev_matched.tsv",),
    "validation_mismatched": ("dev_mismatched.tsv",),
    "test_matched": ("test_matched.tsv",),
    "test_mismatched": ("test_mismatched.tsv",),
}
_SENTENCES = {"sentence1": "sentence1", "sentence2": "sentence2"}
_PREMISE = {"premise": "sentence1", "hypothesis": "sentence2"}  # TFDS's columns, and the files'


def _zip(name: str, sha256: str, num_bytes: int) -> tuple[Download, ...]:
    return (Download(url=f"{_SERVER}/{name}.zip", unpack={"": "glue/"}, sha256=sha256, num_bytes=num_bytes),)


def _source(
    config: str,
    *,
    folders: Sequence[str],
    table: Table,
    rows: Mapping[str, int],
    downloads: tuple[Download, ...],
    files: Mapping[str, tuple[str, ...]] = _FILES,
    label: str = "int",
    others: tuple[Layout, ...] = (),
) -> Source:
    below = [f"{root}/{folder}" for root in _FOLDERS for folder in folders]
    columns: Columns = {**dict.fromkeys(table.texts, "text"), "label": label, "idx": "int"}  # pyright: ignore[reportAssignmentType]
    return Source(
        tfds=f"glue/{config}:2.0.0",
        layouts=(
            Layout(
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


def _labelled(
    name: str,
    title: str,
    *,
    word: str,
    keys: Mapping[str, str] | Sequence[str],
    source: Source,
    labels: tuple[str, ...],
    metrics: tuple[MetricFunction, ...] = (accuracy,),
    examples: tuple[Example, ...],
) -> Benchmark:
    columns = dict(keys) if isinstance(keys, Mapping) else {key: key for key in keys}
    texts = tuple(f"{{{column}}}" for column in source.columns if column not in ("label", "idx"))
    return Benchmark(
        name=name,
        title=title,
        source=source,
        word=Keyed(word=word, columns=columns, labels=labels),
        postprocess=partial(string_label_to_class_id, label_classes=labels),
        metrics=metrics,
        labels=labels,
        extras={"idx": "int"},
        form=Classes(texts=texts, classes=labels),
        examples=examples,
    )


def example(row: RawRow, inputs: str, targets: str, **extras: Any) -> Example:
    """A row that becomes one example, known by its ``idx``."""
    return Example(row, ({"inputs": inputs, "targets": targets, "idx": row["idx"], **extras},))


_COLA_COLUMNS = ("source", "label", "mark", "sentence")
_cola = _source(
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
    downloads=_zip("CoLA", "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff", 376_971),
)
COLA = _labelled(
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

SST2 = _labelled(
    "glue_sst2_v002",
    "SST-2: does a film review's sentence praise or blame?",
    word="sst2",
    keys=("sentence",),
    source=_source(
        "sst2",
        folders=("SST-2", "SST2", "sst2"),
        table=Table(texts={"sentence": "sentence"}, classes=("negative", "positive")),
        rows={"train": 67_349, "validation": 872, "test": 1_821},
        downloads=_zip(
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
MRPC = _labelled(
    "glue_mrpc_v002",
    "MRPC: do two sentences of the news say the same?",
    word="mrpc",
    keys=_SENTENCES,
    source=_source(
        "mrpc",
        folders=("MRPC", "mrpc"),
        table=Table(
            texts={"sentence1": "#1 String", "sentence2": "#2 String"},
            label="Quality",
            classes=("not_equivalent", "equivalent"),
        ),
        others=(
            Layout(
                name="Microsoft's files",
                files={
                    split: tuple(
                        f"{root}/{folder}/{name}" for root in _FOLDERS for folder in ("MRPC", "mrpc")
                    )
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


def stsb(row: RawRow) -> list[WordedRow]:
    """How alike two sentences are, in steps of 0.2 as text: ``2.6``; ``-1.0`` where unlabelled."""
    inputs = keyed_text("stsb", _SENTENCES, row)
    return [{"inputs": inputs, "targets": number_word(row["label"]), "idx": row["idx"]}]


STSB = Benchmark(
    name="glue_stsb_v002",
    title="STS-B: how alike are two sentences, from 0 to 5?",
    source=_source(
        "stsb",
        folders=("STS-B", "STSB", "stsb"),
        table=Table(texts=_SENTENCES, label="score"),
        rows={"train": 5_749, "validation": 1_500, "test": 1_379},
        downloads=_zip("STS-B", "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85", 802_872),
        label="float",
    ),
    word=stsb,
    postprocess=string_to_float,
    metrics=(pearson_corrcoef, spearman_corrcoef),
    extras={"idx": "int"},
    form=Number(texts=("{sentence1}", "{sentence2}"), lowest=0.0, highest=5.0),
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

QQP = _labelled(
    "glue_qqp_v002",
    "QQP: do two questions ask the same?",
    word="qqp",
    keys=("question1", "question2"),
    source=_source(
        "qqp",
        folders=("QQP", "qqp"),
        table=Table(
            texts={"question1": "question1", "question2": "question2"},
            label="is_duplicate",
            classes=("not_duplicate", "duplicate"),
            leaves_out_broken=True,
        ),
        rows={"train": 363_849, "validation": 40_430, "test": 390_965},
        downloads=_zip("QQP", "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0", 41_696_084),
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

_MNLI_ZIP = _zip("MNLI", "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633", 312_783_507)
_MNLI_TABLE = Table(texts=_PREMISE, label="gold_label", classes=MNLI_LABELS)
_MNLI_EXAMPLES = (
    example(
        {"premise": "Two men row a boat.", "hypothesis": "People row.", "label": 0, "idx": 0},
        "mnli hypothesis: People row. premise: Two men row a boat.",
        "entailment",
    ),
    example(
        {"premise": "Two men row a boat.", "hypothesis": "They are brothers.", "label": 1, "idx": 1},
        "mnli hypothesis: They are brothers. premise: Two men row a boat.",
        "neutral",
    ),
    example(
        {"premise": "Two men row a boat.", "hypothesis": "Nobody rows.", "label": 2, "idx": 2},
        "mnli hypothesis: Nobody rows. premise: Two men row a boat.",
        "contradiction",
    ),
)
_UNLABELLED_EXAMPLES = tuple(
    example({**row, "label": -1}, worded[0]["inputs"], "<unk>") for row, worded in _MNLI_EXAMPLES
)


def _mnli(part: str, rows: Mapping[str, int], files: Mapping[str, tuple[str, ...]]) -> Benchmark:
    config = f"mnli_{part}" if part else "mnli"
    return _labelled(
        f"glue_{config}_v002",
        f"MNLI{f', {part} genres' if part else ''}: does a premise entail a hypothesis, contradict it, or neither?",
        word="mnli",
        keys=("hypothesis", "premise"),
        source=_source(
            config,
            folders=("MNLI", "mnli", "MultiNLI"),
            table=_MNLI_TABLE,
            files=files,
            rows=rows,
            downloads=_MNLI_ZIP,
        ),
        labels=MNLI_LABELS,
        examples=_MNLI_EXAMPLES,
    )


MNLI = _mnli(
    "",
    {
        "train": 392_702,
        "validation_matched": 9_815,
        "validation_mismatched": 9_832,
        "test_matched": 9_796,
        "test_mismatched": 9_847,
    },
    _MNLI_FILES,
)
MNLI_MATCHED = _mnli(
    "matched",
    {"validation": 9_815, "test": 9_796},
    {"validation": ("dev_matched.tsv",), "test": ("test_matched.tsv",)},
)
MNLI_MISMATCHED = _mnli(
    "mismatched",
    {"validation": 9_832, "test": 9_847},
    {"validation": ("dev_mismatched.tsv",), "test": ("test_mismatched.tsv",)},
)

AX = _labelled(
    "glue_ax_v002",
    "AX: GLUE's diagnostic pairs, worded as MNLI",
    word="mnli",
    keys=("hypothesis", "premise"),
    source=_source(
        "ax",
        folders=("AX", "ax", "diagnostic"),
        table=Table(texts=_PREMISE, classes=MNLI_LABELS),
        files={"test": ("AX.tsv", "diagnostic.tsv", "test.tsv")},
        rows={"test": 1_104},
        downloads=(
            Download(
                url="https://bit.ly/2BOtOJ7",
                unpack={"": "glue/AX/AX.tsv"},
                sha256="0e13510b1bb14436ff7e2ee82338f0efb0133ecf2e73507a697dc210db3f05fd",
                num_bytes=222_257,
            ),
        ),
    ),
    labels=MNLI_LABELS,
    metrics=(),
    examples=_UNLABELLED_EXAMPLES,
)

QNLI = _labelled(
    "glue_qnli_v002",
    "QNLI: does a sentence answer a question?",
    word="qnli",
    keys=("question", "sentence"),
    source=_source(
        "qnli",
        folders=("QNLI", "QNLIv2", "qnli"),
        table=Table(texts={"question": "question", "sentence": "sentence"}, classes=ENTAILMENT),
        rows={"train": 104_743, "validation": 5_463, "test": 5_463},
        downloads=_zip(
            "QNLIv2", "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5", 10_627_589
        ),
    ),
    labels=ENTAILMENT,
    examples=(
        example(
            {"question": "Who won?", "sentence": "Ann won the race.", "label": 0, "idx": 0},
            "qnli question: Who won? sentence: Ann won the race.",
            "entailment",
        ),
        example(
            {"question": "Who won?", "sentence": "It rained.", "label": 1, "idx": 1},
            "qnli question: Who won? sentence: It rained.",
            "not_entailment",
        ),
        example(
            {"question": "Who?", "sentence": "question: me", "label": -1, "idx": 2},
            "qnli question: Who? sentence: question: me",
            "<unk>",
        ),
    ),
)

RTE = _labelled(
    "glue_rte_v002",
    "RTE: does a text entail a hypothesis?",
    word="rte",
    keys=_SENTENCES,
    source=_source(
        "rte",
        folders=("RTE", "rte"),
        table=Table(texts=_SENTENCES, classes=ENTAILMENT),
        rows={"train": 2_490, "validation": 277, "test": 3_000},
        downloads=_zip("RTE", "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee", 697_150),
    ),
    labels=ENTAILMENT,
    examples=(
        example(
            {"sentence1": "Oslo is in Norway.", "sentence2": "Norway has a city.", "label": 0, "idx": 0},
            "rte sentence1: Oslo is in Norway. sentence2: Norway has a city.",
            "entailment",
        ),
        example(
            {"sentence1": "Oslo is old.", "sentence2": "Oslo is new.", "label": 1, "idx": 1},
            "rte sentence1: Oslo is old. sentence2: Oslo is new.",
            "not_entailment",
        ),
        example(
            {"sentence1": "A", "sentence2": "", "label": -1, "idx": 2},
            "rte sentence1: A sentence2: ",
            "<unk>",
        ),
    ),
)

_WNLI_LABELS = ("not_entailment", "entailment")
WNLI = _labelled(
    "glue_wnli_v002",
    "WNLI: does a sentence with its pronoun filled in follow?",
    word="wnli",
    keys=_SENTENCES,
    source=_source(
        "wnli",
        folders=("WNLI", "wnli"),
        table=Table(texts=_SENTENCES, classes=_WNLI_LABELS),
        rows={"train": 635, "validation": 71, "test": 146},
        downloads=_zip("WNLI", "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46", 28_999),
    ),
    labels=_WNLI_LABELS,
    examples=(
        example(
            {"sentence1": "Ann saw Bo as he left.", "sentence2": "Bo left.", "label": 1, "idx": 0},
            "wnli sentence1: Ann saw Bo as he left. sentence2: Bo left.",
            "entailment",
        ),
        example(
            {"sentence1": "Ann saw Bo as he left.", "sentence2": "Ann left.", "label": 0, "idx": 1},
            "wnli sentence1: Ann saw Bo as he left. sentence2: Ann left.",
            "not_entailment",
        ),
        example(
            {"sentence1": "It broke.", "sentence2": "The cup broke.", "label": -1, "idx": 2},
            "wnli sentence1: It broke. sentence2: The cup broke.",
            "<unk>",
        ),
    ),
)

WNLI_SIMPLE_EVAL = Benchmark(
    name="glue_wnli_v002_simple_eval",
    title="WNLI with its pronoun marked, to evaluate what learned from WSC and DPR",
    source=WNLI.source,
    splits=("validation", "test"),
    word=wnli_simple,
    postprocess=wsc_simple,
    metrics=(accuracy,),
    extras={"premise": "text", "hypothesis": "text", "label": "int", "idx": "int"},
    examples=(
        example(
            {"sentence1": "Ann saw Bo as he left.", "sentence2": "Bo left.", "label": 1, "idx": 0},
            "wsc: Ann saw Bo as *he* left.",
            "Bo",
            premise="Ann saw Bo as he left.",
            hypothesis="Bo left.",
            label=1,
        ),
        example(
            {
                "sentence1": "The cup fell, so I kept it.",
                "sentence2": "I kept the cup.",
                "label": 1,
                "idx": 1,
            },
            "wsc: The cup fell, so I kept *it* .",
            "the cup",
            premise="The cup fell, so I kept it.",
            hypothesis="I kept the cup.",
            label=1,
        ),
        example(
            {"sentence1": "Bo met Al and his dog ran.", "sentence2": "Al's dog ran.", "label": -1, "idx": 2},
            "wsc: Bo met Al and *his* dog ran.",
            "Al",
            premise="Bo met Al and his dog ran.",
            hypothesis="Al's dog ran.",
            label=-1,
        ),
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
