"""Metrics by name for each format of a head."""

import pytest
import sklearn.metrics

from t5x_like.text.heads import (
    CandidateRanking,
    MaskedClozeClassification,
    MultipleChoice,
    QuestionAnswering,
    Regression,
    SequenceClassification,
    TokenClassification,
)
from t5x_like.text.tasks.text_task import TextTask

TEXTS = ("{text}",)
OF_TWO = SequenceClassification(texts=TEXTS, classes=("no", "yes"))
OF_THREE = SequenceClassification(texts=TEXTS, classes=("a", "b", "c"))
CLOZE = MaskedClozeClassification(pattern="{text} [MASK]", classes=("a", "b", "c"))
CHOICES = MultipleChoice(context="{text}", choices="endings")
NUMBER = Regression(texts=TEXTS, lowest=0.0, highest=5.0)
TAGS = TokenClassification(classes=("O", "B-X", "I-X"))
SPANS = QuestionAnswering(unanswerable=True)


def scores(head, names, targets, predictions):
    results = {}
    for metric in head.named_metrics(names):
        results |= metric(targets, predictions)
    return results


@pytest.mark.parametrize("head", [OF_THREE, CLOZE])
def test_classes_have_accuracy_f1_and_correlation(head):
    truth, guess = [0, 1, 2, 2, 2, 0], [0, 2, 2, 2, 1, 0]
    names = ("accuracy", "macro_f1", "matthews_corrcoef", "sequence_accuracy")
    assert scores(head, names, truth, guess) == {
        "accuracy": pytest.approx(400 / 6),
        "mean_3class_f1": pytest.approx(100 * sklearn.metrics.f1_score(truth, guess, average="macro")),
        "matthews_corrcoef": pytest.approx(100 * sklearn.metrics.matthews_corrcoef(truth, guess)),
        "sequence_accuracy": pytest.approx(400 / 6),
    }


def test_f1_is_for_two_classes_the_second_being_positive():
    assert scores(OF_TWO, ("f1",), [1, 1, 0, 0], [1, 0, 0, 1]) == {"f1": pytest.approx(50.0)}
    with pytest.raises(ValueError, match=r"metric 'f1' doesn't fit SequenceClassification, .* macro_f1"):
        OF_THREE.named_metrics(("f1",))


def test_numbers_have_two_correlations():
    result = scores(NUMBER, ("pearson_corrcoef", "spearman_corrcoef"), [1.0, 2.0, 3.0], [1.0, 2.0, 9.0])
    assert result == {
        "pearson_corrcoef": pytest.approx(91.766, abs=1e-3),
        "spearman_corrcoef": pytest.approx(100),
    }


def test_tags_have_scores_of_chunks_sentences_and_words():
    truth = [["B-X", "I-X", "O"], ["O", "B-X"]]
    guess = [["B-X", "O", "O"], ["O", "B-X"]]
    flat = [[tag for tags in rows for tag in tags] for rows in (truth, guess)]
    assert scores(TAGS, ("chunk_f1", "accuracy", "macro_f1", "sequence_accuracy"), truth, guess) == {
        "precision": 50.0,
        "recall": 50.0,
        "f1": 50.0,
        "tag_accuracy": 80.0,
        "accuracy": 80.0,
        "mean_3class_f1": pytest.approx(100 * sklearn.metrics.f1_score(*flat, average="macro")),
        "sequence_accuracy": 50.0,
    }


def test_words_without_a_label_do_not_count():
    row = TAGS.read({"tokens": ["a", "b", "c", "d", "e"], "tags": ["B-X", -1, -100, None, "O"]})
    assert row.tags == (1, -1, -1, -1, 0)
    assert TAGS.target(row) == ["B-X", None, None, None, "O"]
    names = ("chunk_f1", "accuracy", "macro_f1", "sequence_accuracy")
    known = scores(TAGS, names, [["B-X", "O"]], [["B-X", "B-X"]])
    result = scores(TAGS, names, [TAGS.target(row)], [["B-X", "O", "B-X", "I-X", "B-X"]])
    assert result == known
    assert result["accuracy"] == pytest.approx(50.0)
    assert TAGS.read({"tokens": "a b", "tags": "0 -100"}).tags == (0, -1)


def test_spans_have_squads_scores_with_unanswerable_questions():
    assert scores(SPANS, ("squad",), [["the cat"], []], ["a cat", ""]) == {"em": 100.0, "f1": 100.0}
    with pytest.raises(ValueError, match="metric 'trivia_qa' doesn't fit QuestionAnswering"):
        SPANS.named_metrics(("trivia_qa",))
    answered = scores(QuestionAnswering(), ("squad", "trivia_qa"), [["the cat"]], ["cat"])
    assert answered == {"em": 100.0, "f1": 100.0}


def test_choices_have_accuracy_and_no_score_of_classes():
    assert scores(CHOICES, ("accuracy",), [0, 3], [0, 1]) == {"accuracy": 50.0}
    with pytest.raises(ValueError, match="metric 'macro_f1' doesn't fit MultipleChoice"):
        CHOICES.named_metrics(("macro_f1",))


@pytest.mark.parametrize("head", [OF_TWO, CLOZE, CHOICES, NUMBER, TAGS, SPANS, CandidateRanking()])
def test_without_names_the_metrics_are_those_usual_for_the_head(head):
    assert head.named_metrics(()) == head.metrics(())


def task(**settings):
    return TextTask(
        name="t",
        vocabulary="bytes",
        files={"train": "train.tsv"},
        input_template="{text}",
        target_template="{label}",
        **settings,
    )


def test_a_task_takes_classes_from_its_head():
    head_metrics = task(head=OF_THREE, metrics=("macro_f1",)).head_metrics()
    assert head_metrics[0]([0, 1, 2], [0, 1, 2]) == {"mean_3class_f1": 100.0}


def test_a_metric_of_tags_needs_a_head():
    assert task(head=TAGS, metrics=("chunk_f1",)).head_metrics()
    with pytest.raises(ValueError, match="'chunk_f1' is for heads that classify tokens"):
        task(metrics=("chunk_f1",))
