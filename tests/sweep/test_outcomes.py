"""What is made of a sweep's scores."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from t5x_like.evaluation.scores_file import build_scores, write_scores
from t5x_like.sweep.comparison import Comparison, FullSize
from t5x_like.sweep.outcomes import (
    RunOutcome,
    best_of,
    chosen_step,
    results,
    score_of,
    scores_by_step,
    summarize,
    table,
)


def outcome(rate: str, seed: int | None, score: float | None) -> RunOutcome:
    status = "waiting" if score is None else "finished"
    return RunOutcome(f"{rate}{seed}", {"RATE": rate}, seed, status, "runs/x", 10, {}, score)


SOME = [
    outcome("1e-5", 0, 60.0),
    outcome("1e-5", 1, 64.0),
    outcome("2e-5", 0, 63.0),
    outcome("2e-5", 1, None),
    outcome("3e-5", 0, None),
]


def test_a_setting_has_mean_and_deviation_over_the_seeds_that_have_finished() -> None:
    first, second, third = summarize(SOME)
    assert (first.mean, first.std) == (62.0, statistics.stdev([60.0, 64.0]))
    assert (first.median, first.best, first.scores) == (62.0, 64.0, {"0": 60.0, "1": 64.0})
    assert (second.mean, second.std) == (63.0, None)
    assert third.mean is None


def test_the_best_setting_has_the_best_mean_and_a_star() -> None:
    best = best_of(summarize(SOME))
    lowest = best_of(summarize(SOME, lowest=True), lowest=True)
    assert best is not None
    assert lowest is not None
    assert (best.settings["RATE"], lowest.settings["RATE"]) == ("2e-5", "1e-5")
    lines = table(summarize(SOME), metric="accuracy").splitlines()
    assert lines[0].split() == ["RATE", "accuracy", "std", "median", "best", "seeds"]
    assert [line.startswith("*") for line in lines] == [False, False, True, False]
    assert lines[3].split() == ["3e-5", "-", "-", "-", "-"]


def test_scores_that_are_no_numbers_are_never_the_best() -> None:
    best = best_of(summarize([outcome("1e-5", 0, float("nan")), outcome("2e-5", 0, 1.0)]))
    assert best is not None
    assert best.settings == {"RATE": "2e-5"}


def test_a_task_counts_once_however_many_metrics_it_has() -> None:
    scores = {"mrpc/f1": 90.0, "mrpc/accuracy": 80.0, "rte/accuracy": 65.0, "validation/mrpc/loss": 0.3}
    scores["validation/mrpc/accuracy"] = 0.5  # of tokens; nobody means it who says accuracy
    scores["rte@average/accuracy"] = 99.0  # of averaged weights, which are asked for by name
    assert score_of(scores, "rte@average/accuracy") == 99.0
    assert score_of(scores, None) == 75.0
    assert score_of(scores, "accuracy") == 72.5
    assert score_of(scores, "mrpc/f1") == 90.0
    assert score_of(scores, "validation/mrpc/loss") == 0.3
    with pytest.raises(ValueError, match="the runs have not measured 'bleu'; choose metric among: mrpc/f1"):
        score_of(scores, "bleu")
    with pytest.raises(ValueError, match="metric=validation/mrpc/loss with lowest=True"):
        score_of({"validation/mrpc/loss": 0.3}, None)


def test_published_scores_are_beside_the_measured_ones_and_pairs_are_compared() -> None:
    def one(setting: str, seed: int, score: float) -> RunOutcome:
        return RunOutcome(f"{setting}{seed}", {"setting": setting}, seed, "finished", "runs/x", 10, {}, score)

    outcomes = [
        *(one("denoising", seed, score) for seed, score in enumerate((80.0, 82.0))),
        *(one("shared", seed, score) for seed, score in enumerate((81.0, 81.4))),
        *(one("language model", seed, score) for seed, score in enumerate((70.0, 71.0))),
    ]
    paper = Comparison(
        settings={"denoising": (), "shared": (), "language model": ()},
        published={"denoising": 83.28, "shared": 82.81, "language model": 74.7},
        source="table 2",
    )
    lines = table(summarize(outcomes), metric="accuracy", comparison=paper).splitlines()
    assert lines[0].split()[-1] == "published"
    assert lines[1].split()[-1] == "83.28"
    result = results(outcomes, metric="accuracy", comparison=paper)["published"]
    assert result["pairs"] == {"same": 2, "other": 0, "undecided": 1}  # 81.0 and 81.2 are too close
    assert result["source"] == "table 2"
    lowest = results(outcomes, metric="loss", lowest=True, comparison=paper)["published"]
    assert lowest["pairs"] == {"same": 0, "other": 2, "undecided": 1}


def test_sizes_of_models_are_shown_if_they_differ() -> None:
    tied, own = (
        RunOutcome(name, {"setting": name}, 0, "finished", "runs/x", 10, {}, 2.0, num_parameters=size)
        for name, size in (("tied", 1_000_000), ("own", 1_500_000))
    )
    lines = table(summarize([tied, own]), metric="loss").splitlines()
    assert lines[0].split() == ["setting", "parameters", "loss"]
    assert "1,500,000" in lines[2]
    assert "parameters" not in table(summarize([tied]), metric="loss")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"published": {"shared": 82.8}, "source": "table 2"}, "published has scores of 'shared'"),
        ({"published": {"denoising": 83.3}}, "need a source"),
        ({"settings": {"denoising": ("then: SEED = 1",)}}, "there is none: say which"),
        (
            {"full_size": FullSize(recipes=("a.gin",), settings={"a": ("then: SEED = 1",)})},
            "there is none: say which",
        ),
        ({"ensembles": {"both": ("denoising", "lm")}}, "and two or more of the settings 'denoising'"),
        (
            {"ensembles": {"both": ("denoising",)}},
            "the ensemble 'both' of 'denoising': give it a name of its own",
        ),
        ({"ensembles": {"denoising": ("denoising", "denoising")}}, "give it a name of its own"),
    ],
)
def test_a_comparison_that_contradicts_itself_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Comparison(**dict[str, Any]({"settings": {"denoising": ()}}, **values))


def test_a_runs_scores_are_read_from_its_log(tmp_path: Path) -> None:
    lines = [
        {"step": 5, "split": "train", "loss": 1.0},
        {"step": 5, "split": "evaluation/rte", "accuracy": 70.0},
        {"step": 10, "split": "validation/rte", "loss": 0.5},
        {"step": 10, "split": "evaluation/rte", "accuracy": 60.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = scores_by_step(tmp_path)
    assert result == {5: {"rte/accuracy": 70.0}, 10: {"validation/rte/loss": 0.5, "rte/accuracy": 60.0}}
    assert chosen_step(result, None, at="last", lowest=False) == 10
    assert chosen_step(result, None, at="best", lowest=False) == 5
    assert chosen_step(result, None, at="best", lowest=True) == 10
    with pytest.raises(ValueError, match="measured nothing"):
        chosen_step({}, None, at="last", lowest=False)


def test_the_mean_over_tasks_leaves_out_error_rates() -> None:
    scores = {"sounds/token_error_rate": 24.0, "sounds/sequence_accuracy": 32.0, "kinds/accuracy": 86.0}
    assert score_of(scores, None) == (32.0 + 86.0) / 2
    assert score_of(scores, "token_error_rate") == 24.0
    with pytest.raises(ValueError, match="only measures losses or error rates"):
        score_of({"sounds/token_error_rate": 24.0}, None)


def test_an_ensembles_scores_are_read_from_its_evaluation(tmp_path: Path) -> None:
    result = {"scores": {"accuracy": 70.0, "matthews": None}}
    write_scores(
        tmp_path,
        build_scores({"rte": result}, checkpoint="a + b", step=7, model={"model": "T5", "parameters": 1}),
    )
    assert scores_by_step(tmp_path) == {7: {"rte/accuracy": 70.0}}


def test_a_comparison_keeps_the_published_scores_of_its_size() -> None:
    compared = Comparison(
        settings={"5": (), "21": ()},
        published={"5": 1.0, "32": 2.0},
        source="table 10",
        full_size=FullSize(recipes=("a.gin",), settings={"32": (), "128": ()}, metric="accuracy"),
    )
    toy, full = compared.as_toy(), compared.at_full_size()
    assert (list(toy.settings), dict(toy.published), toy.metric) == (["5", "21"], {"5": 1.0}, None)
    assert (list(full.settings), dict(full.published), full.metric) == (
        ["32", "128"],
        {"32": 2.0},
        "accuracy",
    )
    with pytest.raises(ValueError, match="this comparison has no full size"):
        toy.at_full_size()
