"""The verbs one after another on a tiny run, as a user would type them."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from t5x_like import configuration_names
from t5x_like.cli.main import main
from t5x_like.text import registry

RECIPE = """
from __gin__ import dynamic_registration
from t5x_like.text.tasks import text_task
include 'gin/models/t5_1_1/tiny.gin'
include 'gin/hardware/cpu.gin'
include 'gin/runs/pretrain.gin'
MIXTURE = 'spelling'
VOCAB_SIZE = 384
TASKS = (@text_task.TextTask(),)
text_task.TextTask:
    name = 'spelling'
    vocabulary = 'bytes'
    files = {'train': 'words.tsv', 'validation': 'words.tsv', 'test': 'words.tsv'}
    input_template = 'spell: {word}'
    target_template = '{letters}'
"""
SIZES = """
t5.T5Config.num_encoder_layers = 1
t5.T5Config.num_decoder_layers = 1
BATCH_SIZE = 8
INPUTS_LENGTH = 16
TARGETS_LENGTH = 16
TRAIN_STEPS = 2
LOG_EVERY_STEPS = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with a recipe, eight rows of data, and the run that was trained on them."""
    folder = tmp_path_factory.mktemp("spelling")
    words = ["cat", "dog", "bird", "fish", "cow", "hen", "ox", "bee"]
    (folder / "words.tsv").write_text(
        "word\tletters\n" + "".join(f"{word}\t{' '.join(word)}\n" for word in words)
    )
    (folder / "recipe.gin").write_text(RECIPE + SIZES)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", "--gin_file=recipe.gin", "--model_dir", "run"]) == 0
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_a_finished_run_ends_at_once_when_started_again_from_the_config_it_kept(folder: Path) -> None:
    before = (folder / "run" / "metrics.jsonl").read_text()
    assert main(["train", "--gin_file=run/config.gin"]) == 0
    assert main(["train", "--model_dir", "run"]) == 0
    assert (folder / "run" / "metrics.jsonl").read_text() == before


def test_a_saved_run_is_used_by_its_record_and_its_gin_text_is_never_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = folder / "copied"
    shutil.copytree(folder / "run", copied)
    trap = "import os\nfrom t5x_like.io import files\nX = @files.write_text()\nthis is no gin at all ("
    (copied / "config.gin").write_text(trap)
    assert main(["predict", "--checkpoint=copied", "--task=spelling", "--input=cat"]) == 0
    assert main(["evaluate", "--checkpoint=copied", "--split=validation"]) == 0
    report = ["--run=copied", "--evaluation=copied/evaluation", "--output=copied.html"]
    assert main(["report", *report]) == 0
    assert main(["convert", "--from=copied", "--to=export", "--export=hf"]) == 0
    assert main(["train", "--model_dir=copied"]) == 0
    capsys.readouterr()
    changed = ["train", "--model_dir=copied", "--set", "RunConfig.total_steps=3"]
    assert main([*changed, "--dry_run"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["total_steps"] == 3
    assert main(changed) == 0
    assert "copied: resumed at step 2, 3 steps in all" in capsys.readouterr().err
    assert (copied / "config.gin").read_text() == trap


def test_the_macros_of_a_saved_run_are_those_of_its_gin_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--model_dir=run", "--set", "TRAIN_STEPS=3"]) == 2
    said = capsys.readouterr().err
    assert "the record of run has no 'TRAIN_STEPS'" in said
    assert "--gin_file=run/config.gin" in said


def test_another_configuration_is_refused_with_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--gin_file=recipe.gin", "--gin.MODEL_DIR='run'", "--gin.WARMUP_STEPS=5"]) == 2
    assert "optimizer.learning_rate.warmup_steps: the run has 10000, you ask for 5" in capsys.readouterr().err


def test_a_dry_run_prints_the_configuration_and_makes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--gin_file=recipe.gin", "--gin.MODEL_DIR='other'", "--dry_run"]) == 0
    assert "MODEL_DIR = 'other'" in capsys.readouterr().out
    assert not (folder / "other").exists()


def test_a_valid_configuration_is_reported_with_the_size_of_its_model(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["config", "validate", "--gin_file=run/config.gin"]) == 0
    assert "run/config.gin: valid" in capsys.readouterr().out


def test_a_run_is_evaluated_by_its_own_configuration_and_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "--checkpoint=run", "--gin.EVALUATION_BATCH_SIZE=8"]) == 0
    assert "sequence_accuracy" in capsys.readouterr().out
    scores = json.loads((folder / "run" / "evaluation" / "scores.json").read_text())
    assert scores["tasks"]["spelling"]["examples"] == 8
    assert main(["report", "--run", "Spelling=run", "--evaluation=run/evaluation", "--output=page.html"]) == 0
    assert "Spelling" in (folder / "page.html").read_text()


def test_predictions_come_one_a_line_in_order(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--checkpoint=run", "--task=spelling", "--gin.PREDICTION_BATCH_SIZE=8"]
    assert main(["predict", *flags, "--input", "cat", "--input", "dog"]) == 0
    assert capsys.readouterr().out.count("\n") == 2
    (folder / "words.txt").write_text("ant\n\nfly\n")
    assert main(["predict", *flags, "--input_file=words.txt", "--output=answers.jsonl"]) == 0
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert [answer["input"] for answer in answers] == ["spell: ant", "spell: ", "spell: fly"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "--checkpoint=nowhere"], "there is no nowhere/experiment.json"),
        (["evaluate"], "say which weights: --checkpoint RUN_DIR"),
        (["evaluate", "--checkpoint=run", "--split=tests"], "has no split 'tests'; there are train"),
        (["predict", "--checkpoint=run", "--task=spellinx", "--input=x"], "did you mean 'spelling'?"),
        (["predict", "--checkpoint=run", "--task=spelling", "--input=x", "--input_file=y"], "not both"),
        (
            ["predict", "--checkpoint=run", "--task=spelling", "--input_file=none.txt"],
            "none.txt: no such file",
        ),
        (["report", "--run=run", "--evaluation=nowhere", "--output=x.html"], "nowhere has no scores.json"),
        (["tasks", "show", "spellinx", "--gin_file=run/config.gin"], "did you mean 'spelling'?"),
        (["train", "--gin_file=gin/recipes/quickstart/predict.gin"], "t5x-like predict is for these files"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_with_a_run_end_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


MODULE = """
from t5x_like.text import registry
from t5x_like.text.tasks.text_task import TextTask

