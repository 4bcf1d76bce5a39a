"""Thresholds for a model's ratings: what each keeps, the page, and the command."""

import json

import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import write_jsonl
from t5x_like.reports.score_thresholds import best_outcome, threshold_outcomes

SCORES = [0.0, 1.0, 2.0, 3.0, 4.0]
GOOD = [False, False, True, False, True]


def test_each_threshold_has_the_precision_recall_and_share_of_plain_counting():
    outcomes = threshold_outcomes(SCORES, GOOD)
    assert [outcomes[0].threshold, outcomes[-1].threshold] == [0, 4]
    by_threshold = {outcome.threshold: outcome for outcome in outcomes}
    assert by_threshold[0].precision == pytest.approx(2 / 5)
    two = by_threshold[2.0]
    assert (two.kept, two.precision, two.recall) == pytest.approx((3 / 5, 2 / 3, 1))
    assert two.f1 == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))
    assert (by_threshold[4.0].precision, by_threshold[4.0].recall) == (1, 0.5)


def test_the_best_threshold_is_the_lowest_of_the_highest_f1():
    assert best_outcome(threshold_outcomes(SCORES, GOOD)).threshold == 1.1  # 2 is kept, 1 is not


def test_thresholds_of_small_scores_are_exact():
    outcomes = threshold_outcomes([score / 1e6 for score in SCORES], GOOD)
    assert best_outcome(outcomes).threshold == pytest.approx(1.1e-6)


@pytest.fixture
def table(tmp_path):
    rows = zip(SCORES, GOOD, strict=True)
    write_jsonl(
        tmp_path / "rows.jsonl", [{"prediction": score, "score": 5 if good else 0} for score, good in rows]
    )
    return str(tmp_path / "rows.jsonl")


def test_the_command_writes_a_page_and_its_numbers(table, tmp_path, capsys):
    output = tmp_path / "page.html"
    command = ["corpus", "thresholds", table, "--label", "score", "--at_least", "3", "--output", str(output)]
    assert main(command) == 0
    assert "best F1 0.800 at 1.1: keeps 60.0%, precision 0.667, recall 1.000" in capsys.readouterr().out
    numbers = json.loads((tmp_path / "page.json").read_text())
    assert numbers["rows"] == 5
    assert numbers["best"]["threshold"] == 1.1
    assert len(numbers["thresholds"]) == 41
    page = output.read_text()
    assert "<svg" in page
    assert "Rows with a score of at least 3 are good." in page


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--at_least", "9"], "0 of 5 rows are good; a threshold needs rows of both kinds"),
        (["--at_least", "3", "--output", "page.json"], "name it FILE.html"),
        (["--at_least", "3", "--prediction", "rating"], "has no such column"),
    ],
)
def test_tables_without_a_choice_are_refused(table, capsys, flags, message):
    assert main(["corpus", "thresholds", table, "--label", "score", *flags]) == 2
    assert message in capsys.readouterr().err
