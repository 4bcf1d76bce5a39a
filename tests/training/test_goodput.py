"""Goodput counts lost steps and stops as lost time, over all starts of a run."""

import json
import time

import pytest

from t5x_like.training.goodput import Goodput


def line(step, step_seconds, elapsed, *, ago=0.0):
    values = {"step_seconds": step_seconds, "elapsed_seconds": elapsed, "time": time.time() - ago}
    return {"step": step, "split": "train", **values}


def test_a_first_start_counts_its_steps():
    goodput = Goodput()
    time.sleep(0.2)
    measured = goodput.measure([{"step": 1, "split": "train", "step_seconds": 0.05}], 0.05)
    assert measured["elapsed_seconds"] == pytest.approx(0.2, abs=0.1)
    assert measured["goodput"] == pytest.approx(0.1 / measured["elapsed_seconds"])


@pytest.mark.parametrize(("total_steps", "elapsed"), [(600, 150), (400, 100)], ids=["stopped", "complete"])
def test_a_later_start_counts_lost_steps_and_the_stop_after_a_crash(tmp_path, total_steps, elapsed):
    (tmp_path / "config.json").write_text(json.dumps({"total_steps": total_steps}))
    lines = [line(200, 40.0, 50.0, ago=100), line(400, 45.0, 100.0, ago=50)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    measured = Goodput.of_run(str(tmp_path)).measure(lines[:1], 20.0)  # steps 201 to 400 were lost
    assert measured["elapsed_seconds"] == pytest.approx(elapsed, abs=1.0)
    assert measured["goodput"] == pytest.approx(60 / measured["elapsed_seconds"])
    assert time.time() - measured["time"] < 1


def test_a_run_of_an_earlier_version_begins_to_count_now(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 5, "split": "train", "loss": 1.0}\n')
    assert Goodput.of_run(str(tmp_path)).measure([], 0.0)["elapsed_seconds"] < 1
