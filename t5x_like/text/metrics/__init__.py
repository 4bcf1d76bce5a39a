"""Metrics, times 100, under T5's names: ``metrics.matthews_corrcoef(targets, predictions)``.

A metric takes targets and predictions as ``text.postprocessing`` gives them, and returns scores by name.
"""

from t5x_like.text.metrics.averages import over_runs
from t5x_like.text.metrics.bootstrap import intervals
from t5x_like.text.metrics.chunks import argument_f1, chunk_f1
from t5x_like.text.metrics.classification import (
    accuracy,
    all_match,
    deduplicate_metric,
    f1_score_with_invalid,
    matthews_corrcoef,
    mean_group_metric,
    mean_multiclass_f1,
    micro_f1_without,
    multirc_f1_over_all_answers,
)
from t5x_like.text.metrics.coreference import coreference_f1
from t5x_like.text.metrics.correlation import pearson_corrcoef, spearman_corrcoef
from t5x_like.text.metrics.generation_metrics import (
    bleu,
    edit_distance,
    instruction_scores,
    rouge,
    rouge_mean,
    sequence_accuracy,
    token_error_rate,
)
from t5x_like.text.metrics.perplexity import perplexities
from t5x_like.text.metrics.question_answering import cmrc, coqa, coqa_f1, mlqa, span_squad, squad, trivia_qa
from t5x_like.text.metrics.ranking import auc, rank_classification, score_auc, sklearn_metrics_wrapper
from t5x_like.text.metrics.speech_metrics import character_error_rate, word_error_rate
from t5x_like.text.metrics.structured_answers import joint_goal_em, logical_form_em, relation_f1
from t5x_like.text.metrics.text_preferences import preference_accuracy

__all__ = [
    "accuracy",
    "all_match",
    "argument_f1",
    "auc",
    "bleu",
    "character_error_rate",
    "chunk_f1",
    "cmrc",
    "coqa",
    "coqa_f1",
    "coreference_f1",
    "deduplicate_metric",
    "edit_distance",
    "f1_score_with_invalid",
    "instruction_scores",
    "intervals",
    "joint_goal_em",
    "logical_form_em",
    "matthews_corrcoef",
    "mean_group_metric",
    "mean_multiclass_f1",
    "micro_f1_without",
    "mlqa",
    "multirc_f1_over_all_answers",
    "over_runs",
    "pearson_corrcoef",
    "perplexities",
    "preference_accuracy",
    "rank_classification",
    "relation_f1",
    "rouge",
    "rouge_mean",
    "score_auc",
    "sequence_accuracy",
    "sklearn_metrics_wrapper",
    "span_squad",
    "spearman_corrcoef",
    "squad",
    "token_error_rate",
    "trivia_qa",
    "word_error_rate",
]
