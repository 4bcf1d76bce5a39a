"""Cells that are no plain text: several references, nested values, null; in training, heads and metrics."""

import datetime
import json

import pyarrow
import pyarrow.parquet
import pytest

from t5x_like.evaluation.questions import load_questions
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads import QuestionAnswering, SequenceClassification, TokenClassification
from t5x_like.text.metrics.by_name import metric_function
from t5x_like.text.registry import register
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.row_files import read_rows
from t5x_like.text.tasks.text_task import TextTask

SUMMARIES = [
    {"document": "money back please", "summaries": ["refund message", "a refund ticket"]},
    {"document": "where is it", "summaries": ["delivery"]},
]


def jsonl(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def task(file, name="cells", **settings):
    settings = {"input_template": "{text}", "target_template": "{label}"} | settings
    return TextTask(name=name, vocabulary="bytes", files={"train": file, "validation": file}, **settings)


def summaries(tmp_path, **settings):
    templates = {"input_template": "{document}", "target_template": "{summaries}"}
    return task(jsonl(tmp_path / "rows.jsonl", *SUMMARIES), **templates, **settings)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            {"de": "gut"},
            r"rows.jsonl:2: column 'text' holds an object, {\"de\": \"gut\"}, where a text is needed",
        ),
        (["a", "b"], r"rows.jsonl:2: column 'text' holds a list, \[\"a\", \"b\"\], where a text is needed"),
        (None, "rows.jsonl:2: column 'text' is null"),
    ],
)
def test_an_input_that_is_no_text_is_refused_with_its_place(tmp_path, cell, message):
    file = jsonl(tmp_path / "rows.jsonl", {"text": "fine", "label": "a"}, {"text": cell, "label": "a"})
    with pytest.raises(ValueError, match=message):
        list(task(file).read("train"))
    documents = PretrainingTask(name="documents", vocabulary="bytes", files={"train": file})
    with pytest.raises(ValueError, match=message):
        list(documents.read("train"))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ({"de": "gut"}, "column 'label' holds an object"),
        ([], "column 'label' is an empty list; at least one reference"),
        ([1, 2], r"column 'label' holds a list, \[1, 2\]"),
        (None, "column 'label' is null"),
    ],
)
def test_a_target_that_is_no_text_and_no_list_of_texts_is_refused(tmp_path, cell, message):
    file = jsonl(tmp_path / "rows.jsonl", {"text": "fine", "label": cell})
    with pytest.raises(ValueError, match=message):
        list(task(file).read("train"))


def test_a_list_of_texts_is_several_references_of_which_the_first_is_trained_on(tmp_path):
    first, second = summaries(tmp_path).read("train")
    assert (first.targets, first.extras["references"]) == (
        "refund message",
        ["refund message", "a refund ticket"],
    )
    assert (second.targets, second.extras) == ("delivery", {})


def test_the_answers_of_squad_are_references(tmp_path):
    answers = {"text": ["refund", "refund", "a refund"], "answer_start": [0, 0, 5]}
    file = jsonl(tmp_path / "rows.jsonl", {"text": "what?", "label": answers})
    (pair,) = task(file, metrics=("squad",)).read("train")
    assert pair.extras["references"] == ["refund", "a refund"]


def test_parquet_has_the_same_references_and_plain_dates(tmp_path):
    table = pyarrow.table(
        {"text": ["a"], "label": [["x", "y"]], "day": [datetime.date(2026, 1, 2)], "raw": [b"z"]}
    )
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    (row,) = read_rows(str(tmp_path / "rows.parquet"), "parquet")
    assert row.cells == {"text": "a", "label": ["x", "y"], "day": "2026-01-02", "raw": "z"}


def test_each_epoch_trains_on_the_next_reference(tmp_path):
    definition = summaries(tmp_path, reference="each_epoch", name="each_epoch")
    register([definition])
    loader = build_loader(
        LoaderConfig(
            mixture="each_epoch", batch_size=2, inputs_length=32, targets_length=32, shuffle=False, pack=False
        )
    )
    decode = definition.tokenizer.decode
    texts = []
    for _ in range(3):
        batch = next(loader)
        texts.append([decode([int(number) for number in row if number]) for row in batch.target_tokens])
    assert texts == [
        ["refund message", "delivery"],
        ["a refund ticket", "delivery"],
        ["refund message", "delivery"],
    ]


def test_metrics_count_the_best_of_all_references(tmp_path):
    questions = load_questions(summaries(tmp_path, metrics=("squad", "sequence_accuracy")), "validation")
    predictions = ["a refund ticket", "nothing"]
    assert [metric(questions.targets, predictions) for metric in questions.metrics] == [
        {"em": 50.0, "f1": 50.0},
        {"sequence_accuracy": 50.0},
    ]


def test_rouge_and_bleu_of_several_references_are_those_of_their_libraries():
    targets = [["refund message", "the cat sat on the mat"], "a delivery came late today"]
    predictions = ["the cat sat on a mat", "a delivery came late"]
    # sacrebleu.corpus_bleu(predictions, [["refund message", targets[1]], [targets[0][1], None]], smooth_method="exp",
    # tokenize="intl"), and rouge_score's RougeScorer.score_multi
    assert metric_function("bleu")(targets, predictions)["bleu"] == pytest.approx(62.31838, abs=1e-4)
    rouge = metric_function("rouge")(targets, predictions)
    assert rouge["rouge2"] == pytest.approx(100 * (3 / 5 + 6 / 7) / 2)


def test_a_metric_of_one_target_is_refused_for_several_references(tmp_path):
    with pytest.raises(ValueError, match="metric 'token_error_rate' compares with one; choose from accuracy"):
        list(summaries(tmp_path, metrics=("token_error_rate",)).read("train"))


def test_a_head_reads_lists_and_answers_as_they_are(tmp_path):
    tags = jsonl(tmp_path / "tags.jsonl", {"tokens": ["Ada", "Lovelace", "wrote"], "tags": ["N", "N", "O"]})
    tagging = TokenClassification(classes=("O", "N"))
    (row,) = task(tags, head=tagging, input_template="{tokens}", target_template="{tags}").head_rows("train")
    assert (row.words, row.tags) == (("Ada", "Lovelace", "wrote"), (1, 1, 0))
    answers = {"text": ["Ada"], "answer_start": [0]}
    spans = jsonl(tmp_path / "spans.jsonl", {"question": "who?", "context": "Ada wrote", "answers": answers})
    templates = {"input_template": "{question} {context}", "target_template": "{answers}"}
    (row,) = task(spans, head=QuestionAnswering(), **templates).head_rows("train")
    assert row.answers == ((0, 3),)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": ["a"], "label": "x"}, "column 'text' holds a list"),
        ({"text": None, "label": "x"}, "column 'text' is null"),
        (
            {"text": "a", "label": ["x", "y"]},
            r"label is \['x', 'y'\]; it must be a whole number, or one of x, y",
        ),
    ],
)
def test_a_head_refuses_what_it_would_read_as_text(tmp_path, row, message):
    head = SequenceClassification(texts=("{text}",), classes=("x", "y"))
    file = jsonl(tmp_path / "rows.jsonl", row)
    with pytest.raises(ValueError, match=f"rows.jsonl:1: {message}"):
        list(task(file, head=head).head_rows("train"))
