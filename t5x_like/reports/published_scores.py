"""Published scores on GLUE and SuperGLUE to set one's own beside, each with its source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Published:
    """A model's scores by "task/metric", times 100. ``split`` says whether servers scored the test split."""

    model: str
    source: str
    url: str
    split: Literal["test", "validation"]
    scores: Mapping[str, float]


_GLUE = (
    *("cola/matthews_corrcoef", "sst2/accuracy", "mrpc/f1", "mrpc/accuracy", "stsb/pearson_corrcoef"),
    *(
        "stsb/spearman_corrcoef",
        "qqp/f1",
        "qqp/accuracy",
        "mnli_matched/accuracy",
        "mnli_mismatched/accuracy",
    ),
    *("qnli/accuracy", "rte/accuracy"),
)
_SUPER_GLUE = (
    *(
        "boolq_v102/accuracy",
        "cb_v102/mean_3class_f1",
        "cb_v102/accuracy",
        "copa_v102/accuracy",
        "multirc_v102/f1",
    ),
    *(
        "multirc_v102/exact_match",
        "record_v102/f1",
        "record_v102/em",
        "rte_v102/accuracy",
        "wic_v102/accuracy",
    ),
    "wsc_v102_simple_eval/accuracy",
)


def _glue(*scores: float | None) -> dict[str, float]:
    names = [f"glue_{name.replace('/', '_v002/')}" for name in _GLUE]
    return {name: score for name, score in zip(names, scores, strict=True) if score is not None}


def _super_glue(*scores: float | None) -> dict[str, float]:
    names = [f"super_glue_{name}" for name in _SUPER_GLUE]
    return {name: score for name, score in zip(names, scores, strict=True) if score is not None}


def _t5(size: str, glue: dict[str, float], super_glue: dict[str, float]) -> Published:
    return Published(
        model=f"T5 {size}",
        source="Raffel et al. 2020, Table 14",
        url="https://arxiv.org/abs/1910.10683",
        split="test",
        scores=glue | super_glue,
    )


PUBLISHED: tuple[Published, ...] = (
    _t5(
        "Small",
        _glue(41.0, 91.8, 89.7, 86.6, 85.6, 85.0, 70.0, 88.0, 82.4, 82.3, 90.3, 69.9),
        _super_glue(76.4, 56.9, 81.6, 46.0, 69.3, 26.3, 56.3, 55.4, 73.3, 66.9, 70.5),
    ),
    _t5(
        "Base",
        _glue(51.1, 95.2, 90.7, 87.5, 89.4, 88.6, 72.6, 89.4, 87.1, 86.2, 93.7, 80.1),
        _super_glue(81.4, 86.2, 94.0, 71.2, 79.7, 43.1, 75.0, 74.2, 81.5, 68.3, 80.8),
    ),
    _t5(
        "Large",
        _glue(61.2, 96.3, 92.4, 89.9, 89.9, 89.2, 73.9, 89.9, 89.9, 89.6, 94.8, 87.2),
        _super_glue(85.4, 91.6, 94.8, 83.4, 83.3, 50.7, 86.8, 85.9, 87.8, 69.3, 86.3),
    ),
    _t5(
        "11B",
        _glue(71.6, 97.5, 92.8, 90.4, 93.1, 92.8, 75.1, 90.6, 92.2, 91.9, 96.9, 92.8),
        {},  # the paper's average is not that of its scores here
    ),
    Published(
        model="BERT base",
        source="Devlin et al. 2019, Table 1",
        url="https://arxiv.org/abs/1810.04805",
        split="test",
        scores=_glue(52.1, 93.5, 88.9, None, None, 85.8, 71.2, None, 84.6, 83.4, 90.5, 66.4),
    ),
    Published(
        model="BERT large",
        source="Devlin et al. 2019, Table 1",
        url="https://arxiv.org/abs/1810.04805",
        split="test",
        scores=_glue(60.5, 94.9, 89.3, None, None, 86.5, 72.1, None, 86.7, 85.9, 92.7, 70.1),
    ),
    Published(
        model="RoBERTa large",
        source="Liu et al. 2019, Table 5",
        url="https://arxiv.org/abs/1907.11692",
        split="validation",
        scores=_glue(68.0, 96.4, None, 90.9, 92.4, None, None, 92.2, 90.2, 90.2, 94.7, 86.6),
    ),
    Published(
        model="GPT-3 175B, 32 shots",
        source="Brown et al. 2020, Table 3.8",
        url="https://arxiv.org/abs/2005.14165",
        split="test",
        scores=_super_glue(76.4, 52.0, 75.6, 92.0, 75.4, 30.5, 91.1, 90.2, 69.0, 49.4, 80.1),
    ),
    Published(
        model="people",
        source="Wang et al. 2019, Table 3",
        url="https://arxiv.org/abs/1905.00537",
        split="test",
        scores=_super_glue(89.0, 95.8, 98.9, 100.0, 81.8, 51.9, 91.7, 91.3, 93.6, 80.0, 100.0),
    ),
)


def published_for(name: str) -> list[tuple[Published, float]]:
    """Who has published a score of "task/metric", the lowest first."""
    found = [(each, each.scores[name]) for each in PUBLISHED if name in each.scores]
    return sorted(found, key=lambda pair: pair[1])
