"""Files of every release of this major version are read, with the results of that release."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from t5x_like.cli.main import main
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.version import __version__
from tests.fixtures.make_release import RELEASES, RUN, losses_of_further_steps, predictions

VERSIONS = sorted(folder.name for folder in RELEASES.glob(f"{__version__.partition('.')[0]}.*"))


@pytest.fixture(scope="module", params=VERSIONS)
def release(request, tmp_path_factory) -> Path:
    """A copy of a release's folder; tests write there, too."""
    return shutil.copytree(RELEASES / request.param, tmp_path_factory.mktemp("release") / "letters")


@pytest.fixture(autouse=True)
def _work_there(release, monkeypatch):
    monkeypatch.chdir(release)


@pytest.fixture
def expected() -> dict:
    return json.loads(Path("expected.json").read_text(encoding="utf-8"))


def test_this_version_has_its_files():
    assert __version__ in VERSIONS


@pytest.mark.parametrize("folder", [RUN, "export"])
def test_models_predict_the_same(folder, expected):
    actual = predictions(folder)
    assert actual["texts"] == expected["models"][folder]["texts"]
    np.testing.assert_allclose(actual["logits"], expected["models"][folder]["logits"], rtol=1e-3, atol=1e-4)


def test_a_run_continues_from_its_cache_with_the_same_losses(expected):
    shutil.copytree(RUN, "continued")
    np.testing.assert_allclose(losses_of_further_steps("continued"), expected["losses"], rtol=1e-3)


def test_a_cache_is_complete(capsys):
    before = {path: path.stat().st_mtime_ns for path in Path("caches").rglob("*.array_record")}
    assert main(["cache", "letters", "--gin_file=recipe.gin", "--output=caches"]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert "32 examples" in capsys.readouterr().out


def test_scores_are_equal_and_averaged_with_new_ones(capsys):
    earlier, new = f"{RUN}/evaluation", "evaluated_again"
    assert main(["evaluate", f"--checkpoint={RUN}", "--split=validation", f"--output_dir={new}"]) == 0
    scores = [json.loads(Path(folder, "scores.json").read_text()) for folder in (earlier, new)]
    assert scores[0]["tasks"]["letters"]["scores"] == scores[1]["tasks"]["letters"]["scores"]
    capsys.readouterr()
    assert main(["scores", "average", earlier, new]) == 0
    assert "sequence_accuracy" in capsys.readouterr().out


def test_a_corpus_is_a_task_and_has_a_report():
    task = PretrainingTask(name="pages", vocabulary="bytes", corpus="corpus")
    assert task.splits == ("train",)
    assert main(["corpus", "report", "corpus"]) == 0
