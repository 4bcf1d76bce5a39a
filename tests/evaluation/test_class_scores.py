from typing import Any

import pytest
import sklearn.metrics

from t5x_like.evaluation.class_scores import class_scores


def rows_of(truth, guess):
    return [{"target": left, "prediction": right} for left, right in zip(truth, guess, strict=True)]


def test_scores_of_classes_are_those_of_scikit_learn():
    classes = ["a", "b", "c", "never"]
    truth, guess = list("aabbbccca"), list("abbbcccaa")
    result = class_scores(classes, rows_of(truth, guess))
    expected: Any = sklearn.metrics.classification_report(
        truth,
        guess,
        labels=classes,
        output_dict=True,
        zero_division=0.0,  # pyright: ignore[reportArgumentType]
    )
    for name in classes:
        precision, recall, f1, rows = (
            expected[name][column] for column in ("precision", "recall", "f1-score", "support")
        )
        scores = {"precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1, "rows": rows}
        assert result["classes"][name] == pytest.approx(scores)
    matrix = sklearn.metrics.confusion_matrix(truth, guess, labels=classes).tolist()
    assert result["confusion"] == {"predicted": classes, "counts": matrix}


def test_other_texts_have_a_column_and_rows_without_a_target_none():
    result = class_scores(["no", "yes"], rows_of(["no", "yes", None], ["no", "maybe", "yes"]))
    assert result["confusion"] == {
        "predicted": ["no", "yes", "none of these"],
        "counts": [[1, 0, 0], [0, 0, 1]],
    }
    assert result["classes"]["yes"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "rows": 1}


def test_each_word_of_a_tagged_sentence_counts():
    rows = rows_of([["O", "B"], ["B"]], [["O", "O"], ["B"]])
    assert class_scores(["O", "B"], rows)["confusion"]["counts"] == [[1, 0], [1, 1]]


@pytest.mark.parametrize(("classes", "targets"), [([], ["a"]), (["a", "b"], [None])])
def test_open_answers_and_withheld_labels_have_no_scores_of_classes(classes, targets):
    assert class_scores(classes, rows_of(targets, ["a"])) == {}


def test_many_classes_have_scores_and_no_matrix():
    names = [str(index) for index in range(101)]
    result = class_scores(names, rows_of(["7"], ["7"]))
    assert result["classes"]["7"]["f1"] == 100.0
    assert "confusion" not in result


def test_words_without_a_label_are_left_out():
    tagged = [{"target": ["a", None, "b"], "prediction": ["a", "a", "a"]}]
    result = class_scores(["a", "b"], tagged)
    assert result["confusion"] == {"predicted": ["a", "b"], "counts": [[1, 0], [1, 0]]}
