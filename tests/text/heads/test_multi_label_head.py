"""Any number of classes for each row: reading, metrics, probabilities, and batches of indicators."""

from typing import Any

import numpy as np
import pytest
import sklearn.metrics

from t5x_like.evaluation.class_scores import class_scores
from t5x_like.evaluation.row_predictors import RowPrediction
from t5x_like.text.batches.labeled_examples import make_examples
from t5x_like.text.batches.row_maker import RowMaker, cut_to_bucket
from t5x_like.text.heads import MultiLabelClassification
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.vocabularies.opening import open_tokenizer

CLASSES = ("action", "comedy", "drama")
HEAD = MultiLabelClassification(texts=("{text}",), classes=CLASSES, separator="|")
TRUTH = [["action"], ["action", "comedy"], [], [], ["drama"], ["comedy", "drama"]]
GUESS = [["action"], ["action"], [], ["comedy"], [], ["comedy", "drama"]]


def no_words(number: int) -> np.ndarray:
    return np.zeros(number)


def read(label: Any, head: MultiLabelClassification = HEAD) -> tuple[int, ...] | None:
    return head.read({"text": "a", "label": label}).classes


@pytest.mark.parametrize(
    ("label", "classes"),
    [
        (["drama", "action"], (0, 2)),
        ([2, 0], (0, 2)),
        ("drama|action", (0, 2)),
        (" drama | action ", (0, 2)),
        ("drama|drama", (2,)),
        ("comedy", (1,)),
        (1, (1,)),
        ([], ()),
        ("", ()),
        (None, None),
        (-1, None),
    ],
)
def test_labels_are_lists_texts_and_numbers(label, classes):
    assert read(label) == classes
    assert HEAD.is_labeled(HEAD.read({"text": "a", "label": label})) == (classes is not None)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("drama|western", "label is 'western'; it must be one of action, comedy, drama"),
        ("drama|", "the labels are 'drama|', of which one is empty"),
        (["drama", None], "of which one is empty"),
        ([0, 1, 0], "names a class twice; give the classes that apply, not 0 or 1 for each class"),
        ([-1, 1], "label holds -1, which marks an unlabeled row, among other classes"),
        ({"drama": 1}, "the labels are an object"),
    ],
)
def test_other_labels_are_refused(label, message):
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        read(label)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"threshold": 1.0}, "threshold is 1.0; give a probability between 0 and 1"),
        ({"separator": ""}, "separator is empty"),
        ({"separator": "m"}, "class 'comedy' contains separator='m'"),
        ({"keeps_unlabeled": True}, "keeps_unlabeled=True needs one class for each row"),
    ],
)
def test_fields_that_mean_nothing_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelClassification(texts=("{text}",), classes=CLASSES, **fields)


def test_metrics_equal_those_of_scikit_learn():
    truth, guess = ([[name in row for name in CLASSES] for row in rows] for rows in (TRUTH, GUESS))
    results = {}
    for metric in HEAD.named_metrics(("micro_f1", "macro_f1", "samples_f1", "samples_jaccard", "accuracy")):
        results |= metric(TRUTH, GUESS)
    options: dict[str, Any] = {"zero_division": 0}
    f1 = {
        f"{average}_f1": 100 * sklearn.metrics.f1_score(truth, guess, average=average, **options)
        for average in ("micro", "macro", "samples")
    }
    jaccard = sklearn.metrics.jaccard_score(truth, guess, average="samples", **options)
    accuracy = sklearn.metrics.accuracy_score(truth, guess)
    assert results == pytest.approx(f1 | {"samples_jaccard": 100 * jaccard, "accuracy": 100 * accuracy})
    # scikit-learn 1.9's numbers for these rows
    assert results == pytest.approx(
        {
            "micro_f1": 72.7272727,
            "macro_f1": 72.2222222,
            "samples_f1": 44.4444444,
            "samples_jaccard": 41.6666667,
            "accuracy": 50.0,
        }
    )


def test_other_metrics_are_refused_and_the_default_ones_are_f1():
    with pytest.raises(ValueError, match="'matthews_corrcoef' doesn't fit MultiLabelClassification"):
        HEAD.named_metrics(("matthews_corrcoef",))
    assert [metric.__name__ for metric in HEAD.named_metrics(())] == ["micro_f1", "macro_f1"]


