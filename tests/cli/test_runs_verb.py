"""``t5x-like runs`` on directories as training leaves them, damaged ones included."""

import json
import os
import re
import subprocess
import sys

import pytest

from t5x_like.checkpoints.manifest import write_manifest
from t5x_like.cli.main import main
from t5x_like.io.files import as_path, write_json, write_jsonl

CONFIG = {
    "is": "Experiment",
    "total_steps": 20,
    "train.mixture": "spelling",
    "train.batch_size": 8,
    "optimizer.is": "Adafactor",
    "optimizer.learning_rate.base": 0.01,
    "seed": 0,
}


def write_run(directory, *, losses=(3.0, 2.0), accuracies=(50.0, 40.0), saved=(), **changes):
    """A run that logged at steps 10 and 20."""
    lines = []
    for step, loss, accuracy in zip((10, 20), losses, accuracies, strict=True):
        lines.append(
            {"step": step, "split": "train", "loss": loss, "accuracy": 0.25, "steps_per_second": 4.0}
        )
        lines.append({"step": step, "split": "validation/spelling", "loss": loss + 1, "target_tokens": 64.0})
        lines.append({"step": step, "split": "evaluation/spelling", "exact_match": accuracy})
    write_jsonl(directory / "metrics.jsonl", lines)
    write_json(directory / "model.json", {"model_type": "t5"})
    write_json(directory / "config.json", CONFIG | {"model_dir": str(directory)} | changes)
    for step in saved:
        write_json(directory / str(step) / "leaves.json", {"params/table": {"shape": [30, 10]}})
        write_manifest(as_path(directory / str(step)))
    return directory


@pytest.fixture
def runs(tmp_path):
    """A complete run, a stopped one at another depth, a conversion, and folders that are no runs."""
    write_run(tmp_path / "a", saved=(10, 20))
    write_run(tmp_path / "grid/b", losses=(2.5, 1.5), accuracies=(30.0, 60.0), saved=(10,), seed=1, extra="x")
    write_json(tmp_path / "converted/model.json", {"model_type": "bert"})
    write_json(tmp_path / "published/config.json", {"model_type": "bert"})
    write_json(tmp_path / "a/inside/model.json", {"model_type": "bert"})
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    return tmp_path


def listed(runs, capsys, *flags):
    assert main(["runs", "list", str(runs), "--json", *flags]) == 0
    return json.loads(capsys.readouterr().out)


