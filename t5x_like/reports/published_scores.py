"""Published benchmark scores for comparison, each with its source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Split = Literal["test", "validation"]


@dataclass(frozen=True, kw_only=True)
class PublishedScores:
    """Published scores of one model.

    Attributes:
      model: Name of the model.
      source: Paper and table.
      url: Address of the source.
      split: Split that was scored; tests mostly by the benchmark's server.
      scores: Scores by "task/metric", times 100.
    """

    model: str
    source: str
    url: str
    split: Split
    scores: Mapping[str, float]


_GLUE = (
    *("glue_cola_v002/matthews_corrcoef", "glue_sst2_v002/accuracy"),
    *("glue_mrpc_v002/f1", "glue_mrpc_v002/accuracy"),
    *("glue_stsb_v002/pearson_corrcoef", "glue_stsb_v002/spearman_corrcoef"),
    *("glue_qqp_v002/f1", "glue_qqp_v002/accuracy"),
    *("glue_mnli_matched_v002/accuracy", "glue_mnli_mismatched_v002/accuracy"),
    *("glue_qnli_v002/accuracy", "glue_rte_v002/accuracy", "glue_wnli_v002/accuracy"),
)
_SUPER_GLUE = (
    *("super_glue_boolq_v102/accuracy", "super_glue_cb_v102/mean_3class_f1", "super_glue_cb_v102/accuracy"),
    *("super_glue_copa_v102/accuracy", "super_glue_multirc_v102/f1", "super_glue_multirc_v102/exact_match"),
    *("super_glue_record_v102/f1", "super_glue_record_v102/em", "super_glue_rte_v102/accuracy"),
    *("super_glue_wic_v102/accuracy", "super_glue_wsc_v102_simple_eval/accuracy"),
)
_SQUAD = (
    *("squad_v010_allanswers/em", "squad_v010_allanswers/f1"),
    *("squad_v2_allanswers/em", "squad_v2_allanswers/f1"),
)
_TEXTS = (  # Rouge-L is over lines, as T5's code has it
    *("cnn_dailymail_v002/rouge1", "cnn_dailymail_v002/rouge2", "cnn_dailymail_v002/rougeLsum"),
    *("wmt_t2t_ende_v003/bleu", "wmt14_enfr_v003/bleu", "wmt16_enro_v003/bleu"),
)
_RACE = ("race/accuracy",)

Scores = tuple[float | None, ...]  # None where the source has no score


def _published(
    source: tuple[str, str],
    model: str,
    split: Split,
    *,
    glue: Scores = (),
    super_glue: Scores = (),
    squad: Scores = (),
    texts: Scores = (),
    race: Scores = (),
) -> PublishedScores:
    """Return a model's scores; each argument has those of one group of metrics, in the group's order."""
    groups = ((_GLUE, glue), (_SUPER_GLUE, super_glue), (_SQUAD, squad), (_TEXTS, texts), (_RACE, race))
    scores = {
        name: score
        for names, values in groups
        if values
        for name, score in zip(names, values, strict=True)
        if score is not None
    }
    return PublishedScores(model=model, source=source[0], url=source[1], split=split, scores=scores)


_T5 = ("Raffel et al. 2020, Table 14", "https://arxiv.org/abs/1910.10683")
_BERT = ("Devlin et al. 2019, Tables 1 and 2", "https://arxiv.org/abs/1810.04805")
_ROBERTA = ("Liu et al. 2019, Tables 5 to 7", "https://arxiv.org/abs/1907.11692")
_ROBERTA_README = (
    "the authors' README of RoBERTa",
    "https://github.com/facebookresearch/fairseq/blob/main/examples/roberta/README.md",
)
_ALBERT = ("Lan et al. 2020, Tables 9 and 10", "https://arxiv.org/abs/1909.11942")
_ELECTRA = ("the authors' README of ELECTRA", "https://github.com/google-research/electra")
_LEADERBOARD = ("SuperGLUE's leaderboard, as in Vu et al. 2022, Table 5", "https://arxiv.org/abs/2110.07904")
_SUPER_GLUE_PAPER = ("Wang et al. 2019, Table 3", "https://arxiv.org/abs/1905.00537")

# fmt: off
PUBLISHED: tuple[PublishedScores, ...] = (
    _published(
        _T5, "T5 Small", "test",
        glue=(41.0, 91.8, 89.7, 86.6, 85.6, 85.0, 70.0, 88.0, 82.4, 82.3, 90.3, 69.9, 69.2),
        super_glue=(76.4, 56.9, 81.6, 46.0, 69.3, 26.3, 56.3, 55.4, 73.3, 66.9, 70.5),
        texts=(41.12, 19.56, 38.35, 26.7, 36.0, 26.8),
    ),
    _published(
        _T5, "T5 Base", "test",
        glue=(51.1, 95.2, 90.7, 87.5, 89.4, 88.6, 72.6, 89.4, 87.1, 86.2, 93.7, 80.1, 78.8),
        super_glue=(81.4, 86.2, 94.0, 71.2, 79.7, 43.1, 75.0, 74.2, 81.5, 68.3, 80.8),
        texts=(42.05, 20.34, 39.40, 30.9, 41.2, 28.0),
    ),
    _published(
        _T5, "T5 Large", "test",
        glue=(61.2, 96.3, 92.4, 89.9, 89.9, 89.2, 73.9, 89.9, 89.9, 89.6, 94.8, 87.2, 85.6),
        super_glue=(85.4, 91.6, 94.8, 83.4, 83.3, 50.7, 86.8, 85.9, 87.8, 69.3, 86.3),
        texts=(42.50, 20.68, 39.75, 32.0, 41.5, 28.1),
    ),
    _published(
        _T5, "T5 3B", "test",
        glue=(67.1, 97.4, 92.5, 90.0, 90.6, 89.8, 74.4, 89.7, 91.4, 91.2, 96.3, 91.1, 89.7),
        super_glue=(89.9, 90.3, 94.4, 92.0, 86.8, 58.3, 91.2, 90.4, 90.7, 72.1, 90.4),
        texts=(42.72, 21.02, 39.94, 31.8, 42.6, 28.2),
    ),
    _published(
        _T5, "T5 11B", "test",
        glue=(71.6, 97.5, 92.8, 90.4, 93.1, 92.8, 75.1, 90.6, 92.2, 91.9, 96.9, 92.8, 94.5),
        texts=(43.52, 21.55, 40.69, 32.1, 43.4, 28.1),
    ),
    # Their average is 89.3, as on the leaderboard; T5's paper has 88.9.
    _published(
        _LEADERBOARD, "T5 11B", "test",
        super_glue=(91.2, 93.9, 96.8, 94.8, 88.1, 63.3, 94.1, 93.4, 92.5, 76.9, 93.8),
    ),
    _published(_T5, "T5 Small", "validation", squad=(79.10, 87.24, None, None)),
    _published(_T5, "T5 Base", "validation", squad=(85.44, 92.08, None, None)),
    _published(_T5, "T5 Large", "validation", squad=(86.66, 93.79, None, None)),
    _published(_T5, "T5 3B", "validation", squad=(88.53, 94.95, None, None)),
    _published(_T5, "T5 11B", "validation", squad=(91.26, 96.22, None, None)),
    _published(
        _BERT, "BERT base", "test",
        glue=(52.1, 93.5, 88.9, None, None, 85.8, 71.2, None, 84.6, 83.4, 90.5, 66.4, None),
    ),
    _published(
        _BERT, "BERT large", "test",
        glue=(60.5, 94.9, 89.3, None, None, 86.5, 72.1, None, 86.7, 85.9, 92.7, 70.1, None),
    ),
    _published(_BERT, "BERT base", "validation", squad=(80.8, 88.5, None, None)),
    _published(_BERT, "BERT large", "validation", squad=(84.1, 90.9, None, None)),
    _published(
        _SUPER_GLUE_PAPER, "BERT large", "test",
        super_glue=(77.4, 75.7, 83.6, 70.6, 70.0, 24.0, 72.0, 71.3, 71.6, 69.5, 64.3),
    ),
    # STS-B: RoBERTa's papers don't name the correlation; Hu et al. 2022, https://arxiv.org/abs/2106.09685, Table 2,
    # take it for Pearson's.
    _published(
        _ROBERTA_README, "RoBERTa base", "validation",
        glue=(63.6, 94.8, None, 90.2, 91.2, None, None, 91.9, 87.6, None, 92.8, 78.7, None),
    ),
    _published(
        _ROBERTA, "RoBERTa large", "validation",
        glue=(68.0, 96.4, None, 90.9, 92.4, None, None, 92.2, 90.2, 90.2, 94.7, 86.6, None),
        squad=(88.9, 94.6, 86.5, 89.4),
    ),
    _published(_ROBERTA, "RoBERTa large", "test", race=(83.2,)),
    _published(
        _ALBERT, "ALBERT xxlarge", "validation",
        glue=(71.4, 96.9, None, 90.9, 93.0, None, None, 92.2, 90.8, None, 95.3, 89.2, None),
        squad=(89.3, 94.8, 87.4, 90.2),
    ),
    _published(_ALBERT, "ALBERT xxlarge", "test", race=(86.5,)),
    _published(
        _ELECTRA, "ELECTRA small", "validation",
        glue=(57.0, 91.2, None, 88.0, None, 87.5, None, 89.0, 81.3, None, 88.4, 66.7, None),
        squad=(75.8, None, 70.1, None),
    ),
    _published(
        _ELECTRA, "ELECTRA base", "validation",
        glue=(67.7, 95.1, None, 89.5, None, 91.2, None, 91.5, 88.8, None, 93.2, 82.7, None),
        squad=(86.8, None, 80.5, None),
    ),
    _published(
        _ELECTRA, "ELECTRA large", "validation",
        glue=(69.1, 96.9, None, 90.8, None, 92.6, None, 92.4, 90.9, None, 95.0, 88.0, None),
        squad=(89.7, None, 88.1, None),
    ),
    _published(
        ("Brown et al. 2020, Table 3.8", "https://arxiv.org/abs/2005.14165"), "GPT-3 175B, 32 shots", "test",
        super_glue=(76.4, 52.0, 75.6, 92.0, 75.4, 30.5, 91.1, 90.2, 69.0, 49.4, 80.1),
    ),
    _published(
        ("Nangia and Bowman 2019", "https://arxiv.org/abs/1905.10425"), "people", "test",
        glue=(66.4, 97.8, 86.3, 80.8, 92.7, 92.6, 59.5, 80.4, 92.0, 92.8, 91.2, 93.6, 95.9),
    ),
    _published(
        _SUPER_GLUE_PAPER, "people", "test",
        super_glue=(89.0, 95.8, 98.9, 100.0, 81.8, 51.9, 91.7, 91.3, 93.6, 80.0, 100.0),
    ),
)
# fmt: on


def published_for(name: str) -> list[tuple[PublishedScores, float]]:
    """Return all published scores of "task/metric", the lowest first."""
    published = [(each, each.scores[name]) for each in PUBLISHED if name in each.scores]
    return sorted(published, key=lambda pair: pair[1])
