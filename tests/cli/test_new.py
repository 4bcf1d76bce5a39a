"""Each kind of new project runs as its own README says."""

import re
import shlex
from pathlib import Path

import pytest

from t5x_like.cli.main import main, parser_of
from t5x_like.io.files import read_json

# Fewer and smaller steps than the recipes', which are the same otherwise.
SMALL = ["TRAIN_STEPS=3", "BATCH_SIZE=8", "LOG_EVERY_STEPS=1", "EVALUATE_EVERY_STEPS=0", "SAVE_EVERY_STEPS=0"]
FLAGS = {
    "text": ["EVALUATE_EXAMPLES=4", "WARMUP_STEPS=1"],
    "classify": ["EVALUATE_EXAMPLES=4", "WARMUP_STEPS=1"],
    "pretrain": ["WARMUP_STEPS=1"],
}


@pytest.mark.slow  # tests/cli/test_new_from_table.py trains and asks a project
@pytest.mark.parametrize("task", ["classify", "text", "pretrain"])
def test_a_new_project_runs_by_its_own_commands(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"my_{task}_project"  # a process knows one task of each name
    assert main(["new", name, "--task", task]) == 0
    printed = capsys.readouterr().out
    monkeypatch.chdir(name)
    for split in ("train", "validation"):
        _keep(next(Path("data").glob(f"{split}.*")), 20)
    readme = Path("README.md").read_text()
    commands = re.findall(r"^t5x-like (.+)$", readme, flags=re.MULTILINE)
    assert [command.split()[0] for command in commands][:3] == ["tasks", "config", "train"]
    assert all(f"  t5x-like {command}\n" in printed for command in commands)
    for command in commands:
        verb, *flags = shlex.split(command)
        parser_of(verb).parse_args(flags)

    sets = [f"--set={flag}" for flag in (*SMALL, *FLAGS[task])]
    recipe = ["--gin_file=recipe.gin", "--model_dir", "runs/first", *sets]
    assert main(["config", "validate", *recipe]) == 0
    assert "recipe.gin: valid" in capsys.readouterr().out
    assert main(["train", *recipe]) == 0
    assert read_json("runs/first/config.json")["total_steps"] == 3
    if task != "pretrain":
        capsys.readouterr()
        line = "s i n g" if task == "text" else "a small bird"
        assert main(["predict", "--checkpoint", "runs/first", "--task", name, "--input", line]) == 0
        assert capsys.readouterr().out.count("\n") == 1
        assert main(["evaluate", "--checkpoint", "runs/first", "--set", "LIMIT=4"]) == 0
        assert name in capsys.readouterr().out
        (table,) = (command for command in commands if "--output" in command)
        _keep(Path(shlex.split(table)[3]), 20)
        assert main(shlex.split(table)) == 0
        assert "\tprediction" in Path("predicted.tsv").read_text().splitlines()[0]
    assert main(shlex.split(commands[-1])) == 0
    assert Path("export/config.json").is_file()


def _keep(file: Path, number: int) -> None:
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:number]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new", "my project", "--task", "text"], "'my project' can't be the name of a task"),
        (["new", "taken", "--task", "text"], "taken exists already; nothing was written"),
        (["new", "fresh"], "give your table by --data FILE, or --task"),
        (["new", "fresh", "--task", "text", "--label", "x"], "--label is for your own table"),
        (["new", "fresh", "--task", "classifi"], "did you mean 'classify'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_end_with_2_and_write_nothing(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("kept")
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
    assert [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*")] == ["taken", "taken/mine.txt"]