def test_each_class_has_precision_recall_and_f1_and_there_is_no_matrix():
    pairs = zip([*TRUTH, None], [*GUESS, ["drama"]], strict=True)
    rows = [{"target": target, "prediction": prediction} for target, prediction in pairs]
    result = class_scores(CLASSES, rows, are_sets=True)
    truth, guess = ([[name in row for name in CLASSES] for row in rows] for rows in (TRUTH, GUESS))
    precision, recall, f1, support = sklearn.metrics.precision_recall_fscore_support(truth, guess)
    for index, name in enumerate(CLASSES):
        scores = {"precision": precision, "recall": recall, "f1": f1}
        wanted = {key: 100 * np.asarray(values)[index] for key, values in scores.items()}
        assert result["classes"][name] == pytest.approx(wanted | {"rows": np.asarray(support)[index]})
    assert "confusion" not in result
    assert class_scores(CLASSES, rows[-1:], are_sets=True) == {}


def test_classes_above_the_threshold_are_predicted_with_their_probabilities():
    scores = [np.array([800.0, -800.0, 0.4], np.float32), np.array([-1.0, -1.0, 0.0], np.float32)]
    assert HEAD.answers_of([], scores, no_words) == [[0, 2], []]
    first, second = HEAD.probabilities([], scores, no_words, ())
    assert first.by_class == {"action": 1.0, "comedy": 0.0, "drama": 0.598688}
    assert (first.predicted, second.predicted) == ([1.0, 0.598688], [])
    strict = MultiLabelClassification(texts=("{text}",), classes=CLASSES, threshold=0.7)
    assert strict.answers_of([], scores, no_words) == [[0], []]


def test_a_prediction_is_written_on_one_line():
    assert RowPrediction(["action", "drama"], separator=HEAD.label_separator).text == "action|drama"
    listed = MultiLabelClassification(texts=("{text}",), classes=("a", "b, c"))
    assert listed.label_separator == "|"


def test_the_most_frequent_set_is_the_baseline():
    rows = [
        HEAD.read({"text": "a", "label": label}) for label in (["drama", "action"], [0, 2], [], ["drama"])
    ]
    assert HEAD.most_frequent(rows) == [0, 2]


def test_batches_have_indicators_and_padding_has_no_label():
    texts = ["a", "b", "c"]
    labels = [["drama", "action"], [], None]
    rows = [HEAD.read({"text": text, "label": label}) for text, label in zip(texts, labels, strict=True)]
    tokenizer = open_tokenizer("bytes")
    examples = make_examples(HEAD, rows, tokenizer, length=len(CLASSES) * 8)
    maker = RowMaker((), Lengths(24, 2), HEAD.spec(), pack=False, zero_is_padding=True)
    batch = maker.lay_out([*([examples.example(index)] for index in range(3)), []])
    wanted = [[1, 0, 1], [0, 0, 0], [-1, -1, -1], [-1, -1, -1]]
    assert batch.sequence_classes.tolist() == wanted
    np.testing.assert_array_equal(examples.part([1, 0]).example(1).classes, [1, 0, 1])  # pyright: ignore[reportArgumentType]


def test_labels_of_as_many_classes_as_tokens_are_not_cut():
    classes = tuple(f"class {index}" for index in range(32))
    head = MultiLabelClassification(texts=("{text}",), classes=classes)
    examples = make_examples(
        head, [head.read({"text": "a", "label": [31]})], open_tokenizer("bytes"), length=32
    )
    maker = RowMaker((), Lengths(32, 2), head.spec(), pack=False, zero_is_padding=True)
    batch = cut_to_bucket(maker.lay_out([[examples.example(0)]]))
    assert (batch.encoder_input_tokens.shape, batch.sequence_classes.shape) == ((1, 16), (1, 32))
    assert batch.sequence_classes[0].tolist() == [0] * 31 + [1]


def test_a_task_whose_texts_are_written_leaves_metrics_of_heads_out() -> None:
    head = MultiLabelClassification(texts=("{text}",), classes=("a", "b"), label="labels")
    task = TextTask(
        name="topics",
        vocabulary="bytes",
        files={"train": "train.jsonl"},
        input_template="{text}",
        target_template="{labels}",
        labels=("a", "b"),
        metrics=("micro_f1", "accuracy"),
        head=head,
    )
    assert [metric.__name__ for metric in task.metric_functions] == ["accuracy"]
