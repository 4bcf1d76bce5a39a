"""SuperGLUE's pairs of which one may follow from the other: CB, RTE, AX-b, AX-g."""

from t5x_like.text.benchmarks import super_glue_json
from t5x_like.text.benchmarks.benchmark import GoldenExample
from t5x_like.text.benchmarks.keyed_wording import UNLABELLED, example, labelled
from t5x_like.text.benchmarks.source import Columns
from t5x_like.text.benchmarks.super_glue_form import same, super_glue_source
from t5x_like.text.metrics import (
    accuracy,
    mean_multiclass_f1,
)

_ENTAILMENT = ("entailment", "not_entailment")
_CB_LABELS = ("entailment", "contradiction", "neutral")

_PAIR: Columns = {"premise": "text", "hypothesis": "text"}
_PAIR_PARSED = super_glue_json.flat("premise", "hypothesis")


def _pair(premise: str, hypothesis: str, label: int, idx: int, *, word: str, targets: str) -> GoldenExample:
    row = {"premise": premise, "hypothesis": hypothesis, "label": label, "idx": idx}
    return example(row, f"{word} hypothesis: {hypothesis} premise: {premise}", targets)


CB = labelled(
    "super_glue_cb_v102",
    "CB: does a text commit its author to a clause in it?",
    word="cb",
    keys=same("hypothesis", "premise"),
    source=super_glue_source(
        "cb",
        "CB",
        columns=_PAIR,
        rows={"train": 250, "validation": 56, "test": 250},
        sha256="8d641383298d54554066ba1c93f56ae7410af75df621b90c63028806bbbbb535",
        num_bytes=75_482,
        parse=_PAIR_PARSED,
        classes=_CB_LABELS,
    ),
    labels=_CB_LABELS,
    metrics=(mean_multiclass_f1(num_classes=3), accuracy),
    examples=(
        _pair("I know that he left.", "he left", 0, 0, word="cb", targets="entailment"),
        _pair("I don't think he left.", "he left", 1, 1, word="cb", targets="contradiction"),
        _pair("Did he say she left?", "she left", 2, 2, word="cb", targets="neutral"),
    ),
)

RTE = labelled(
    "super_glue_rte_v102",
    "RTE: does a text entail a hypothesis?",
    word="rte",
    keys=same("hypothesis", "premise"),
    source=super_glue_source(
        "rte",
        "RTE",
        columns=_PAIR,
        rows={"train": 2_490, "validation": 277, "test": 3_000},
        sha256="6310aab3f000424c9d0318a1ff20692e07c7f4aa15e8f17a5972ea0a35c398b9",
        num_bytes=750_920,
        parse=_PAIR_PARSED,
        classes=_ENTAILMENT,
    ),
    labels=_ENTAILMENT,
    examples=(
        _pair("Oslo is in Norway.", "Norway has a city.", 0, 0, word="rte", targets="entailment"),
        _pair("Oslo is old.", "Oslo is new.", 1, 1, word="rte", targets="not_entailment"),
        _pair("A", "", -1, 2, word="rte", targets=UNLABELLED),
    ),
)

AXB = labelled(
    "super_glue_axb_v102",
    "AX-b: SuperGLUE's broad diagnostic pairs, worded as RTE",
    word="rte",
    keys={"hypothesis": "sentence2", "premise": "sentence1"},
    source=super_glue_source(
        "axb",
        "AX-b",
        columns={"sentence1": "text", "sentence2": "text"},
        rows={"test": 1_104},
        sha256="43b45c55a273575c58a33cd68f10a971f83daa3aa223bfbc4077b92fbdf960b3",
        num_bytes=33_950,
        parse=super_glue_json.flat("sentence1", "sentence2"),
        classes=_ENTAILMENT,
    ),
    labels=_ENTAILMENT,
    metrics=(),
    training_task="super_glue_rte_v102",
    examples=tuple(
        example(
            {"sentence1": "Ann ran.", "sentence2": "She ran.", "label": label, "idx": idx},
            "rte hypothesis: She ran. premise: Ann ran.",
            targets,
        )
        for idx, (label, targets) in enumerate([(0, "entailment"), (1, "not_entailment"), (-1, UNLABELLED)])
    ),
)
AXG = labelled(
    "super_glue_axg_v102",
    "AX-g: SuperGLUE's diagnostic pairs on gender, worded as RTE",
    word="rte",
    keys=same("hypothesis", "premise"),
    source=super_glue_source(
        "axg",
        "AX-g",
        columns=_PAIR,
        rows={"test": 356},
        sha256="2d4e00d3a7d23d2c3787ee4c1382cc81a72cb05a76fc9d78d142949247ed61b9",
        num_bytes=10_413,
        parse=_PAIR_PARSED,
        classes=_ENTAILMENT,
    ),
    labels=_ENTAILMENT,
    metrics=(),
    training_task="super_glue_rte_v102",
    examples=(
        _pair("The cook met him.", "A cook met him.", 0, 0, word="rte", targets="entailment"),
        _pair("The cook met him.", "The cook met her.", 1, 1, word="rte", targets="not_entailment"),
        _pair("A", " B", -1, 2, word="rte", targets=UNLABELLED),
    ),
)
