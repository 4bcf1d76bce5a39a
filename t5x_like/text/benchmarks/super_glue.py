"""SuperGLUE (Wang et al. 2019, https://super.gluebenchmark.com), as T5 words it (https://arxiv.org/abs/1910.10683)."""

from t5x_like.text.benchmarks import dpr
from t5x_like.text.benchmarks.super_glue_inference import AXB, AXG, CB, RTE
from t5x_like.text.benchmarks.super_glue_questions import BOOLQ, COPA, MULTIRC, RECORD
from t5x_like.text.benchmarks.super_glue_words import (
    WIC,
    WSC_MARKED_SPANS,
    WSC_SIMPLE_EVAL,
    WSC_SIMPLE_TRAIN,
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
