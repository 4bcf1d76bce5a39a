"""GLUE's pairs of which one may follow from the other: MNLI, AX, QNLI, RTE, WNLI."""

from collections.abc import Mapping

from t5x_like.text.benchmarks.benchmark import Benchmark
from t5x_like.text.benchmarks.glue_form import ENTAILMENT, MNLI_LABELS, SENTENCES, glue_source, zip_of
from t5x_like.text.benchmarks.keyed_wording import example, labelled
from t5x_like.text.benchmarks.source import Download
from t5x_like.text.benchmarks.tsv import Table
from t5x_like.text.benchmarks.wnli_pronouns import wnli_simple
from t5x_like.text.metrics import accuracy
from t5x_like.text.postprocessing import wsc_simple

_MNLI_FILES = {
    "train": ("train.tsv",),
    "validation_matched": ("dev_matched.tsv",),
    "validation_mismatched": ("dev_mismatched.tsv",),
    "test_matched": ("test_matched.tsv",),
    "test_mismatched": ("test_mismatched.tsv",),
}
_PREMISE = {"premise": "sentence1", "hypothesis": "sentence2"}  # TFDS's columns, and the files'

_MNLI_ZIP = zip_of("MNLI", "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633", 312_783_507)
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
    return labelled(
        f"glue_{config}_v002",
        f"MNLI{f', {part} genres' if part else ''}: does a premise entail a hypothesis, contradict it, or neither?",
        word="mnli",
        keys=("hypothesis", "premise"),
        source=glue_source(
            config,
            folders=("MNLI", "mnli", "MultiNLI"),
            table=_MNLI_TABLE,
            files=files,
            rows=rows,
            downloads=_MNLI_ZIP,
        ),
        labels=MNLI_LABELS,
        training_task="glue_mnli_v002" if part else "",
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

AX = labelled(
    "glue_ax_v002",
    "AX: GLUE's diagnostic pairs, worded as MNLI",
    word="mnli",
    keys=("hypothesis", "premise"),
    source=glue_source(
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
    training_task="glue_mnli_v002",
    examples=_UNLABELLED_EXAMPLES,
)

QNLI = labelled(
    "glue_qnli_v002",
    "QNLI: does a sentence answer a question?",
    word="qnli",
    keys=("question", "sentence"),
    source=glue_source(
        "qnli",
        folders=("QNLI", "QNLIv2", "qnli"),
        table=Table(texts={"question": "question", "sentence": "sentence"}, classes=ENTAILMENT),
        rows={"train": 104_743, "validation": 5_463, "test": 5_463},
        downloads=zip_of(
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

RTE = labelled(
    "glue_rte_v002",
    "RTE: does a text entail a hypothesis?",
    word="rte",
    keys=SENTENCES,
    source=glue_source(
        "rte",
        folders=("RTE", "rte"),
        table=Table(texts=SENTENCES, classes=ENTAILMENT),
        rows={"train": 2_490, "validation": 277, "test": 3_000},
        downloads=zip_of("RTE", "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee", 697_150),
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
WNLI = labelled(
    "glue_wnli_v002",
    "WNLI: does a sentence with its pronoun filled in follow?",
    word="wnli",
    keys=SENTENCES,
    source=glue_source(
        "wnli",
        folders=("WNLI", "wnli"),
        table=Table(texts=SENTENCES, classes=_WNLI_LABELS),
        rows={"train": 635, "validation": 71, "test": 146},
        downloads=zip_of("WNLI", "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46", 28_999),
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
    read_by_heads=WNLI.name,
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
