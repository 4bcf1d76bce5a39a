import re

import pytest

from t5x_like.evaluation.class_scores import class_scores
from t5x_like.io.files import read_json, write_json, write_jsonl
from t5x_like.reports.evaluation_report import gap, worst_answers, write_evaluation_report
from t5x_like.reports.published_scores import PUBLISHED, published_for
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.suites import GLUE, SUITES, SUPER_GLUE

LABELS = ["no", "yes"]


def row(number, target, prediction, **more):
    return {
        "task": "t",
        "number": number,
        "input": f"<q{number}>",
        "target": target,
        "prediction": prediction,
    } | more


ROWS = [
    row(0, "no", "no", log_likelihood=-0.1),
    row(1, "no", "yes", log_likelihood=-9.0),
    row(2, "yes", "maybe", log_likelihood=-3.0),
    row(3, None, "yes", log_likelihood=None),
]


def entry(**more):
    return {
        "method": "generate", "scores": {"accuracy": 33.3}, "baseline": {"accuracy": 66.7},
        "baseline_name": "most frequent",
        "intervals": {"accuracy": {"low": 10.0, "high": 60.0, "confidence": 0.95, "resamples": 10, "units": 3}},
        "examples": 4, "unlabeled": 1, "invalid": 1, "cut_inputs": 2, "dropped_examples": 0, "labels": LABELS,
    } | more  # fmt: skip


@pytest.fixture
def directory(tmp_path):
    tasks = {
        "glue_rte_v002": entry(),
        "glue_ax_v002": entry(scores={}, intervals={}, withheld="none of the 4 rows has a label"),
        "glue_stsb_v002": entry(scores={"pearson_corrcoef": None}, not_numbers=["pearson_corrcoef"]),
    }
    results = {
        "checkpoint": "runs/<mine>", "step": 7, "model": "T5", "parameters": 1234, "versions": {"jax": "0.10"},
        "settings": {
            "split": "validation", "limit": None, "num_shots": 2, "shot_seed": 0, "inputs_length": 64, "weights": "abc",
        },
        "tasks": tasks, "left_out": {},
        "averages": {"glue": {"score": None, "missing": ["glue_cola_v002/matthews_corrcoef"]}},
    }  # fmt: skip
    write_json(tmp_path / "scores.json", results)
    for task in tasks:
        write_jsonl(tmp_path / task / "predictions.jsonl", ROWS)
    return tmp_path


def test_a_page_shows_scores_confusions_and_the_worst_answers(directory):
    with open(write_evaluation_report(directory), encoding="utf-8") as file:
        html = file.read()
    assert "&lt;mine&gt; on GLUE" in html
    assert "<mine>" not in html
    assert "<q1>" not in html
    assert "2 solved examples before each question" in html
    assert "none: glue_cola_v002 missing" in html
    assert "1 predictions are not valid answers" in html
    assert "No scores: none of the 4 rows has a label" in html
    assert "pearson corrcoef is not a number here" in html
    assert "Raffel et al. 2020, Table 14" in html
    assert "src=" not in html  # needs no other file


def report_of(folder, **more):
    """The report about one task, as HTML."""
    scores = read_json(folder / "scores.json")
    scores["tasks"] = {"glue_rte_v002": entry(**more)}
    write_json(folder / "scores.json", scores)
    with open(write_evaluation_report(folder), encoding="utf-8") as file:
        return file.read()


def test_a_confusion_counts_classes_and_what_is_none(directory):
    html = report_of(directory, **class_scores(LABELS, ROWS))
    cells = re.findall(r"<td class=\"(right|wrong|total)\"[^>]*>([\d,]+)", html)
    assert cells == [
        *[("right", "1"), ("wrong", "1"), ("wrong", "0"), ("total", "2")],
        *[("wrong", "0"), ("right", "0"), ("wrong", "1"), ("total", "1")],
    ]
    assert re.findall(r"<tr><td>(no|yes)</td>" + r"<td class=\"number\">([\d.]+)</td>" * 3, html) == [
        ("no", "100.0", "50.0", "66.7"),
        ("yes", "0.00", "0.00", "0.00"),
    ]
    assert '<table class="confusion">' not in report_of(directory)


def test_the_worst_answers_are_those_found_least_likely(directory):
    assert re.findall(r"&lt;q(\d)&gt;", report_of(directory)) == ["1", "2"]
    assert worst_answers(ROWS[:1]) == []
    ranked = row(4, "no", "yes", log_likelihood=-5.0, choices={"no": -5.0, "yes": -1.5})
    assert gap(ranked) == -3.5


