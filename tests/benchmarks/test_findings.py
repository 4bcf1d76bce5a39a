"""The plan of findings, their verdicts, and the page made from them."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import comparisons
from benchmarks.findings.__main__ import Queue
from benchmarks.findings.plan import Finding, Pair, read_left_out, read_plan
from benchmarks.findings.verdicts import pair_entries, welch_interval
from docs.site import findings as findings_page
from t5x_like.gin_config.configuration import load_one

OBJECTIVES = Finding(
    name="t5_objectives",
    sentence="Denoising prepares for tasks better than language modeling.",
    recipe="comparisons/t5_objectives.gin",
    paper="Raffel et al. 2020, table 4",
    smallest=0.66,
    seeds=3,
    macros=("TRAIN_STEPS=10",),
)


def run_of(setting: str, seed: int, score: float, **changes: Any) -> dict[str, Any]:
    facts = {"device": "cpu", "commit": "abc", "date": "2026-01-01", "metric": "accuracy", "parameters": 10}
    about = {"finding": "t5_objectives", "status": "finished", "macros": ["TRAIN_STEPS=10"], "steps": [10, 5]}
    return {**facts, **about, "setting": setting, "seed": seed, "score": score, "seconds": 60.0, **changes}


def test_pairs_are_those_with_published_differences_above_the_papers_noise() -> None:
    pairs = OBJECTIVES.pairs(OBJECTIVES.comparison())
    assert pairs == [
        Pair("BERT-style", "deshuffling", 9.79),
        Pair("prefix language modeling", "deshuffling", 7.52),
        Pair("BERT-style", "prefix language modeling", 2.27),
    ]


def test_interval_covers_the_true_difference_as_often_as_it_says() -> None:
    draws = random.Random(0)
    intervals = [
        welch_interval([draws.gauss(1, 1) for _ in range(4)], [draws.gauss(0, 3) for _ in range(3)])
        for _ in range(2000)
    ]
    covered = sum(interval.low <= 1 <= interval.high for interval in intervals) / len(intervals)
    assert covered == pytest.approx(0.95, abs=0.025)


def test_equal_scores_decide_nothing() -> None:
    assert welch_interval([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]).verdict == "undecided"


def test_a_pair_is_decided_when_both_settings_have_all_seeds() -> None:
    comparison = OBJECTIVES.comparison()
    runs = [run_of("BERT-style", seed, 90.0 + seed) for seed in range(3)]
    runs += [run_of("deshuffling", seed, 40.0 - seed) for seed in range(2)]
    assert pair_entries(OBJECTIVES, comparison, runs) == []
    entries = pair_entries(OBJECTIVES, comparison, [*runs, run_of("deshuffling", 2, 39.0)])
    assert [(entry["better"], entry["worse"], entry["verdict"]) for entry in entries] == [
        ("BERT-style", "deshuffling", "same")
    ]
    assert entries[0]["difference"] == pytest.approx(51.6667, abs=1e-4)
    assert entries[0]["steps"] == 15


def test_runs_of_another_plan_and_failed_ones_do_not_count() -> None:
    runs = [run_of(name, seed, 1.0) for name in ("BERT-style", "deshuffling") for seed in range(3)]
    runs[0]["macros"] = ["TRAIN_STEPS=20"]
    assert pair_entries(OBJECTIVES, OBJECTIVES.comparison(), runs) == []
    runs[0] |= {"macros": ["TRAIN_STEPS=10"], "status": "failed"}
    assert pair_entries(OBJECTIVES, OBJECTIVES.comparison(), runs) == []


def test_lower_losses_are_better() -> None:
    memory = Finding(
        name="memory",
        sentence="Memory lowers perplexity.",
        recipe="comparisons/transfo_xl_memory.gin",
        paper="Dai et al. 2019, table 6",
        smallest=0.1,
        seeds=3,
    )
    runs = [run_of("memory", seed, 1.7 + 0.01 * seed, finding="memory", macros=[]) for seed in range(3)]
    runs += [run_of("no memory", seed, 1.9 + 0.01 * seed, finding="memory", macros=[]) for seed in range(3)]
    (entry,) = pair_entries(memory, memory.comparison(), runs)
    assert (entry["better"], entry["verdict"]) == ("memory", "same")


def test_a_finding_can_be_repeated_for_some_settings() -> None:
    part = replace(OBJECTIVES, settings=("BERT-style", "deshuffling"))
    assert part.pairs(part.comparison()) == [Pair("BERT-style", "deshuffling", 9.79)]


def test_queue_gives_what_is_missing_and_fits_into_the_time(tmp_path: Path) -> None:
    done = [run_of("BERT-style", 0, 90.0), run_of("deshuffling", 1, 40.0, status="failed")]
    (tmp_path / "findings_runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in done))
    queue = Queue([OBJECTIVES], tmp_path)
    missing = {seed: settings for _, seed, settings in queue.missing()}
    assert missing[0] == ["deshuffling", "prefix language modeling"]
    assert missing[1] == ["BERT-style", "deshuffling", "prefix language modeling"]
    assert queue.next(50.0, 2) is None
    assert queue.next(-1.0, 2) is None
    first = queue.next(70.0, 1)
    assert first is not None
    assert first[1:] == (0, ["deshuffling"])
    second = queue.next(70.0, 1)  # a run that failed in this sitting isn't tried again
    assert second is not None
    assert second[1:] == (0, ["prefix language modeling"])


def test_a_loss_of_first_runs_is_compared_without_second_ones() -> None:
    finding = replace(OBJECTIVES, held_out_loss=True, metric="validation/king_james/loss")
    flags = finding.sweep_flags(2, Path("corpus"))
    assert {"--first_run_only", "--lowest", "--set=SEED=2"} <= set(flags)
    assert not any("then:" in flag for flag in flags)
    assert "--set=then:SEED=2" in OBJECTIVES.sweep_flags(2, None)
    runs = [
        run_of(setting, seed, score + 0.01 * seed)
        for setting, score in {"BERT-style": 2.0, "deshuffling": 3.0}.items()
        for seed in range(3)
    ]
    assert pair_entries(finding, finding.comparison(), runs)[0]["verdict"] == "same"


@pytest.mark.parametrize("finding", read_plan(), ids=lambda finding: finding.name)
def test_the_plan_names_settings_and_published_scores_of_its_comparisons(finding: Finding) -> None:
    comparison = finding.comparison()
    pairs = finding.pairs(comparison)
    assert pairs
    assert set(finding.settings) <= comparison.settings.keys()
    assert finding.metric or comparison.metric


def test_every_published_comparison_is_planned_waits_or_is_left_out() -> None:
    published = {
        file.relative_to("gin/recipes").as_posix()
        for file in comparisons.RECIPES.values()
        if load_one([str(file)], [], root="", parameter="", macro="COMPARISON").published
    }
    not_ours = {"comparisons/t5_corpora.gin"}  # its toy reads other corpora than the paper
    planned = {finding.recipe for finding in read_plan()} | {each.recipe for each in read_left_out()}
    assert planned == published - not_ours


def test_fewer_than_three_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="an interval needs at least 3"):
        Finding(name="a", sentence="", recipe="", paper="", smallest=0.0, seeds=2)


def test_the_page_is_made_from_the_results() -> None:
    assert findings_page.PAGE.read_text(encoding="utf-8") == findings_page.page()
