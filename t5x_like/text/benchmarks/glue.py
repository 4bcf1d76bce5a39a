"""GLUE (Wang et al. 2019, https://gluebenchmark.com), as T5 words it: https://arxiv.org/abs/1910.10683, appendix D."""

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
from t5x_like.text.benchmarks.glue_similarity import COLA, MRPC, QQP, SST2, STSB

BENCHMARKS = (
    COLA, SST2, MRPC, STSB, QQP, MNLI, MNLI_MATCHED, MNLI_MISMATCHED, QNLI, RTE, WNLI, WNLI_SIMPLE_EVAL, AX,
)  # fmt: skip
# WNLI is not trained on: T5 learns WSC and DPR instead (§2.4).
_MIXED = (COLA, SST2, MRPC, QQP, STSB, MNLI, QNLI, RTE, MNLI_MISMATCHED, MNLI_MATCHED, AX)
MIXTURES = {
    "glue_v002_proportional": {each.name: float(each.num_training_examples) for each in _MIXED},
    "glue_mnli_and_dev_v002": {each.name: 1.0 for each in (MNLI, MNLI_MISMATCHED, MNLI_MATCHED)},
}