files = {split: "words.tsv" for split in ("train", "validation", "test")}
registry.register([
    TextTask(name="loud", vocabulary="bytes", files=files, input_template="{word}!", target_template="{letters}")
])
"""


@pytest.mark.slow
def test_a_run_whose_tasks_a_module_registers_needs_that_module_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def forget() -> None:
        """As in a new process."""
        sys.modules.pop("my_loud_tasks", None)
        configuration_names._trusted_packages.discard("my_loud_tasks")
        registry._tasks.pop("loud", None)
        if "seqio" in sys.modules:  # another test needed it
            sys.modules["seqio"].TaskRegistry.remove("loud")

    monkeypatch.setattr(sys, "path", list(sys.path))
    (folder / "my_loud_tasks.py").write_text(MODULE)
    (folder / "loud.gin").write_text(RECIPE.partition("TASKS = ")[0].replace("'spelling'", "'loud'") + SIZES)
    command = ["train", "--gin_file=loud.gin", "--model_dir=loud", "--module=my_loud_tasks"]
    assert main(command) == 0
    assert "import my_loud_tasks\n" in (folder / "loud" / "config.gin").read_text()
    forget()
    again = ["train", "--gin_file=loud/config.gin", "--set", "TRAIN_STEPS=3"]
    assert main(again) == 2
    assert "add --module my_loud_tasks if you trust it" in capsys.readouterr().err
    assert "my_loud_tasks" not in sys.modules
    assert main([*again, "--module=my_loud_tasks"]) == 0
    assert "import my_loud_tasks\n" in (folder / "loud" / "config.gin").read_text()
    forget()
    capsys.readouterr()
    flags = ["--checkpoint=loud", "--module=my_loud_tasks"]
    assert main(["predict", *flags, "--task=loud", "--input=cat"]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    forget()
    assert main(["evaluate", *flags]) == 0
    assert "loud" in capsys.readouterr().out


def test_a_task_is_shown_raw_worded_and_tokenised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "show", "spelling", "--gin_file=run/config.gin", "--num_examples=1"]) == 0
    shown = capsys.readouterr().out
    assert "'word': 'cat'" in shown
    assert "spell: cat" in shown
    assert "c a t" in shown
