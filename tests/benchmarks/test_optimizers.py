"""The comparison of optimizers: what it trains, what it trains only once, and its summary."""

import json
from pathlib import Path

import pytest

from benchmarks import optimizers
from benchmarks.optimizers import CANDIDATES, experiment, main, means
from t5x_like.training.experiment import Experiment, describe


@pytest.mark.parametrize("name", CANDIDATES)
def test_runs_differ_from_the_quickstart_in_their_optimizer(name: str, tmp_path: Path) -> None:
    run = experiment(name, 4.0, 7, 20, str(tmp_path))
    rate = run.optimizer.learning_rate
    assert callable(rate)
    assert float(rate(2)) == pytest.approx(4 * CANDIDATES[name].rate)
    assert float(rate(19)) == pytest.approx(
        4 * CANDIDATES[name].rate * (1 / 18 if CANDIDATES[name].falls else 1)
    )
    assert (run.run.seed, run.data.train.seed, run.run.total_steps) == (7, 7, 20)
    assert run.run.intervals.evaluate_every_steps == 20
    assert run.data.train.mixture == "king_james"


def test_finished_runs_are_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []

    def measured(run: Experiment) -> dict:
        rate, seed = describe(run.optimizer)["learning_rate.peak"], run.run.seed
        trained.append((rate, seed))
        return {"cross_entropy": None if rate == 8e-4 else 4.0 + seed, "steps": run.run.total_steps}

    monkeypatch.setattr(optimizers, "measure", measured)
    output = tmp_path / "result.json"
    flags = ["optimizers", "--optimizers", "lion", "--output", str(output)]
    for seeds in (["0"], ["0", "1"]):
        monkeypatch.setattr("sys.argv", [*flags, "--multiples", "0.5", "4", "--seeds", *seeds])
        main()
    assert trained == [(1e-4, 0), (8e-4, 0), (1e-4, 1), (8e-4, 1)]
    monkeypatch.setattr("sys.argv", [*flags, "--multiples", "0.5", "--seeds", "0", "--steps", "9"])
    main()
    assert len(trained) == 5
    assert len(json.loads(output.read_text())["runs"]) == 4


def test_a_rate_that_diverged_has_no_mean_and_is_not_the_best() -> None:
    runs = {
        f"lion/rate_{rate}/seed_{seed}": {"cross_entropy": loss}
        for rate, losses in {"1": (5.0, 7.0), "2": (4.0, None)}.items()
        for seed, loss in enumerate(losses)
    }
    lion = means(runs)["lion"]
    assert lion["best_rate"] == "rate_1"
    assert lion["rates"]["rate_1"] == {"cross_entropy": 6.0, "standard_deviation": 1.4142, "seeds": 2}
    assert lion["rates"]["rate_2"]["cross_entropy"] is None
