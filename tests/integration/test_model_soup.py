"""Greedy model soups: a run stays in the average only if the score on held-out rows doesn't fall."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.cli.main import main
from t5x_like.evaluation.evaluator import HeadEvaluation
from t5x_like.model import parameters
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.training.model_soup import greedy_soup
from t5x_like.training.train import train
from tests.integration.test_frozen_weights import experiment, published, task, weights

__all__ = ["published", "task"]  # fixtures
_STEPS = 60


@pytest.fixture(scope="module")
def runs(tmp_path_factory, published, task) -> tuple[Path, Path, Path]:
    """A run, one with a head that says the opposite, and one with a slightly larger head."""
    home = tmp_path_factory.mktemp("soup")
    evaluation = HeadEvaluation(mixture=task.name, inputs_length=16, batch_size=16)
    options = {"total_steps": _STEPS, "trainable": None, "evaluations": (evaluation,)}
    good = home / "good"
    train(experiment(task, published, good, **options))
    opened = open_checkpoint(good)
    others = []
    for name, factor in (("opposite", -5.0), ("larger", 1.1)):
        flat = parameters.flatten(opened.params)
        scaled = {
            path: factor * leaf if path.startswith("heads/scores/") else leaf for path, leaf in flat.items()
        }
        others.append(home / name)
        with Checkpoints(others[-1]) as checkpoints:
            checkpoints.save(_STEPS, {"params": jax.tree.map(np.asarray, parameters.unflatten(scaled))})
        for file in good.iterdir():
            if file.suffix == ".json":
                shutil.copyfile(file, others[-1] / file.name)
    return good, *others


@pytest.mark.slow
def test_a_run_that_lowers_the_score_is_left_out(runs, tmp_path, capsys):
    good, opposite, larger = runs
    results = {Path(each.run).name: each for each in greedy_soup([opposite, good, larger])}
    assert list(results) == ["good", "larger", "opposite"]
    assert results["good"].score > 60
    assert results["opposite"].score == pytest.approx(100 - results["good"].score)
    assert results["opposite"].soup_score == pytest.approx(results["opposite"].score)
    assert [each.is_kept for each in results.values()] == [True, True, False]
    flags = ["--average", "1", "--greedy", "--from", *map(str, (opposite, good, larger))]
    assert main(["convert", *flags, "--to", str(tmp_path / "soup")]) == 0
    assert f"{opposite}: " in capsys.readouterr().out
    soup, parts = weights(tmp_path / "soup"), (weights(good), weights(larger))
    for path, expected in parts[0].items():
        np.testing.assert_allclose(soup[path], (expected + parts[1][path]) / 2, rtol=1e-6, err_msg=path)


@pytest.mark.slow
def test_scores_that_are_not_measured_are_refused(runs, tmp_path, capsys):
    flags = ["--from", *map(str, runs), "--to", str(tmp_path / "soup")]
    assert main(["convert", "--average", "1", "--greedy", "--metric", "letters/f1", *flags]) == 2
    assert "metric is 'letters/f1', which isn't measured; choose one of letters_on_frozen/accuracy" in (
        capsys.readouterr().err
    )
    assert main(["convert", "--average", "1", "--metric", "letters/f1", *flags]) == 2
    assert "--metric is for --greedy" in capsys.readouterr().err
    assert main(["convert", "--average", "moving", "--greedy", *flags]) == 2
    assert "--greedy chooses among several runs" in capsys.readouterr().err
