"""``t5x-like checkpoint`` on a run with two steps, whole and damaged, as a user types it."""

import json
import os
import shutil
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints, restore_step
from t5x_like.cli.main import main
from t5x_like.io.files import read_json
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.pretrained.conversion import import_checkpoint
from tests.pretrained.test_pretrained_model import write


def state(step):
    """Arrays that change with the step, one that doesn't, and one of a dtype without exact float32 values."""
    return {
        "params": {
            "kernel": jnp.full((4, 3), step, jnp.float32).at[0, 0].set(-1.5),
            "scale": jnp.ones(3, jnp.bfloat16) * step,
            "empty": jnp.zeros((0, 2)),
        },
        "key": jnp.array([7, 2**31], jnp.uint32),
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved") / "run"
    with Checkpoints(directory) as checkpoints:
        for step in (100, 200):
            checkpoints.save(step, state(step))
    return directory


@pytest.fixture
def run(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "run")


def damage(step):
    """Flips a bit in a file of arrays, and returns its name in the step."""
    path = next(path for path in sorted(step.rglob("*")) if path.parent.name == "d")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    return str(path.relative_to(step))


def steps_of(run):
    return sorted(path.name for path in run.iterdir() if path.is_dir())


def test_every_step_is_listed_with_its_state_and_size(run, capsys):
    (run / "300").mkdir()
    (run / "100").rename(run / "100.set-aside")
    assert main(["checkpoint", "list", str(run)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["step", "state", "size", "saved"]
    assert [(row[0], row[1], row[-1]) for row in rows[1:3]] == [
        ("200", "finished", "newest"),
        ("300", "unfinished", rows[2][-1]),
    ]
    assert rows[3][:3] == ["100", "set", "aside"]
    assert main(["checkpoint", "list", str(run / "200"), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["newest"] == 200
    assert [each["state"] for each in listed["steps"]] == ["finished", "unfinished", "set aside"]
    files = [path for path in (run / "200").rglob("*") if path.is_file()]
    assert listed["steps"][0]["num_bytes"] == sum(path.stat().st_size for path in files)
    assert listed["steps"][0]["saved"].endswith("Z")


def test_whole_steps_are_verified_and_an_unfinished_one_is_no_damage(run, capsys):
    (run / "300").mkdir()
    assert main(["checkpoint", "verify", str(run)]) == 0
    assert capsys.readouterr().out == (
        "100: ok\n200: ok\n300: it is unfinished (the run was stopped while saving)\n"
    )
    assert main(["checkpoint", "verify", str(run), "--step", "300"]) == 2


def test_a_damaged_step_ends_with_2_and_its_file(run, capsys):
    name = damage(run / "200")
    assert main(["checkpoint", "verify", str(run)]) == 2
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == "100: ok"
    assert f"1 of 2 steps can't be used:\n  {run}/200: its file {name} is damaged" in shown.err
    assert main(["checkpoint", "verify", str(run / "100")]) == 0
    assert main(["checkpoint", "verify", str(run), "--step", "200"]) == 2


def test_differences_are_sorted_by_size(run, capsys):
    assert main(["checkpoint", "diff", str(run / "100"), str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"A: {run}/100", f"B: {run}/200"]
    assert [line.split() for line in lines[3:]] == [
        ["params/kernel", "float32[4,", "3]", "11", "100", "0.5"],
        ["params/scale", "bfloat16[3]", "3", "100", "0.5"],
        ["2", "of", "4", "arrays", "differ"],
    ]
    assert main(["checkpoint", "diff", str(run), str(run), "--step_a", "100", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["num_equal"] == 2
    assert report["different"][0] == {
        "name": "params/kernel",
        "kind": "values",
        "a": "float32[4, 3]",
        "b": "float32[4, 3]",
        "num_different": 11,
        "largest_absolute": 100.0,
        "largest_relative": 0.5,
    }


def test_equal_steps_do_not_differ_also_where_they_are_nan(tmp_path, capsys):
    arrays = {"params": {"odd": jnp.array([jnp.nan, jnp.inf, 0.0])}}
    for name, changed in {
        "a": arrays,
        "b": arrays,
        "c": {"params": {"odd": jnp.array([jnp.nan, 1.0, 0.0])}},
    }.items():
        with Checkpoints(tmp_path / name) as checkpoints:
            checkpoints.save(1, changed)
    assert main(["checkpoint", "diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "0 of 1 array differ" in capsys.readouterr().out
    assert main(["checkpoint", "diff", str(tmp_path / "a"), str(tmp_path / "c"), "--json"]) == 0
    (odd,) = json.loads(capsys.readouterr().out)["different"]
    assert (odd["num_different"], odd["largest_absolute"]) == (1, None)


def test_arrays_of_another_name_shape_or_dtype_come_first(run, tmp_path, capsys):
    other = {"params": {"kernel": jnp.zeros((3, 4)), "scale": jnp.full(3, 200.0), "bias": jnp.zeros(2)}}
    with Checkpoints(tmp_path / "other") as checkpoints:
        checkpoints.save(1, other)
    assert main(["checkpoint", "diff", str(run), str(tmp_path / "other"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["different"]
    assert [(each["name"], each["kind"], each["num_different"]) for each in report] == [
        ("key", "only in A", 0),
        ("params/bias", "only in B", 0),
        ("params/empty", "only in A", 0),
        ("params/kernel", "shape", 0),
        ("params/scale", "values", 0),
    ]
    assert (report[-1]["a"], report[-1]["b"]) == ("bfloat16[3]", "float32[3]")


def test_a_damaged_step_is_not_compared(run, capsys):
    name = damage(run / "200")
    assert main(["checkpoint", "diff", str(run / "100"), str(run / "200")]) == 2
    assert f"its file {name} is damaged" in capsys.readouterr().err
    assert main(["checkpoint", "diff", str(run / "100"), str(run)]) == 0  # the newest undamaged one
    assert f"B: {run}/100" in capsys.readouterr().out


def test_older_steps_and_remains_are_deleted_after_a_dry_run(run, capsys):
    (run / "300").mkdir()
    assert main(["checkpoint", "prune", str(run), "--keep", "1", "--dry_run"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("would delete step 100 (finished, ")
    assert "would delete step 300 (unfinished, 0 B)\n2 steps would be deleted, " in shown
    assert steps_of(run) == ["100", "200", "300"]
    shutil.copytree(run / "100", run / "250.set-aside")
    assert main(["checkpoint", "prune", str(run), "--keep", "1"]) == 0
    assert capsys.readouterr().out.endswith("; kept: 200\n")
    assert steps_of(run) == ["200", "250.set-aside"]
    assert not (run / "writer.json").exists()


def test_the_newest_undamaged_step_is_never_deleted(run, capsys):
    damage(run / "200")
    assert main(["checkpoint", "prune", str(run), "--keep", "1"]) == 0
    assert capsys.readouterr().out == "0 steps deleted, 0 B; kept: 100, 200\n"
    damage(run / "100")
    assert main(["checkpoint", "prune", str(run), "--keep", "1"]) == 2
    assert "has no undamaged checkpoint; nothing was deleted" in capsys.readouterr().err
    assert steps_of(run) == ["100", "200"]


def test_nothing_is_deleted_while_a_run_is_writing(run, capsys):
    program = (
        "import sys\nfrom t5x_like.io.writer_lock import exclusive_writer\n"
        "with exclusive_writer(sys.argv[1], 'run', signed=True): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(run)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert main(["checkpoint", "prune", str(run), "--keep", "1"]) == 2
        assert f"pid {holder.pid}) is writing the run" in capsys.readouterr().err
        holder.kill()
    assert steps_of(run) == ["100", "200"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "nowhere"], "there is no directory nowhere"),
        (["list", "."], ". has no checkpoints"),
        (["verify", "run", "--step", "5"], "has no step 5\n  it has 100, 200"),
        (["diff", "run", "run", "--step_b", "5"], "has no undamaged step 5"),
        (
            ["prune", "run", "--keep", "0"],
            "argument --keep: 0 is too small; give a whole number of at least 1",
        ),
        (["prune", "run/100", "--keep", "1"], "run/100 is one step"),
        (["prune", "run"], "the following arguments are required: --keep"),
        (["export", "run", "--to", "out"], "run holds no model"),
    ],
    ids=" ".join,
)
def test_mistakes_end_with_2(run, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(run.parent)
    assert main(["checkpoint", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_export_is_that_of_convert(tmp_path, capsys):
    config = T5Config(
        vocab_size=8,
        model_dim=4,
        mlp_dim=4,
        num_heads=1,
        head_dim=4,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
    import_checkpoint(write(config, tmp_path / "published"), tmp_path / "run")
    assert main(["checkpoint", "export", str(tmp_path / "run"), "--to", str(tmp_path / "a")]) == 0
    flags = ["--from", str(tmp_path / "run"), "--to", str(tmp_path / "b"), "--export", "hf"]
    assert main(["convert", *flags]) == 0
    assert sorted(os.listdir(tmp_path / "a")) == sorted(os.listdir(tmp_path / "b"))
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert read_json(tmp_path / "a" / "config.json")["model_type"] == "t5"


def test_large_arrays_are_compared_piece_by_piece(tmp_path, monkeypatch, capsys):
    from t5x_like.checkpoints import step_differences

    monkeypatch.setattr(step_differences, "_PIECE", 5)
    a = np.arange(12, dtype=np.float32)
    for name, last in (("a", 11.0), ("b", 12.0)):
        with Checkpoints(tmp_path / name) as checkpoints:
            checkpoints.save(1, {"params": {"w": np.append(a[:-1], np.float32(last))}})
    assert main(["checkpoint", "diff", str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["different"]
    assert (report["num_different"], report["largest_absolute"]) == (1, 1.0)


def test_restoring_finds_the_steps_that_pruning_left(run):
    assert main(["checkpoint", "prune", str(run), "--keep", "1"]) == 0
    np.testing.assert_array_equal(
        restore_step(run, state(200)["params"])[1]["kernel"], state(200)["params"]["kernel"]
    )
