"""The printed script completes verbs, flags and choices in a real shell."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from t5x_like.cli.main import VERBS, main


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that also answers what would complete its arguments."""
    file = tmp_path_factory.mktemp("completion") / "complete.sh"
    with file.open("w") as opened, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", opened)
        assert main(["completion", "bash"]) == 0
    return file


def completed(script: Path, *words: str) -> list[str]:
    """The completions of the last word."""
    line = " ".join(f"'{word}'" for word in ("t5x-like", *words))
    command = (
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _t5x_like; echo ${{COMPREPLY[@]}}"
    )
    shell = shutil.which("bash")
    assert shell
    return subprocess.run([shell, "-uc", command], capture_output=True, text=True, check=True).stdout.split()


def test_verbs_inner_verbs_flags_and_choices_are_completed(script: Path) -> None:
    assert completed(script, "") == list(VERBS)
    assert completed(script, "per") == ["perplexity"]
    assert completed(script, "config", "va") == ["validate"]
    assert completed(script, "config", "validate", "--skip") == ["--skip_data"]
    assert {"--model_dir", "--set", "--gin_file"} <= set(completed(script, "train", "--"))
    assert completed(script, "new", "mine", "--task", "") == ["text", "classify", "pretrain"]
    assert completed(script, "evaluate", "--method", "r") == ["rank"]
    assert completed(script, "tarin", "--") == []


def test_the_script_is_clean(script: Path) -> None:
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert shellcheck, "it comes with the extra dev"
    found = subprocess.run([shellcheck, "-s", "bash", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def test_zsh_gets_the_same_by_its_bashcompinit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("autoload -U +X bashcompinit && bashcompinit\n")
    assert "mapfile" not in printed, "which zsh lacks"


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 2
    assert "choose from" in capsys.readouterr().err
