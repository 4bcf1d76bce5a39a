"""The command line as a user meets it: exit codes, messages, and what it does not import."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import t5x_like
from t5x_like.cli import main as command_line
from t5x_like.cli.main import USER_ERROR, VERBS, main, split_overrides
from t5x_like.gin_config.statements import Setting
from t5x_like.io.files import write_text

HEAVY = {"jax", "flax", "tensorflow", "seqio", "gin", "orbax", "matplotlib", "apache_beam"}


@pytest.mark.parametrize("flags", [["--help"], *([verb, "--help"] for verb in VERBS)], ids=" ".join)
def test_help_imports_nothing_heavy(flags: list[str]) -> None:
    code = (
        "import sys, json; from t5x_like.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert end.code == 0, end.code\n"
        "print(json.dumps(sorted(name for name in sys.modules if '.' not in name)))"
    )
    answer = subprocess.run([sys.executable, "-c", code, *flags], capture_output=True, text=True, check=True)
    assert "usage: t5x-like" in answer.stdout
    imported = set(json.loads(answer.stdout.splitlines()[-1]))
    assert not HEAVY & imported
    assert flags != ["--help"] or "numpy" not in imported


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["traim"], ["there is no verb 'traim'", "did you mean 'train'?"]),
        (["fly"], ["there is no verb 'fly'", "choose from: new, train, evaluate"]),
        (["--verbose"], ["there is no flag '--verbose'"]),
        (["train", "--gin_fil=x"], ["has no flag '--gin_fil'", "did you mean '--gin_file'?"]),
        (["config", "show", "--modul", "x"], ["has no flag '--modul'", "did you mean '--module'?"]),
        (["config", "shw"], ["invalid choice: 'shw'", "did you mean 'show'?"]),
        (["config"], ["the following arguments are required: show|validate"]),
        (["train"], ["no gin file given"]),
        (["train", "--gin_file=nowhere.gin"], ["there is no gin file 'nowhere.gin'"]),
        (["train", "--gin_file"], ["--gin_file: expected one argument"]),
        (["vocabulary", "learn", "--input=a", "--output=b", "--size=3", "--gin.X=1"], ["reads no gin"]),
        (
            ["vocabulary", "learn", "--input=a", "--output=b", "--size=3", "--set", "X=1"],
            ["reads no gin configuration, so it can't use --set X=1"],
        ),
        (["train", "--set", "X"], ["--set X: give a name and a value", "write --set NAME=value"]),
        (["train", "--set"], ["give a name and a value"]),
        (["evaluate", "--model_dir", "x"], ["has no flag '--model_dir'"]),
        (["vocabulary", "learn", "--size=many"], ["--size: 'many' is no whole number"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_users_mistake_ends_with_2_and_one_message(
    arguments: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("t5x-like: ")
    for part in parts:
        assert part in captured.err


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"t5x-like {t5x_like.__version__}\n"


def test_no_verb_prints_the_overview_as_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: t5x-like VERB" in capsys.readouterr().err


def test_an_interrupted_command_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "_run", interrupted)
    assert main(["train"]) == 130
    assert capsys.readouterr().err == "t5x-like: interrupted\n"


def test_a_failure_of_a_library_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_line, "_run", lambda _: json.loads("{"))
    with pytest.raises(json.JSONDecodeError):
        main(["train"])


def test_a_missing_file_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "_run", lambda _: Path("/nowhere/at/all").read_text())
    assert main(["train"]) == 2
    assert capsys.readouterr().err == "t5x-like: /nowhere/at/all: no such file or directory\n"


def test_a_full_disk_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(command_line, "_run", lambda _: write_text(tmp_path / "config.json", "x" * 9999))
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        assert main(["train"]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert capsys.readouterr().err == f"t5x-like: {tmp_path}/config.json: file too large\n"
    assert list(tmp_path.iterdir()) == []


def test_overrides_are_taken_out_in_every_spelling_and_in_order() -> None:
    arguments = ["--gin.A='x=y'", "--gin_file=f", "--set", "D=x=y", "--gin.b.C", "3", "--set=E=", "--dry_run"]
    overrides, plain = split_overrides(arguments)
    assert overrides == [
        "A='x=y'",
        Setting("D", "x=y", "--set D=x=y"),
        "b.C=3",
        Setting("E", "", "--set E="),
    ]
    assert plain == ["--gin_file=f", "--dry_run"]


def test_a_users_module_is_found_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_own_tasks.py").write_text("print('registered')\n")
    (tmp_path / "empty.gin").write_text("")
    main(["config", "validate", "--gin_file=empty.gin", "--module=my_own_tasks"])
    assert "registered" in capsys.readouterr().out
    assert main(["config", "validate", "--gin_file=empty.gin", "--module=my_own_task"]) == 2
    assert "--module my_own_task: there is no such module in" in capsys.readouterr().err


def test_learning_a_vocabulary_writes_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "data/king_james/validation.txt"
    flags = ["--input", text, "--output", str(tmp_path / "out" / "spiece.model"), "--size=300"]
    assert main(["vocabulary", "learn", *flags]) == 0
    assert (tmp_path / "out" / "spiece.model").stat().st_size > 0
    assert main(["vocabulary", "learn", *flags[:-1], "--size=999999"]) == 2
    assert "999999" in capsys.readouterr().err


def test_a_command_ends_after_its_threads_and_exit_handlers_and_keeps_its_code() -> None:
    program = (
        "import atexit, sys, threading, time\n"
        "from t5x_like.cli.main import run_and_exit\n"
        "atexit.register(print, 'handler ran')\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('thread ended'))).start()\n"
        "sys.argv = ['t5x-like', 'trian']\n"
        "run_and_exit()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == USER_ERROR
    assert done.stdout.split("\n") == ["thread ended", "handler ran", ""]
    assert "there is no verb 'trian'" in done.stderr


def test_arguments_in_a_message_are_shown_as_flags_of_the_verb():
    message = "name one: vocabulary=PATH; skip_missing=True goes on; (step=3) not TextTask.limit=5, colour=red or X=1"
    assert command_line._with_flags(message, ["evaluate", "--recipe", "f"]) == (
        "name one: --vocabulary=PATH; --skip_missing goes on; (--step=3) not TextTask.limit=5, colour=red or X=1"
    )
    assert command_line._with_flags(message, ["scores", "a"]) == message