def test_all_runs_below_a_directory_are_listed(runs, capsys):
    assert main(["runs", "list", str(runs)]) == 0
    rows = [re.split(r"\s{2,}", line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["run", "state", "steps", "loss", "scores", "changed"]
    assert [row[:5] for row in rows[1:]] == [
        ["a", "complete", "20 / 20", "2", "spelling/exact_match 40"],
        ["converted", "converted", "–", "–", "–"],
        ["grid/b", "stopped", "20 / 20", "1.5", "spelling/exact_match 60"],
    ]
    result = listed(runs, capsys)
    assert [each["name"] for each in result] == ["a", "converted", "grid/b"]
    assert result[0]["scores"] == {"validation/spelling/loss": 3.0, "spelling/exact_match": 40.0}
    assert (result[0]["step"], result[0]["total_steps"], result[0]["writer"]) == (20, 20, None)


def test_runs_are_sorted_by_steps_loss_date_or_score(runs, capsys):
    write_run(runs / "c", losses=(3.0, float("nan")), total_steps=40)
    os.utime(runs / "a/metrics.jsonl", (2e9, 2e9))

    def names(order):
        return [each["name"] for each in listed(runs, capsys, "--sort", order)]

    assert names("date")[0] == "a"
    assert names("loss") == ["grid/b", "a", "c", "converted"]
    assert names("spelling/exact_match") == ["grid/b", "a", "c", "converted"]
    assert names("validation/spelling/loss")[:2] == ["grid/b", "a"]
    assert names("steps")[-1] == "converted"
    assert listed(runs, capsys, "--sort", "loss")[2]["training_loss"] is None
    assert main(["runs", "list", str(runs), "--sort", "spelling/exact"]) == 2
    assert "no run has this score\n  did you mean 'spelling/exact_match'?" in capsys.readouterr().err


def test_a_run_that_is_training_names_its_process(runs, capsys):
    program = (
        "import sys\nfrom t5x_like.io.writer_lock import exclusive_writer\n"
        "with exclusive_writer(sys.argv[1], 'run', signed=True): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(runs / "a")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert listed(runs, capsys)[0]["state"] == "running"
        assert main(["runs", "show", str(runs / "a")]) == 0
        assert re.search(rf"running \(host \S+, pid {holder.pid}\)", capsys.readouterr().out)
        holder.kill()
    assert (runs / "a/writer.json").exists()  # which a killed process leaves
    assert listed(runs, capsys)[0]["state"] == "complete"


def test_one_run_is_shown_with_its_newest_and_best_scores(runs, capsys):
    assert main(["runs", "show", str(runs / "a")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{runs}/a: complete, step 20 / 20, changed ")
    for name, value in {
        "model": "t5",
        "trained on": "spelling",
        "optimizer": "Adafactor",
        "parameters": "300",
        "checkpoints": "10, 20",
    }.items():
        assert re.search(rf"^{name} +{value}$", shown, re.M)
    rows = [line.split() for line in shown.splitlines()]
    assert ["train/loss", "2", "20"] in rows
    assert ["spelling/exact_match", "40", "20", "50", "10"] in rows
    assert ["validation/spelling/loss", "3", "20", "3", "20"] in rows
    assert "target_tokens" not in shown


def test_runs_are_compared_by_settings_metrics_and_curves(runs, tmp_path, capsys):
    page = tmp_path / "compare.html"
    assert main(["runs", "compare", f"{runs}/a", f"{runs}/grid/b", "--output", str(page)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["a", "b"]
    assert ["state", "complete", "stopped"] in rows
    assert ["train/loss", "2", "1.5"] in rows
    assert ["spelling/exact_match", "40", "60"] in rows
    settings = rows[rows.index([]) + 1 : -1]
    assert settings == [
        ["2", "settings", "of", "the", "configurations", "differ", "a", "b"],
        ["seed", "0", "1"],
        ["extra", "–", "x"],
    ]
    html = page.read_text()
    assert html.count("<svg") == 2
    for heading in ("Loss: training", "Loss: validation spelling"):
        assert heading in html
    for label in ("a, training  2.00", "b, training  1.50", "b, validation  2.50"):
        assert label in html
    assert '<td>seed</td><td class="number">0</td><td class="number">1</td>' in html


def test_runs_of_one_name_are_told_apart_by_their_paths(runs, capsys):
    write_run(runs / "grid/a")
    assert main(["runs", "compare", f"{runs}/a", f"{runs}/grid/a"]) == 0
    assert capsys.readouterr().out.split()[:2] == [f"{runs}/a", f"{runs}/grid/a"]


def test_names_and_values_of_a_run_are_escaped(runs, tmp_path, capsys):
    odd = write_run(runs / "a$b$<b>", note="<script>\x1b[31m")
    page = tmp_path / "compare.html"
    assert main(["runs", "compare", f"{runs}/a", str(odd), "--output", str(page)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    html = page.read_text()
    assert "<script>" not in html
    assert "a$b$&lt;b&gt;" in html


def test_damaged_lines_are_left_out_with_a_note(runs, capsys):
    log = runs / "a/metrics.jsonl"
    lines = log.read_bytes().split(b"\n")
    odd = [b"{", b"\xff\xfe", b"[1]", b'{"step": "1", "split": "train"}', b'{"step": 1}', b"[" * 100_000]
    log.write_bytes(b"\n".join([lines[0], *odd, *lines[1:-1], b'{"step": 30, "spl']))
    (runs / "grid/b/config.json").write_text("{")
    assert main(["runs", "list", str(runs)]) == 0
    shown = capsys.readouterr().out
    assert "a: metrics.jsonl: 6 lines are damaged, and left out\n" in shown
    assert "grid/b: config.json is damaged\n" in shown
    assert listed(runs, capsys)[0]["training_loss"] == 2.0
    assert main(["runs", "show", str(runs / "a")]) == 0
    assert "6 lines are damaged" in capsys.readouterr().out
    assert main(["runs", "show", str(runs / "grid/b")]) == 0
    assert "config.json is damaged" in capsys.readouterr().out
    assert main(["runs", "compare", f"{runs}/a", f"{runs}/grid/b", "--output", str(runs / "c.html")]) == 0
    assert "6 lines are damaged" in capsys.readouterr().out
    assert "6 lines are damaged" in (runs / "c.html").read_text()


def test_numbers_that_are_none_are_no_numbers(runs, capsys):
    with (runs / "a/metrics.jsonl").open("a") as file:
        file.write(
            '{"step": 30, "split": "train", "loss": "low", "accuracy": Infinity, "x": 1' + "0" * 500 + "}\n"
        )
        file.write('{"step": 30, "split": "validation/spelling", "loss": Infinity}\n')
    assert listed(runs, capsys)[0]["training_loss"] is None
    assert main(["runs", "show", str(runs / "a")]) == 0
    page = str(runs / "compare.html")
    assert main(["runs", "compare", f"{runs}/a", f"{runs}/grid/b", "--output", page]) == 0


def test_a_run_directory_is_read_as_data(runs, capsys):
    (runs / "a/config.gin").write_text("import os\nos.system = 1\n!!!")
    write_json(runs / "a/experiment.json", {"$class": "no.such.module:Thing"})
    assert main(["runs", "show", str(runs / "a")]) == 0
    assert main(["runs", "compare", f"{runs}/a", f"{runs}/grid/b"]) == 0
    code = (
        "import sys; from t5x_like.cli.main import main; main(sys.argv[1:]);"
        "print([name for name in ('jax', 'gin', 'tensorflow') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "runs", "list", str(runs)], capture_output=True, text=True
    )
    assert done.stdout.endswith("[]\n"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "nowhere"], "there is no directory nowhere"),
        (["show", "published"], "published is no run: it has no model.json and no metrics.jsonl"),
        (["compare", "a"], "give two runs or more"),
        (["compare", "a", "./a"], "a is named more than once"),
        (["compare", "a", "published"], "published is no run"),
    ],
    ids=" ".join,
)
def test_mistakes_end_with_2(runs, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(runs)
    assert main(["runs", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_directory_without_runs_says_so(tmp_path, capsys):
    assert main(["runs", "list", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path} has no runs\n"
