"""Processes of a sweep: remembered when finished, stopped together, never started twice."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from t5x_like.gin_config.user_error import UserError
from t5x_like.sweep.grid import GridPoint
from t5x_like.sweep.run_pool import Criterion, RunPool, RunStage, SweepRun, is_finished, outcome_of

LOGS = """
import json, sys, pathlib
line = {"step": 3, "split": "evaluation/rte", "accuracy": float(sys.argv[2])}
(pathlib.Path(sys.argv[1]) / "metrics.jsonl").write_text(json.dumps(line))
"""
WAITS = """
import signal, sys, time, pathlib
signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
(pathlib.Path(sys.argv[1]) / "ready").touch()
time.sleep(60)
"""


def run_of(directory: Path, name: str, program: str, *arguments: str, **described) -> SweepRun:
    home = directory / name
    stage = RunStage(home, [sys.executable, "-c", program, str(home), *arguments])
    return SweepRun(GridPoint({"RATE": name}), home, (stage,), {"rate": name, **described})


def work(runs: list[SweepRun], jobs: int = 2) -> tuple[dict[str, str], list[str]]:
    ended, lines = {}, []
    RunPool(jobs, [], lines.append).work(runs, lambda run, status: ended.update({run.directory.name: status}))
    return ended, lines


def test_runs_that_end_well_are_remembered_and_those_that_fail_say_why(tmp_path: Path) -> None:
    good = run_of(tmp_path, "good", LOGS, "71.5")
    bad = run_of(tmp_path, "bad", "raise SystemExit('no such weights')")
    ended, lines = work([good, bad])
    assert ended == {"good": "finished", "bad": "failed"}
    assert any("no such weights" in line for line in lines)
    assert (is_finished(good), is_finished(bad)) == (True, False)
    reached = outcome_of(good, "finished", Criterion())
    assert (reached.score, reached.step, reached.scores) == (71.5, 3, {"rte/accuracy": 71.5})


def test_the_second_stage_begins_when_the_first_has_finished_and_its_scores_count(tmp_path: Path) -> None:
    def stage(name: str, program: str, *arguments: str) -> RunStage:
        home = tmp_path / "both" / name
        return RunStage(home, [sys.executable, "-c", program, str(home), *arguments])

    reads = LOGS + "assert (pathlib.Path(sys.argv[1]).parent / 'initial' / 'metrics.jsonl').exists()"
    stages = (stage("initial", LOGS, "50"), stage("final", reads, "71.5"))
    run = SweepRun(GridPoint({}, label="both"), tmp_path / "both", stages, {})
    assert work([run])[0] == {"both": "finished"}
    reached = outcome_of(run, "finished", Criterion())
    assert (reached.score, reached.settings) == (71.5, {"setting": "both"})
    failing = run._replace(stages=(stage("initial", "raise SystemExit('no such text')"), stages[1]))
    ended, lines = work([failing])
    assert ended == {"both": "failed"}
    assert any("no such text" in line for line in lines)


def test_a_finished_run_of_another_configuration_is_not_taken_for_this_one(tmp_path: Path) -> None:
    work([run_of(tmp_path, "one", LOGS, "71.5", total_steps=10)])
    with pytest.raises(UserError, match="another configuration:\n  total_steps: there 10, now 20"):
        is_finished(run_of(tmp_path, "one", LOGS, "71.5", total_steps=20))


def test_an_interrupted_sweep_lets_its_runs_save_first(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, name, WAITS) for name in ("first", "second", "third")]

    def interrupt_when_both_run() -> None:
        while not all((tmp_path / name / "ready").exists() for name in ("first", "second")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    ended: dict[str, str] = {}
    watcher = threading.Thread(target=interrupt_when_both_run)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        RunPool(2, [], lambda _: None).work(
            runs, lambda run, status: ended.update({run.directory.name: status})
        )
    watcher.join()
    assert ended == {"first": "interrupted", "second": "interrupted"}
    assert not (tmp_path / "third").exists()


def test_a_run_that_is_still_at_work_is_not_started_again(tmp_path: Path) -> None:
    run = run_of(tmp_path, "one", WAITS)
    left = RunPool(1, [], lambda _: None)
    left._start(0, run)  # as a sweep leaves it that was killed
    with pytest.raises(UserError, match="is in use: an earlier run has not ended"):
        work([run])
    while not (run.directory / "ready").exists():
        time.sleep(0.05)
    left._stop(lambda *_: None)
    assert work([run_of(tmp_path, "one", LOGS, "1")])[0] == {"one": "finished"}


def test_jobs_share_the_devices_out(tmp_path: Path) -> None:
    shows = (
        "import os, sys, pathlib\n"
        "(pathlib.Path(sys.argv[1]) / 'seen').write_text(os.environ['CUDA_VISIBLE_DEVICES'])"
    )
    runs = [run_of(tmp_path, name, shows) for name in ("first", "second")]
    RunPool(2, ["0", "1", "2", "3"], lambda _: None).work(runs, lambda *_: None)
    assert [(run.directory / "seen").read_text() for run in runs] == ["0,2", "1,3"]


def test_a_number_that_was_not_measured_stops_all_runs(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, "quick", LOGS, "71.5"), run_of(tmp_path, "slow", WAITS)]

    def ended(run: SweepRun, status: str) -> None:
        while not (tmp_path / "slow" / "ready").exists():
            time.sleep(0.05)
        outcome_of(run, "finished", Criterion(metric="bleu"))

    pool = RunPool(2, [], lambda _: None)
    with pytest.raises(ValueError, match="have not measured 'bleu'"):
        pool.work(runs, ended)
    assert not pool._active


def test_a_run_of_an_earlier_version_is_finished_though_it_lacks_an_option_that_is_off(
    tmp_path: Path,
) -> None:
    good = run_of(tmp_path, "good", LOGS, "71.5")
    work([good])
    assert is_finished(good._replace(described=good.described | {"train.alternate_tasks": False}))
    with pytest.raises(UserError, match=r"train\.alternate_tasks: there 'nothing', now True"):
        is_finished(good._replace(described=good.described | {"train.alternate_tasks": True}))
