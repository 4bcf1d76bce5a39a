"""SuperGLUE (Wang et al. 2019, https://super.gluebenchmark.com) in T5's templates (https://arxiv.org/abs/1910.10683).

Defines WiC and WSC; the other tasks are in ``super_glue_inference`` and ``super_glue_questions``.
"""

from functools import partial

from t5x_like.text import postprocessing
from t5x_like.text.benchmarks import dpr, super_glue_json
from t5x_like.text.benchmarks.benchmark import Benchmark, GoldenExample
from t5x_like.text.benchmarks.keyed_template import UNLABELED, example
from t5x_like.text.benchmarks.pronouns import (
    FALSE_TRUE,
    wsc_marked_spans,
    wsc_simple,
    wsc_simple_right_only,
)
from t5x_like.text.benchmarks.super_glue_form import super_glue_source, super_glue_task
from t5x_like.text.benchmarks.super_glue_inference import AXB, AXG, CB, RTE
from t5x_like.text.benchmarks.super_glue_questions import BOOLQ, COPA, MULTIRC, RECORD
from t5x_like.text.heads import SequenceClassification
from t5x_like.text.metrics import accuracy
from t5x_like.text.postprocessing import string_label_to_class_id

_WIC_TEXTS = ("word", "sentence1", "sentence2")
_WIC_PLACES = ("start1", "start2", "end1", "end2")
WIC = super_glue_task(
    "WiC",
    "WiC: does a word mean the same in two sentences?",
    columns={**dict.fromkeys(_WIC_TEXTS, "text"), **dict.fromkeys(_WIC_PLACES, "int")},  # pyright: ignore[reportArgumentType]
    rows={"train": 5_428, "validation": 638, "test": 1_400},
    sha256="ee7e67f4ae9eafbf533780faa198e62167f3cda54256cdf261877be3c0e90900",
    num_bytes=396_213,
    labels=FALSE_TRUE,
    head=SequenceClassification(texts=("{word}: {sentence1}", "{sentence2}"), classes=FALSE_TRUE),
    examples=tuple(
        example(
            {"word": "bat", "sentence1": "A bat flew.", "sentence2": second, "label": label, "idx": idx}
            | {"start1": 2, "end1": 5, "start2": 2, "end2": 5},
            f"wic sentence1: A bat flew. sentence2: {second} word: bat",
            targets,
        )
        for idx, (second, label, targets) in enumerate(
            [("A bat bit me.", 1, "True"), ("A bat hit it.", 0, "False"), ("A bat.", -1, UNLABELED)]
        )
    ),
)

_WSC = super_glue_source(
    "wsc.fixed",
    "WSC",
    columns={
        "text": "text",
        "span1_index": "int",
        "span2_index": "int",
        "span1_text": "text",
        "span2_text": "text",
    },
    rows={"train": 554, "validation": 104, "test": 146},
    sha256="2ed6dfa94556b4a128ff0441efe365b2e883124e7e6aa00fb8d3a6cb1fd520a9",
    num_bytes=32_751,
    parse=super_glue_json.wsc_fixed,
    classes=FALSE_TRUE,
)


def _wsc_row(span: str, index: int, label: int) -> dict[str, object]:
    row = {"text": "Ann told Bo that he won .", "span2_text": "he", "span2_index": 4, "idx": 0}
    return {**row, "span1_text": span, "span1_index": index, "label": label}


# A head reads the row itself, independent of the template, and learns from rows with a wrong candidate, too.
_WSC_FORM = SequenceClassification(texts=("{text}", "{span2_text}: {span1_text}"), classes=FALSE_TRUE)
_BO, _ANN, _NOBODY = _wsc_row("Bo", 2, 1), _wsc_row("Ann", 0, 0), _wsc_row("Bo", 2, -1)
_WSC_INPUTS = "wsc: Ann told Bo that *he* won ."

WSC_SIMPLE_TRAIN = Benchmark(
    name="super_glue_wsc_v102_simple_train",
    title="WSC: the referent of a marked pronoun, from rows with the right one",
    source=_WSC,
    splits=("train",),
    word=wsc_simple_right_only,
    extras={"label": "int", "idx": "int"},
    training_examples=259,  # rows whose first span is the right one
    head=_WSC_FORM,
    examples=(
        example(_BO, _WSC_INPUTS, "Bo", label=1),
        GoldenExample(_ANN, ()),
        example(_NOBODY, _WSC_INPUTS, "Bo", label=-1),
    ),
)
WSC_SIMPLE_EVAL = Benchmark(
    name="super_glue_wsc_v102_simple_eval",
    title="WSC: the referent of a marked pronoun",
    source=_WSC,
    splits=("validation", "test"),
    word=wsc_simple,
    postprocess=postprocessing.wsc_simple,
    metrics=(accuracy,),
    extras={"label": "int", "idx": "int"},
    head=_WSC_FORM,
    training_task="super_glue_wsc_v102_simple_train",
    examples=(
        example(_BO, _WSC_INPUTS, "Bo", label=1),
        example(_ANN, _WSC_INPUTS, "Ann", label=0),
        example(_NOBODY, _WSC_INPUTS, "Bo", label=-1),
    ),
)
# T5 has this template without a task of that name.
WSC_MARKED_SPANS = Benchmark(
    name="super_glue_wsc_v102_marked_spans",
    title="WSC: does a pronoun refer to a name, both marked?",
    source=_WSC,
    word=wsc_marked_spans,
    postprocess=partial(string_label_to_class_id, label_classes=FALSE_TRUE),
    metrics=(accuracy,),
    labels=FALSE_TRUE,
    extras={"idx": "int"},
    head=_WSC_FORM,
    examples=(
        example(_BO, "wsc text: Ann told * Bo * that # he # won .", "True"),
        example(_ANN, "wsc text: * Ann * told Bo that # he # won .", "False"),
        example(_NOBODY, "wsc text: Ann told * Bo * that # he # won .", UNLABELED),
    ),
)

BENCHMARKS = (
    BOOLQ, CB, COPA, MULTIRC, RECORD, RTE, WIC, WSC_SIMPLE_TRAIN, WSC_SIMPLE_EVAL, WSC_MARKED_SPANS, AXB, AXG,
)  # fmt: skip
_MIXED = (
    dpr.DPR, WSC_SIMPLE_TRAIN, WSC_SIMPLE_EVAL, BOOLQ, CB, COPA, MULTIRC, RECORD, RTE, WIC, AXB, AXG,
)  # fmt: skip
MIXTURES = {
    "super_glue_v102_proportional": {each.name: float(each.num_training_examples) for each in _MIXED},
    "wsc_dpr_simple_proportional": {each.name: float(each.num_training_examples) for each in _MIXED[:3]},
}
