"""Control characters of data on a terminal, in a pipe and in a file."""

import os
import pty
import subprocess
import sys
from typing import TextIO, cast

import pytest
from tqdm import tqdm

from t5x_like.cli.main import main
from t5x_like.io.progress import Progress
from t5x_like.io.terminal import TerminalStream, colored_output, escape_on_terminals, escaped

ROWS = "text,label\r\n" + "".join(
    f"row {index} \x1b]0;title\x07 \x1b[31mred,{label}\r\n"
    for index, label in enumerate(["plain", "\x1b[31mred"] * 4)
)
RECIPE = """
from __gin__ import dynamic_registration
from t5x_like.text.tasks import text_task
TASKS = (@text_task.TextTask(),)
text_task.TextTask:
    name = 'control'
    vocabulary = 'bytes'
    files = {'train': 'control.csv'}
    input_template = '{text}'
    target_template = '{label}'
"""


@pytest.fixture
def terminal():
    """A terminal that a program writes to, and a function that returns what it got."""
    reader, writer = pty.openpty()
    stream = os.fdopen(writer, "w")

    def received() -> str:
        stream.flush()
        os.set_blocking(reader, False)
        pieces = []
        try:
            while piece := os.read(reader, 65536):
                pieces.append(piece)
        except OSError:  # nothing more is there
            pass
        return b"".join(pieces).decode().replace("\r\n", "\n")

    yield stream, received
    stream.close()
    os.close(reader)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\rb\x7f\x9b2J", "a\\rb\\x7f\\x9b2J"),
        ("user\u202egnp.exe\u2066", "user\\u202egnp.exe\\u2066"),
        (
            "a\tb\nc é 旧 \U0001f469\u200d\U0001f692 שלום\u200f",
            "a\tb\nc é 旧 \U0001f469\u200d\U0001f692 שלום\u200f",
        ),
    ],
)
def test_control_characters_and_overrides_of_direction_are_escaped_and_text_is_not(text, shown):
    assert escaped(text) == shown


def test_what_is_printed_on_a_terminal_is_escaped_but_for_colors_of_ours(terminal, monkeypatch):
    stream, received = terminal
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    escape_on_terminals()
    sys.stdout.write("\x1b[2J|")
    sys.stdout.writelines(["\rhidden|"])
    colored_output().write("\x1b[32mkept\x1b[0m|")
    sys.stderr.write("\x1b[31mred")
    assert received() == "\\x1b[2J|\\rhidden|\x1b[32mkept\x1b[0m|\\x1b[31mred"


def test_progress_bars_still_draw_over_their_line(terminal):
    stream, received = terminal
    errors = cast(TextIO, TerminalStream(stream, has_bars=True))
    with tqdm(total=2, file=errors, desc="outer") as outer, tqdm(total=2, file=errors, position=1) as inner:
        outer.update()
        inner.update()
        outer.refresh()
    drawn = received()
    assert "\router" in drawn
    assert "\x1b[A" in drawn
    assert "\\" not in drawn
    Progress("rows", 2, "rows", stream=errors).say("\x1b[31mred")
    assert "\r\\x1b[31mred\n" in received()


def test_a_pipe_gets_control_characters_unchanged(capsys):
    escape_on_terminals()
    sys.stdout.write("\x1b[31mred\n")
    assert capsys.readouterr().out == "\x1b[31mred\n"


def test_rows_that_a_command_shows_steer_no_terminal_and_reach_a_pipe_as_they_are(
    terminal, tmp_path, monkeypatch, capsys
):
    (tmp_path / "control.csv").write_bytes(ROWS.encode())
    (tmp_path / "own.gin").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)
    show = ["tasks", "show", "control", "--gin_file=own.gin"]
    assert main(show) == 0
    assert "targets  \x1b[31mred" in capsys.readouterr().out
    stream, received = terminal
    monkeypatch.setattr(sys, "stdout", stream)
    escape_on_terminals()
    assert main(show) == 0
    on_terminal = received()
    assert "targets  \\x1b[31mred" in on_terminal
    assert "\x1b" not in on_terminal
    assert "\x07" not in on_terminal


def test_the_console_script_escapes_the_messages_of_errors(terminal):
    stream, received = terminal
    program = "from t5x_like.cli.main import run_and_exit; run_and_exit()"
    command = [sys.executable, "-c", program, "\x1b[31mtrain"]
    assert subprocess.run(command, stderr=stream, check=False).returncode == 2
    assert received().startswith("t5x-like: there is no verb '\\x1b[31mtrain'")
    command[-1:] = ["scores", "\x1b[31mrun"]
    assert subprocess.run(command, stderr=stream, check=False).returncode == 2
    message = received()
    assert "\x1b" not in message
    assert "\\x1b[31mrun" in message
