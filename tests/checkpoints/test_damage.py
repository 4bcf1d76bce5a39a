"""What can go wrong on disk, and that a run never resumes from it unnoticed."""

import json
import re
import shutil
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.checkpoints.checkpoints import Checkpoints, restore_step
from t5x_like.checkpoints.manifest import problem_in
from t5x_like.io.files import as_path

LIKE = {"params": {"weights": jax.ShapeDtypeStruct((64, 64), jnp.float32)}}


def _state(step):
    return {"params": {"weights": jnp.full((64, 64), step, jnp.float32)}}


@pytest.fixture(scope="module")
def two_steps(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    with Checkpoints(directory) as checkpoints:
        checkpoints.save(1, _state(1), config_text="written down")
        checkpoints.save(2, _state(2), config_text="written down")
    return directory


@pytest.fixture
def run(two_steps, tmp_path):
    return shutil.copytree(two_steps, tmp_path / "run")


def _restored(run):
    with Checkpoints(run) as checkpoints:
        restored = checkpoints.restore(LIKE)
    np.testing.assert_array_equal(restored.state["params"]["weights"], np.full((64, 64), restored.step))
    return restored


def _files(run):
    return sorted(str(path.relative_to(run / "2")) for path in (run / "2").rglob("*") if path.is_file())


def test_one_flipped_bit_anywhere_falls_back_to_the_step_before(run):
    for name in _files(run):
        path = run / "2" / name
        whole = path.read_bytes()
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 16]) + whole[middle + 1 :])
        restored = _restored(run)
        assert restored.step == 1, name
        assert re.match(
            r"step 2 can't be used: its (file \S+|manifest.json) is (damaged|missing)", restored.skipped[0]
        )
        path.write_bytes(whole)
    assert _restored(run).step == 2


