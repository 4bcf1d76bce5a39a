"""Reading of rows for heads, and messages about bad rows."""

import math

import pytest

from t5x_like.text.heads import (
    CandidateRanking,
    MultipleChoice,
    QuestionAnswering,
    Regression,
    SequenceClassification,
    TokenClassification,
)

PAIR = SequenceClassification(texts=("{premise}", "{hypothesis}"), classes=("yes", "no"))
NUMBER = Regression(texts=("{sentence}",), lowest=0.0, highest=5.0)
CHOICES = MultipleChoice(context="{premise}", choices=("{first}", "{second}"))
ENDINGS = MultipleChoice(context="{premise}", choices="endings")
SPANS = QuestionAnswering()
GAP = CandidateRanking()
TAGS = TokenClassification(classes=("O", "B-LOC"))


def test_a_pair_of_texts_has_a_class():
    row = PAIR.read({"premise": "a", "hypothesis": "b", "label": 1, "idx": 3})
    assert (row.texts, row.label) == ((("a", "b"),), 1)
    assert PAIR.is_labeled(row)


@pytest.mark.parametrize("label", ["no", b"no", "1", 1])
def test_a_class_is_known_by_its_number_and_by_its_word(label):
    assert PAIR.read({"premise": "a", "hypothesis": "b", "label": label}).label == 1


def test_a_row_without_a_label_can_be_read_but_not_learned_from():
    for values in ({"label": -1}, {}):
        row = PAIR.read({"premise": "a", "hypothesis": "b", **values})
        assert not PAIR.is_labeled(row)
    assert not NUMBER.is_labeled(NUMBER.read({"sentence": "a", "label": -1.0}))
    assert not SPANS.is_labeled(SPANS.read({"question": "a", "context": "b"}))
    assert not TAGS.is_labeled(TAGS.read({"tokens": ["a"], "tags": [-1]}))


@pytest.mark.parametrize(
    ("form", "values", "message"),
    [
        (
            PAIR,
            {"premise": "a", "hypothesis": "b", "label": 2},
            r"label is 2; it must be 0 … 1 \(yes, no\), or -1",
        ),
        (
            PAIR,
            {"premise": "a", "hypothesis": "b", "label": "maybe"},
            "label is 'maybe'; it must be one of yes, no",
        ),
        (PAIR, {"premise": "a", "hypothesis": "b", "label": 0.5}, "label is 0.5; it must be a whole number"),
        (
            PAIR,
            {"premise": "a", "hypothesis": "b", "label": math.nan},
            "label is nan; it must be a whole number",
        ),
        (PAIR, {"premise": "a", "hypothesys": "b"}, r"no column 'hypothesis'.*Did you mean \{hypothesys\}"),
        (NUMBER, {"sentence": "a", "label": 5.1}, "label is 5.1; it must lie in 0.0 … 5.0"),
        (NUMBER, {"sentence": "a", "label": math.nan}, "label is nan; it must lie in"),
        (NUMBER, {"sentence": "a", "label": "high"}, "label is 'high', not a number"),
        (ENDINGS, {"premise": "a", "endings": ["b"]}, "1 choices; a question has at least 2"),
        (ENDINGS, {"premise": "a", "endings": ["b", "c"], "label": 2}, "label is 2; it must be 0 … 1"),
        (ENDINGS, {"premise": "a"}, "no column 'endings'; the columns are premise"),
        (
            SPANS,
            {"question": "a", "context": "bcd", "answers": {"text": ["c"], "answer_start": [0]}},
            "the answer 'c' is not at character 0 of the context",
        ),
        (
            SPANS,
            {"question": "a", "context": "bcd", "answers": {"text": ["c"], "answer_start": [-2]}},
            "the answer 'c' is not at character -2 of the context",
        ),
        (GAP, {"passage": "a", "query": "b", "entities": ["c"]}, "the question 'b' has no @placeholder"),
        (
            GAP,
            {"passage": "a", "query": "b", "entities": []},
            "entities is empty; there is nothing to choose",
        ),
        (TAGS, {"tokens": ["a", "b"], "tags": [0]}, "2 words, but 1 tags; give one for each word"),
        (TAGS, {"tokens": ["a"], "tags": ["B-PER"]}, "tags is 'B-PER'; it must be one of O, B-LOC"),
    ],
)
def test_bad_rows_are_refused_with_the_reason(form, values, message):
    with pytest.raises(ValueError, match=message):
        form.read(values)


def test_choices_are_templates_or_a_list():
    row = CHOICES.read({"premise": "p", "first": "a", "second": "b", "label": 0})
    assert row.texts == (("p", "a"), ("p", "b"))
    assert ENDINGS.read({"premise": "p", "endings": ["a", "b"], "label": 0}) == row


def test_every_candidate_is_put_into_the_gap_and_is_right_or_wrong():
    values = {"passage": "p", "query": "@placeholder won", "entities": ["Bo", "Al", "Bo", "Ann"]}
    row = GAP.read(values | {"answers": ["Al", "Ann"]})
    assert row.texts == (("p", "Bo won"), ("p", "Al won"), ("p", "Ann won"))
    assert (row.candidates, row.rights) == (("Bo", "Al", "Ann"), (0, 1, 1))
    assert GAP.is_labeled(row)
    unknown = GAP.read(values | {"answers": []})
    assert unknown.rights == (-1, -1, -1)
    assert not GAP.is_labeled(unknown)


def test_a_question_without_an_answer_is_labeled_where_that_can_be():
    values = {"question": "a", "context": "b", "answers": {"text": [], "answer_start": []}}
    assert QuestionAnswering(unanswerable=True).read(values).answers == ()
    assert SPANS.read(values).answers is None


def test_forms_name_the_head_they_take():
    heads = [form.head for form in (PAIR, NUMBER, CHOICES, SPANS, TAGS, GAP)]
    assert heads == [
        ("sequence_classification", 2, None),
        ("sequence_classification", 1, None),
        ("multiple_choice", 2, None),
        ("question_answering", 2, None),
        ("token_classification", 2, None),
        ("sequence_classification", 2, None),
    ]


def test_a_head_for_one_class_is_refused():
    with pytest.raises(ValueError, match="a head for one class has a loss of 0 whatever it predicts"):
        SequenceClassification(texts=("{text}",), classes=("only",))
