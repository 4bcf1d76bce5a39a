"""SuperGLUE's entailment tasks: CB, RTE, AX-b, AX-g."""

from t5x_like.text.benchmarks.keyed_template import UNLABELED, label_examples
from t5x_like.text.benchmarks.source import Columns
from t5x_like.text.benchmarks.super_glue_form import super_glue_task
from t5x_like.text.metrics import accuracy, mean_multiclass_f1

_ENTAILMENT = ("entailment", "not_entailment")
_PAIR: Columns = {"premise": "text", "hypothesis": "text"}

CB = super_glue_task(
    "CB",
    "CB: does a text commit its author to a clause in it?",
    columns=_PAIR,
    rows={"train": 250, "validation": 56, "test": 250},
    sha256="8d641383298d54554066ba1c93f56ae7410af75df621b90c63028806bbbbb535",
    num_bytes=75_482,
    labels=("entailment", "contradiction", "neutral"),
    metrics=(mean_multiclass_f1(num_classes=3), accuracy),
    examples=label_examples(
        tuple(_PAIR),
        (
            ("I know that he left.", "he left"),
            0,
            "cb hypothesis: he left premise: I know that he left.",
            "entailment",
        ),
        (
            ("I don't think he left.", "he left"),
            1,
            "cb hypothesis: he left premise: I don't think he left.",
            "contradiction",
        ),
        (
            ("Did he say she left?", "she left"),
            2,
            "cb hypothesis: she left premise: Did he say she left?",
            "neutral",
        ),
    ),
)

RTE = super_glue_task(
    "RTE",
    "RTE: does a text entail a hypothesis?",
    columns=_PAIR,
    rows={"train": 2_490, "validation": 277, "test": 3_000},
    sha256="6310aab3f000424c9d0318a1ff20692e07c7f4aa15e8f17a5972ea0a35c398b9",
    num_bytes=750_920,
    labels=_ENTAILMENT,
    examples=label_examples(
        tuple(_PAIR),
        (
            ("Oslo is in Norway.", "Norway has a city."),
            0,
            "rte hypothesis: Norway has a city. premise: Oslo is in Norway.",
            "entailment",
        ),
        (
            ("Oslo is old.", "Oslo is new."),
            1,
            "rte hypothesis: Oslo is new. premise: Oslo is old.",
            "not_entailment",
        ),
        (("A", ""), -1, "rte hypothesis:  premise: A", UNLABELED),
    ),
)

AXB = super_glue_task(
    "AX-b",
    "AX-b: SuperGLUE's broad diagnostic pairs, formatted as RTE",
    word="rte",
    keys={"hypothesis": "sentence2", "premise": "sentence1"},
    columns={"sentence1": "text", "sentence2": "text"},
    rows={"test": 1_104},
    sha256="43b45c55a273575c58a33cd68f10a971f83daa3aa223bfbc4077b92fbdf960b3",
    num_bytes=33_950,
    labels=_ENTAILMENT,
    metrics=(),
    training_task="super_glue_rte_v102",
    examples=label_examples(
        ("sentence1", "sentence2"),
        *(
            (("Ann ran.", "She ran."), label, "rte hypothesis: She ran. premise: Ann ran.", targets)
            for label, targets in ((0, "entailment"), (1, "not_entailment"), (-1, UNLABELED))
        ),
    ),
)

_MET = "The cook met him."
AXG = super_glue_task(
    "AX-g",
    "AX-g: SuperGLUE's diagnostic pairs on gender, formatted as RTE",
    word="rte",
    columns=_PAIR,
    rows={"test": 356},
    sha256="2d4e00d3a7d23d2c3787ee4c1382cc81a72cb05a76fc9d78d142949247ed61b9",
    num_bytes=10_413,
    labels=_ENTAILMENT,
    metrics=(),
    training_task="super_glue_rte_v102",
    examples=label_examples(
        tuple(_PAIR),
        (
            (_MET, "A cook met him."),
            0,
            "rte hypothesis: A cook met him. premise: The cook met him.",
            "entailment",
        ),
        (
            (_MET, "The cook met her."),
            1,
            "rte hypothesis: The cook met her. premise: The cook met him.",
            "not_entailment",
        ),
        (("A", " B"), -1, "rte hypothesis:  B premise: A", UNLABELED),
    ),
)
