"""Answers of two models are paired by their prompts and judged in both orders."""

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from t5x_like.cli.main import main
from t5x_like.evaluation.judgments import (
    FunctionJudge,
    compare_answers,
    count_wins,
    judge_pairs,
    length_judge,
)
from t5x_like.evaluation.paired_answers import AnswerPair, pair_answers, read_answers
from t5x_like.io.files import read_json, read_jsonl, write_json, write_jsonl

PAIRS = [AnswerPair(f"prompt {index}", "a" * index, "aaa") for index in range(6)]


def judge_of(function: Callable[[str, str, str], Any], time_limit: float = 60.0) -> FunctionJudge:
    return FunctionJudge(function=function, name="taste", time_limit=time_limit)


def concise(prompt: str, first: str, second: str) -> int:
    del prompt
    return len(second) - len(first)


def test_a_win_rate_counts_ties_as_half_a_win_and_has_lengths_as_baseline() -> None:
    result, judgments = compare_answers(PAIRS, judge_of(concise))
    counts = {name: result[name] for name in ("pairs", "wins", "ties", "losses", "contradictions")}
    assert counts == {"pairs": 6, "wins": 3, "ties": 1, "losses": 2, "contradictions": 0.0}
    assert result["win_rate"] == pytest.approx(100 * 3.5 / 6)
    assert result["longer_answer"]["win_rate"] == pytest.approx(100 * 2.5 / 6)
    assert result["mean_length"] == {"first": 2.5, "second": 3.0}
    interval = result["interval"]
    assert 0 < interval["low"] < result["win_rate"] < interval["high"] <= 100
    assert (interval["confidence"], interval["units"]) == (0.95, 6)
    assert count_wins(judgments)["interval"] == interval  # drawn by the same seed


@pytest.mark.parametrize(
    "judge",
    [lambda *_: 1, lambda *answers: 0 if answers[1] == "aaa" else 1],
    ids=["always the first", "a tie in one order"],
)
def test_a_judge_that_decides_otherwise_for_swapped_answers_contradicts_itself(judge: Any) -> None:
    pairs = [pair for pair in PAIRS if pair.first != pair.second]
    judgments = judge_pairs(pairs, judge_of(judge))
    assert {(each.outcome, each.is_contradiction) for each in judgments} == {(0.5, True)}
    counts = count_wins(judgments)
    assert (counts["win_rate"], counts["contradictions"]) == (50.0, 100.0)


def test_answers_to_one_prompt_are_drawn_together_and_one_prompt_has_no_interval() -> None:
    pairs = [AnswerPair(prompt, answer, "aa") for prompt in "xy" for answer in ("a", "aaa", "aaaa")]
    interval = count_wins(judge_pairs(pairs, length_judge))["interval"]
    assert interval["units"] == 2
    assert interval["low"] == interval["high"]  # both prompts have the same outcomes
    assert count_wins(judge_pairs(pairs[:3], length_judge))["interval"] is None


def test_answers_are_paired_by_their_prompts() -> None:
    first, second = [("x", "1"), ("y", "2"), ("x", "3")], [("x", "4"), ("x", "5"), ("y", "6")]
    pairs = pair_answers(first, second, names=("a", "b"))
    assert pairs == [AnswerPair("x", "1", "4"), AnswerPair("y", "2", "6"), AnswerPair("x", "3", "5")]
    with pytest.raises(ValueError, match="b has 2 answers to prompts that a has no answer to, such as 'x'"):
        pair_answers(first[1:2], second, names=("a", "b"))


def raises(*_: str) -> float:
    raise KeyError("key")


