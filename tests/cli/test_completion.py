"""The printed script completes verbs, flags and choices in a real shell."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
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
    assert completed(script, "checkpoint", "ver") == ["verify"]
    assert completed(script, "checkpoint", "prune", "--k") == ["--keep"]
    assert {"list", "show", "compare"} <= set(completed(script, "runs", ""))
    assert {"--model_dir", "--set", "--gin_file"} <= set(completed(script, "train", "--"))
    assert {"text", "classify", "pretrain"} <= set(completed(script, "new", "mine", "--task", ""))
    assert completed(script, "evaluate", "--method", "r") == ["rank"]
    assert completed(script, "tarin", "--") == []


def test_the_script_is_clean(script: Path) -> None:
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert shellcheck, "it comes with the extra dev"
    result = subprocess.run([shellcheck, "-s", "bash", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_zsh_completes_in_a_plain_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("zsh isn't installed")
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "complete.zsh").write_text(capsys.readouterr().out)
    terminal, side = pty.openpty()
    settings = os.environ | {"TERM": "dumb", "ZDOTDIR": str(tmp_path)}
    shell = subprocess.Popen([zsh, "-f", "-i"], stdin=side, stdout=side, stderr=side, env=settings)
    typed = f"source {tmp_path}/complete.zsh; echo re''ady\n"
    os.write(terminal, typed.encode())
    read_until(terminal, "ready")
    for line, expected in {"t5x-like tra\t": "train ", "t5x-like evaluate --method ra\t": "rank "}.items():
        os.write(terminal, b"\x15" + line.encode())  # control-U empties the line before
        read_until(terminal, expected)
    os.write(terminal, b"\x15exit\n")
    assert shell.wait(timeout=60) == 0
    os.close(terminal)
    os.close(side)


def read_until(terminal: int, expected: str) -> None:
    """Read what a terminal shows until it contains a text."""
    shown, end = "", time.monotonic() + 60
    while expected not in shown:
        assert time.monotonic() < end, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 2
    assert "choose from" in capsys.readouterr().err
