"""Scores of a task as ``scores.json`` has them."""

from importlib.metadata import version

import pytest

from t5x_like.evaluation.scores import score
from t5x_like.text.metrics import bleu
from t5x_like.text.metrics.by_name import metric_function

REST = f"|case:mixed|eff:no|tok:intl|smooth:exp|version:{version('sacrebleu')}"


@pytest.mark.parametrize(
    ("metric", "targets", "references"),
    [
        (bleu, ["a b", "c d"], "nrefs:1"),
        (metric_function("bleu"), ["a b", "c d"], "nrefs:1"),
        (metric_function("bleu"), [["a b", "b"], ["c d", "d"]], "nrefs:2"),
        (metric_function("bleu"), [["a b", "b"], ["c d"]], "nrefs:var"),
        (metric_function("bleu"), [["a b", "b"], "c d"], "nrefs:var"),
    ],
)
def test_bleu_has_sacrebleus_signature_with_the_number_of_references(metric, targets, references):
    entry = score([metric], targets, ["a b", "c"], resamples=0)
    assert entry["signatures"] == {"bleu": references + REST}


def test_other_scores_have_no_signature():
    assert "signatures" not in score([metric_function("squad")], ["a"], ["a"], resamples=0)