def hangs(*_: str) -> float:
    threading.Event().wait(5)
    return 1.0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raises, "judge taste raised KeyError for prompt 'prompt 0': 'key'"),
        (hangs, r"judge taste did not answer within 0\.2 seconds for prompt 'prompt 0'"),
        (lambda *_: math.nan, "judge taste returned nan for prompt 'prompt 0'; return a number above 0"),
        (lambda *_: "first", "judge taste returned 'first'"),
        (lambda *_: True, "judge taste returned True"),
        (lambda *_: None, "judge taste returned None"),
    ],
)
def test_judges_that_give_no_number_are_refused(function: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        judge_pairs(PAIRS, judge_of(function, 0.2))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", "", "the file is empty"),
        ("a.csv", "prompt,prediction\n", "has no rows; there is nothing to compare"),
        (
            "a.jsonl",
            '{"prompt": "x"}\n',
            "a.jsonl:1: no column 'prediction'; the columns are prompt; each row",
        ),
        ("a.jsonl", '{"prediction": "x"}\n', "no column 'prompt'"),
        ("a.jsonl", '{"prompt": "x", "prediction": null}\n', "column 'prediction' is null"),
        ("a.html", "", "is no table by its name"),
    ],
)
def test_tables_without_prompts_and_answers_are_refused(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_answers(str(tmp_path / name))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the evaluations of two runs, and a module with a judge."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "brief_judges.py").write_text(
        "def concise(prompt, first, second):\n    return len(second) - len(first)\n"
    )
    for run in ("one", "two"):
        rows = [
            {"input": f"<b>{index}", "prediction": "a" * (index if run == "one" else 2)} for index in range(6)
        ]
        write_jsonl(tmp_path / run / "evaluation/talk/predictions.jsonl", rows)
        write_jsonl(tmp_path / run / "metrics.jsonl", [{"step": 1, "split": "train", "loss": 1.0}])
    scores = {"tasks": {}, "settings": {}, "averages": {}, "left_out": {}}
    write_json(tmp_path / "one/evaluation/scores.json", scores)
    return tmp_path


def test_two_runs_are_compared_and_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--judge", "brief_judges.concise", "--output_dir", "compared"]
    assert main(["win_rate", "one", "two", *flags]) == 0
    printed = capsys.readouterr().out
    assert "one against two, 6 pairs of answers" in printed
    assert "mean lengths in characters: 2.5 of one and 2.0 of two" in printed
    result = read_json(folder / "compared/win_rate.json", dict)
    assert (result["first"], result["judge"], result["wins"]) == ("one", "brief_judges.concise", 2)
    rows = list(read_jsonl(folder / "compared/judgments.jsonl"))
    assert [row["preferred"] for row in rows] == ["first"] * 2 + ["tie"] + ["second"] * 3
    report = [
        "--run",
        "one",
        "--evaluation",
        "one/evaluation",
        "--win_rate",
        "compared",
        "--output",
        "page.html",
    ]
    assert main(["report", *report]) == 0
    page = (folder / "page.html").read_text()
    assert "one against two" in page
    assert "<td>&lt;b&gt;5</td><td>aaaaa</td><td>aa</td><td>second</td>" in page


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("one two --judge two --time_limit 9", "--time_limit has no effect: the judge two is a reward model"),
        ("one two --judge brief_judges.concise --batch_size 9", "--batch_size has no effect"),
        ("one two --judge nowhere", "--judge nowhere: there is no such directory"),
        ("one two --judge brief_judges.absent", "brief_judges has no function 'absent'"),
        ("one two --judge no_such_module.judge", "there is no module 'no_such_module'"),
        ("one three --judge brief_judges.concise", "three: there is no such file or folder"),
        ("one compared --judge brief_judges.concise", "compared has no predictions (TASK/predictions.jsonl)"),
        ("one two --task sums --judge brief_judges.concise", "no predictions of task 'sums'"),
        ("one two --judge brief_judges.concise --time_limit 0", "0 is too small"),
    ],
)
def test_wrong_flags_are_messages(
    folder: Path, capsys: pytest.CaptureFixture[str], flags: str, message: str
) -> None:
    (folder / "compared").mkdir()
    assert main(["win_rate", *flags.split()]) == 2
    assert message in capsys.readouterr().err
