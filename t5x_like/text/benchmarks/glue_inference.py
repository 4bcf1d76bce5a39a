"""GLUE's entailment tasks: MNLI, AX, QNLI, RTE, WNLI."""

from collections.abc import Mapping

from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.glue_form import ENTAILMENT, MNLI_LABELS, SENTENCES, glue_task, zip_of
from t5x_like.text.benchmarks.keyed_template import example, label_examples
from t5x_like.text.benchmarks.source import Download
from t5x_like.text.benchmarks.tsv import Table
from t5x_like.text.benchmarks.wnli_pronouns import wnli_simple
from t5x_like.text.metrics import accuracy
from t5x_like.text.postprocessing import wsc_simple

_PAIR = {"premise": "sentence1", "hypothesis": "sentence2"}  # TFDS's columns, and the files'
_BOAT = "Two men row a boat."
_MNLI_CASES = (
    ((_BOAT, "People row."), 0, "mnli hypothesis: People row. premise: Two men row a boat.", "entailment"),
    ((_BOAT, "They are brothers."), 1, "mnli hypothesis: They are brothers. premise: Two men row a boat.", "neutral"),
    ((_BOAT, "Nobody rows."), 2, "mnli hypothesis: Nobody rows. premise: Two men row a boat.", "contradiction"),
)  # fmt: skip


def _mnli(part: str, rows: Mapping[str, int]) -> Benchmark:
    """Define MNLI, or its ``matched`` or ``mismatched`` part."""
    files = {split: split.replace("validation", "dev") for split in rows}
    if part:
        files = {split: f"{name}_{part}" for split, name in files.items()}
    return glue_task(
        f"mnli_{part}" if part else "mnli",
        f"MNLI{f', {part} genres' if part else ''}: does a premise entail a hypothesis, contradict it, or neither?",
        word="mnli",
        folders=("MNLI", "mnli", "MultiNLI"),
        table=Table(texts=_PAIR, label="gold_label", classes=MNLI_LABELS),
        files={split: (f"{name}.tsv",) for split, name in files.items()},
        rows=rows,
        downloads=zip_of(
            "MNLI", "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633", 312_783_507
        ),
        training_task="glue_mnli_v002" if part else "",
        examples=label_examples(tuple(_PAIR), *_MNLI_CASES),
    )


_MNLI_ROWS = {
    "train": 392_702,
    "validation_matched": 9_815,
    "validation_mismatched": 9_832,
    "test_matched": 9_796,
    "test_mismatched": 9_847,
}
MNLI = _mnli("", _MNLI_ROWS)
MNLI_MATCHED = _mnli("matched", {"validation": 9_815, "test": 9_796})
MNLI_MISMATCHED = _mnli("mismatched", {"validation": 9_832, "test": 9_847})

AX = glue_task(
    "ax",
    "AX: GLUE's diagnostic pairs, formatted as MNLI",
    word="mnli",
    folders=("AX", "ax", "diagnostic"),
    table=Table(texts=_PAIR, classes=MNLI_LABELS),
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
    metrics=(),
    training_task="glue_mnli_v002",
    examples=label_examples(
        tuple(_PAIR), *((texts, -1, inputs, "<unk>") for texts, _, inputs, _ in _MNLI_CASES)
    ),
)

QNLI = glue_task(
    "qnli",
    "QNLI: does a sentence answer a question?",
    folders=("QNLI", "QNLIv2", "qnli"),
    table=Table(texts={"question": "question", "sentence": "sentence"}, classes=ENTAILMENT),
    rows={"train": 104_743, "validation": 5_463, "test": 5_463},
    downloads=zip_of(
        "QNLIv2", "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5", 10_627_589
    ),
    examples=label_examples(
        ("question", "sentence"),
        (
            ("Who won?", "Ann won the race."),
            0,
            "qnli question: Who won? sentence: Ann won the race.",
            "entailment",
        ),
        (("Who won?", "It rained."), 1, "qnli question: Who won? sentence: It rained.", "not_entailment"),
        (("Who?", "question: me"), -1, "qnli question: Who? sentence: question: me", "<unk>"),
    ),
)

RTE = glue_task(
    "rte",
    "RTE: does a text entail a hypothesis?",
    folders=("RTE", "rte"),
    table=Table(texts=SENTENCES, classes=ENTAILMENT),
    rows={"train": 2_490, "validation": 277, "test": 3_000},
    downloads=zip_of("RTE", "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee", 697_150),
    examples=label_examples(
        tuple(SENTENCES),
        (
            ("Oslo is in Norway.", "Norway has a city."),
            0,
            "rte sentence1: Oslo is in Norway. sentence2: Norway has a city.",
            "entailment",
        ),
        (
            ("Oslo is old.", "Oslo is new."),
            1,
            "rte sentence1: Oslo is old. sentence2: Oslo is new.",
            "not_entailment",
        ),
        (("A", ""), -1, "rte sentence1: A sentence2: ", "<unk>"),
    ),
)

WNLI = glue_task(
    "wnli",
    "WNLI: does a sentence with its pronoun filled in follow?",
    folders=("WNLI", "wnli"),
    table=Table(texts=SENTENCES, classes=ENTAILMENT[::-1]),
    rows={"train": 635, "validation": 71, "test": 146},
    downloads=zip_of("WNLI", "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46", 28_999),
    examples=label_examples(
        tuple(SENTENCES),
        (
            ("Ann saw Bo as he left.", "Bo left."),
            1,
            "wnli sentence1: Ann saw Bo as he left. sentence2: Bo left.",
            "entailment",
        ),
        (
            ("Ann saw Bo as he left.", "Ann left."),
            0,
            "wnli sentence1: Ann saw Bo as he left. sentence2: Ann left.",
            "not_entailment",
        ),
        (("It broke.", "The cup broke."), -1, "wnli sentence1: It broke. sentence2: The cup broke.", "<unk>"),
    ),
)


def _marked_example(
    sentence1: str, sentence2: str, label: int, idx: int, *, inputs: str, targets: str
) -> GoldenExample:
    row = {"sentence1": sentence1, "sentence2": sentence2, "label": label, "idx": idx}
    return example(row, inputs, targets, premise=sentence1, hypothesis=sentence2, label=label)


WNLI_SIMPLE_EVAL = Benchmark(
    name="glue_wnli_v002_simple_eval",
    title="WNLI with its pronoun marked, to evaluate what learned from WSC and DPR",
    source=WNLI.source,
    splits=("validation", "test"),
    head_task=WNLI.name,
    word=wnli_simple,
    postprocess=wsc_simple,
    metrics=(accuracy,),
    extras={"premise": "text", "hypothesis": "text", "label": "int", "idx": "int"},
    examples=(
        _marked_example(
            "Ann saw Bo as he left.", "Bo left.", 1, 0, inputs="wsc: Ann saw Bo as *he* left.", targets="Bo"
        ),
        _marked_example(
            "The cup fell, so I kept it.",
            "I kept the cup.",
            1,
            1,
            inputs="wsc: The cup fell, so I kept *it* .",
            targets="the cup",
        ),
        _marked_example(
            "Bo met Al and his dog ran.",
            "Al's dog ran.",
            -1,
            2,
            inputs="wsc: Bo met Al and *his* dog ran.",
            targets="Al",
        ),
    ),
)