def test_a_truncated_file_is_named_with_its_size(run):
    name = next(name for name in _files(run) if name.startswith("state/ocdbt.process_0/d/"))
    size = (run / "2" / name).stat().st_size
    with (run / "2" / name).open("r+b") as file:
        file.truncate(size // 2)
    assert _restored(run).skipped == (
        f"step 2 can't be used: its file {name} has {size // 2} bytes instead of {size}",
    )


def test_a_missing_file_is_named(run):
    (run / "2" / "state" / "_METADATA").unlink()
    assert _restored(run).skipped == ("step 2 can't be used: its file state/_METADATA is missing",)


def test_a_file_of_another_step_is_noticed(run):
    shutil.copy(run / "1" / "state" / "manifest.ocdbt", run / "2" / "state" / "manifest.ocdbt")
    assert "manifest.ocdbt is damaged" in _restored(run).skipped[0]


def test_an_empty_folder_is_no_checkpoint(run):
    (run / "5").mkdir()
    with Checkpoints(run) as checkpoints:
        assert checkpoints.latest_step() == 2
    restored = _restored(run)
    assert restored.step == 2
    assert restored.skipped == ("step 5 can't be used: it is unfinished (the run was stopped while saving)",)


def test_any_flipped_bit_of_the_manifest_is_damage(run):
    path = run / "2" / "manifest.json"
    whole = path.read_bytes()
    for position in range(0, len(whole) * 8, 37):
        changed = bytearray(whole)
        changed[position // 8] ^= 1 << position % 8
        path.write_bytes(changed)
        problem = problem_in(as_path(run / "2"))
        same = json.loads(whole) == _json_or_none(bytes(changed))  # a bit of the space between two values
        assert same or (problem or "").startswith("its manifest.json is damaged"), changed
    path.write_text('{"files": {}}')
    assert "is damaged" in (problem_in(as_path(run / "2")) or "")
    path.write_text("[" * 100_000)
    assert "is damaged" in (problem_in(as_path(run / "2")) or "")


def _json_or_none(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def test_a_step_under_another_number_is_not_used(run):
    shutil.copytree(run / "2", run / "9999")
    restored = _restored(run)
    assert restored.step == 2
    assert restored.skipped == ("step 9999 can't be used: it is step 2 under another name",)


def test_a_link_to_a_step_is_pruned_without_what_it_leads_to(run, tmp_path):
    elsewhere = shutil.move(run / "1", tmp_path / "1")
    (run / "1").symlink_to(elsewhere)
    with Checkpoints(run, keep=1) as checkpoints:
        checkpoints.restore(LIKE)
        checkpoints.save(3, _state(3))
    assert sorted(path.name for path in run.iterdir()) == ["3", "newest_step.json"]
    assert (tmp_path / "1" / "manifest.json").exists()


def test_a_run_that_has_lost_its_steps_does_not_begin_anew(run, tmp_path):
    with Checkpoints(tmp_path / "new") as checkpoints:
        checkpoints.refuse_lost_steps()
        (tmp_path / "new" / "5").mkdir(parents=True)
        checkpoints.refuse_lost_steps()  # its first save was interrupted
    for step in ("1", "2"):
        (run / step / "manifest.json").unlink()
    with Checkpoints(run) as checkpoints:
        with pytest.raises(
            ValueError, match=r"a step was saved; directories of steps without manifest\.json: 1, 2"
        ):
            checkpoints.refuse_lost_steps()
        (run / "newest_step.json").unlink()
        with pytest.raises(ValueError, match=r"without manifest\.json: 1, 2"):
            checkpoints.refuse_lost_steps()
        shutil.rmtree(run / "1")
        (run / "2").rename(run / "2.set-aside")
        with pytest.raises(ValueError, match=r"steps set aside: 2\.set-aside"):
            checkpoints.refuse_lost_steps()


def test_without_a_manifest_a_step_does_not_count(run):
    (run / "2" / "manifest.json").unlink()
    with Checkpoints(run) as checkpoints:
        assert checkpoints.all_steps() == [1]
    assert _restored(run).step == 1


def test_when_nothing_is_whole_every_reason_is_given(run):
    (run / "1" / "state" / "_METADATA").unlink()
    (run / "2" / "config.txt").write_text("other")
    with pytest.raises(
        ValueError, match=r"(?s)can be used:\n  step 2 .*config.txt.*\n  step 1 .*_METADATA is missing"
    ):
        _restored(run)
    with pytest.raises(ValueError, match=r"step 1 .*_METADATA is missing"):
        restore_step(run, LIKE["params"], step=1)


def test_a_folder_without_steps_says_so(tmp_path):
    with Checkpoints(tmp_path / "new") as checkpoints:
        assert checkpoints.latest_step() is None
        with pytest.raises(FileNotFoundError, match="new has no usable checkpoint"):
            checkpoints.restore(LIKE)
        with pytest.raises(FileNotFoundError, match="no usable checkpoint of step 7"):
            checkpoints.restore(LIKE, step=7)


def test_a_run_continues_past_a_damaged_step_and_keeps_only_good_ones(run):
    (run / "2" / "config.txt").write_text("other")
    with Checkpoints(run, keep=1) as checkpoints:
        assert checkpoints.restore(LIKE).step == 1
        checkpoints.save(2, _state(2))
    restored = _restored(run)
    assert (restored.step, restored.skipped) == (2, ())


_FULL_DISK = textwrap.dedent("""
    import resource, signal, sys

    import jax
    import jax.numpy as jnp

    from t5x_like.checkpoints.checkpoints import Checkpoints

    with Checkpoints(sys.argv[1]) as checkpoints:
        checkpoints.save(1, {"params": {"weights": jnp.ones((64, 64))}})
        checkpoints.wait()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        checkpoints.save(2, {"params": {"weights": jax.random.normal(jax.random.key(0), (64, 64, 8))}})
        try:
            checkpoints.wait()
        except OSError as error:
            sys.exit(str(error))
""")


def test_a_full_disk_is_reported_and_the_step_before_survives(tmp_path):
    run = subprocess.run([sys.executable, "-c", _FULL_DISK, tmp_path], capture_output=True, text=True)
    message = run.stderr[run.stderr.index("step 2 could not be saved") :]
    assert message.startswith(f"step 2 could not be saved in {tmp_path}: ")
    assert "File too large" in message
    assert message.endswith("; steps saved before it: [1]\n")
    assert _restored(tmp_path).step == 1
