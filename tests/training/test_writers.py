"""Metrics land in one JSON line a step, once, however often the run was killed."""

import io
import resource
import time

from t5x_like.io.files import read_json, read_jsonl
from t5x_like.model.automatic_choices import Choice
from t5x_like.training.writers import JsonLinesWriter, TerminalWriter, Writers


def test_a_resumed_run_replaces_the_lines_of_steps_that_were_never_saved(tmp_path):
    path = f"{tmp_path}/metrics.jsonl"
    first = JsonLinesWriter(path, resumed_step=0)
    for step in (10, 20, 30):
        first.write({"step": step, "split": "train", "loss": 1.0})
    first.close()
    second = JsonLinesWriter(path, resumed_step=20)
    second.write({"step": 30, "split": "train", "loss": 2.0})
    second.close()
    assert [(line["step"], line["loss"]) for line in read_jsonl(path)] == [(10, 1.0), (20, 1.0), (30, 2.0)]


def test_a_line_cut_short_by_a_kill_does_not_stop_the_next_run(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 10, "split": "train", "loss": 1.0}\n{"step": 20, "spl')
    JsonLinesWriter(str(path), resumed_step=20).close()
    assert [line["step"] for line in read_jsonl(path)] == [10]


def test_elsewhere_than_on_a_terminal_every_log_is_one_plain_line():
    stream = io.StringIO()
    writer = TerminalWriter(total_steps=20, start_step=0, stream=stream)
    writer.step()
    writer.write({"step": 10, "split": "train", "loss": 2.34567, "learning_rate": 0.01})
    writer.close()
    assert stream.getvalue() == "step 10/20  train  loss 2.346  learning_rate 0.01\n"


def test_tensorboard_files_are_written(tmp_path):
    with Writers(str(tmp_path), total_steps=2, start_step=0) as writers:
        writers.write({"step": 1, "split": "train", "loss": 1.0})
    assert list((tmp_path / "tensorboard").glob("events.out.tfevents.*"))


def test_choices_of_the_program_are_shown_and_kept(tmp_path, capsys):
    choices = [
        Choice("attention_implementation", "plain", "on a CPU"),
        Choice("scan_layers", True, "on a CPU"),
    ]
    with Writers(str(tmp_path), total_steps=2, start_step=0) as writers:
        writers.compiled(4.2, choices)
    shown = "chosen: attention_implementation='plain' (on a CPU), scan_layers=True (on a CPU)"
    assert f"compiled in 4.2 s\n{shown}\n" in capsys.readouterr().err
    assert read_json(tmp_path / "choices.json")[1] == {
        "setting": "scan_layers",
        "value": True,
        "reason": "on a CPU",
    }


def test_elsewhere_than_on_a_terminal_silence_ends_after_a_while():
    stream = io.StringIO()
    writer = TerminalWriter(total_steps=20, start_step=4, stream=stream, seconds_between_lines=0.02)
    writer.doing("compiling")
    time.sleep(0.2)
    writer.step()
    writer.compiled(22.4)
    writer.doing("training")
    writer.step()
    time.sleep(0.2)
    writer.close()
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("compiling: 4 steps of 20 steps (20%), 0 s")
    assert "compiled in 22 s" in lines
    assert lines[-1].startswith("training: 6 steps of 20 steps (30%)")
    assert lines[-1].endswith("left")
    written = stream.getvalue()
    time.sleep(0.1)
    assert stream.getvalue() == written, "a closed writer is silent"


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar_with_the_time_left():
    stream = Terminal()
    writer = TerminalWriter(total_steps=20, start_step=0, stream=stream)
    writer.doing("training")
    for _ in range(5):
        time.sleep(0.3)
        writer.step()
    writer.close()
    assert "training" in stream.getvalue()
    assert "/20 [" in stream.getvalue()
    assert "steps/s" in stream.getvalue()


def test_a_disk_that_is_full_for_a_while_costs_no_line_and_no_training(tmp_path, caplog):
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    path = tmp_path / "metrics.jsonl"
    with Writers(str(tmp_path), total_steps=9, start_step=0) as writers:
        writers.write({"step": 1, "split": "train", "loss": 1.0})
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
        try:
            for step in range(2, 6):
                writers.write({"step": step, "split": "train", "loss": 1.0})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        writers.write({"step": 6, "split": "train", "loss": 1.0})
    assert [line["step"] for line in read_jsonl(path)] == [1, 2, 3, 4, 5, 6]
    said = [record.getMessage() for record in caplog.records]
    assert (
        len([line for line in said if line.startswith("JsonLinesWriter failed, and training continues")]) == 1
    )


def test_a_terminal_that_is_gone_ends_nothing(tmp_path, monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("sys.stderr", Gone())
    with Writers(str(tmp_path), total_steps=9, start_step=0) as writers:
        writers.say("step 1")
        writers.write({"step": 1, "split": "train", "loss": 1.0})
    assert len(list(read_jsonl(tmp_path / "metrics.jsonl"))) == 1


def test_damaged_lines_do_not_keep_a_run_from_continuing(tmp_path, caplog):
    path = tmp_path / "metrics.jsonl"
    lines = ['{"step": 1, "split": "train", "loss": 1.0}', '{"step": 2, \x00\x00\x00', "[]", '{"step": 3}']
    path.write_text("\n".join([*lines, '{"step": 4, "split": "train", "loss": 1.0}']) + "\n")
    JsonLinesWriter(str(path), resumed_step=9).close()
    assert [line["step"] for line in read_jsonl(path)] == [1, 4]
    said = [record.getMessage() for record in caplog.records]
    assert any(f"{path}:2 is not valid JSON" in line and "it is left out" in line for line in said)
    assert f"{path}: 2 lines without step and split are left out" in said