def test_a_line_stays_within_its_scale(directory):
    html = report_of(
        directory,
        scores={"accuracy": 100.0},
        intervals={"accuracy": {"low": 98.0, "high": 104.0}},
        baseline={"accuracy": -3.0},
    )
    numbers = [float(x) for x in re.findall(r'(?:x1|x2|cx)="([\d.]+)"', html)]
    assert len(numbers) > 10
    assert min(numbers) >= 6
    assert max(numbers) <= 254


def measured(task):
    """The metrics, "task/metric", of a task without an average, from a right answer."""
    right = ["yes"] if task.startswith("squad") else "yes"
    return {
        f"{task}/{name}" for metric in catalogue.benchmark(task).metrics for name in metric([right], ["yes"])
    }


def test_published_scores_are_of_metrics_that_are_measured():
    averaged = {name for suite in SUITES.values() for names in suite.average.values() for name in names}
    for each in PUBLISHED:
        assert each.url.startswith("https://")
        for name, score in each.scores.items():
            assert name in averaged or name in measured(name.partition("/")[0])
            assert 0 < score <= 100
    scores = [score for _, score in published_for("glue_cola_v002/matthews_corrcoef")]
    assert scores == sorted(scores)


def scores_of(model, split="test"):
    """All published scores of a model, from any source."""
    results = [each.scores for each in PUBLISHED if (each.model, each.split) == (model, split)]
    return {name: score for scores in results for name, score in scores.items()}


@pytest.mark.parametrize(
    ("model", "published"),
    [
        *[("T5 Small", 63.3), ("T5 Base", 76.2), ("T5 Large", 82.3), ("T5 3B", 86.4), ("T5 11B", 89.3)],
        *[("BERT large", 69.0), ("GPT-3 175B, 32 shots", 71.8), ("people", 89.8)],
    ],
)
def test_published_scores_on_superglue_have_their_published_average(model, published):
    assert SUPER_GLUE.average_of(scores_of(model)) == pytest.approx(published, abs=0.06)


@pytest.mark.parametrize(
    ("model", "published"),
    [
        *[("T5 Small", 77.4), ("T5 Base", 82.7), ("T5 Large", 86.4), ("T5 3B", 88.5), ("T5 11B", 90.3)],
        ("people", 87.1),
    ],
)
def test_published_scores_on_glue_have_their_published_average(model, published):
    scores = scores_of(model)
    with_wnli = (
        8 * (GLUE.average_of(scores) or 0.0) + scores["glue_wnli_v002/accuracy"]
    ) / 9  # as its server counts
    assert with_wnli == pytest.approx(published, abs=0.06)


@pytest.mark.parametrize(("model", "published"), [("BERT base", 79.6), ("BERT large", 82.1)])
def test_berts_published_scores_on_glue_have_its_published_average(model, published):
    scores = [score for name, score in scores_of(model).items() if name.startswith("glue_")]
    assert sum(scores) / len(scores) == pytest.approx(published, abs=0.06)


def test_words_without_a_label_make_no_answer_wrong():
    tagged = [row(0, ["B", None, "O"], ["B", "B", "O"]), row(1, ["B", None], ["O", "O"])]
    assert [each["number"] for each in worst_answers(tagged)] == [1]


def test_classes_of_a_row_are_listed_and_no_class_is_nothing(directory):
    classes, task = ("action", "<drama>"), "glue_rte_v002"
    rows = [
        row(0, ["action", "<drama>"], ["action"]),
        row(1, [], ["<drama>"]),
        row(2, ["action"], []),
        row(3, [], []),
    ]
    write_jsonl(directory / task / "predictions.jsonl", rows)
    html = report_of(directory, **class_scores(classes, rows, are_sets=True))
    cells = re.findall(r"<td>&lt;q\d&gt;</td><td>(.*?)</td><td>(.*?)</td>", html)
    assert cells[:3] == [
        ("action · &lt;drama&gt;", "action"),
        ("<em>nothing</em>", "&lt;drama&gt;"),
        ("action", "<em>nothing</em>"),
    ]
    assert "3 are not the target" in html
    assert "<tr><td>action</td>" in html
    assert "<tr><td>&lt;drama&gt;</td>" in html
    assert '<table class="confusion">' not in html
