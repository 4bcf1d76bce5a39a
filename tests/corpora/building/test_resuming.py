"""Interrupted builds, and folders that are not empty."""

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.corpora.building import cleaning_stage, stage_runner
from t5x_like.corpora.building.recipe import UniqueUrls
from t5x_like.corpora.pages.page_reader import PageReaderConfig
from tests.corpora.building.tiny import (
    LINES,
    STEPS,
    MinChars,
    NoDigits,
    build,
    contents,
    page,
    rows,
    step,
    write_files,
)

PROGRAM = """
import sys
from pathlib import Path
from tests.corpora.building.tiny import STEPS, build
build(sys.argv[1], Path(sys.argv[2]), *STEPS, num_shards=3, workers=int(sys.argv[3]))
"""


# Where tests run in the background of a shell, SIGINT is ignored, and their children inherit that.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


def taking(seconds):
    """Return the environment of a build that takes ``seconds`` for each page."""
    return {**os.environ, "SECONDS_A_PAGE": str(seconds)}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    files = [
        [
            page(f"http://a.org/{n * k % 40}", f"line {'x' * (n % 7)}\nown {'z' * n}", f"{k}")
            for n in range(30)
        ]
        for k in range(1, 9)
    ]
    return write_files(tmp_path_factory.mktemp("resuming") / "in", files)


@pytest.fixture(scope="module")
def whole(inputs, tmp_path_factory):
    """Return the files of an undisturbed build."""
    output = tmp_path_factory.mktemp("whole") / "out"
    build(inputs, output, num_shards=3)
    return contents(output)


class StopError(Exception):
    pass


def stopping_after(number):
    """Runs tasks until so many are done."""
    left = number

    def run_all(function, work):
        nonlocal left
        for piece in work:
            if left == 0:
                raise StopError
            left -= 1
            function(piece)

    return run_all


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=4))
def test_a_build_stopped_anywhere_ends_with_the_same_bytes(tmp_path_factory, inputs, whole, stops):
    output = tmp_path_factory.mktemp("stopped") / "out"
    for number in stops:
        with contextlib.suppress(StopError):
            build(inputs, output, num_shards=3, run_all=stopping_after(number))
    build(inputs, output, num_shards=3)
    assert contents(output) == whole


def test_finished_tasks_are_not_repeated(tmp_path, inputs):
    seen = []

    def counting(function, work):
        for piece in work:
            seen.append((piece.stage, piece.number))
            function(piece)
            if len(seen) == 14:
                raise StopError

    with pytest.raises(StopError):
        build(inputs, tmp_path / "out", num_shards=3, run_all=counting)
    build(inputs, tmp_path / "out", num_shards=3, run_all=counting)
    assert len(seen) == len(set(seen)) == 8 + 4 + 4 + 4  # files, pages-4, match-4, shards


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_build_killed_at_any_moment_continues_to_the_same_bytes(tmp_path, inputs, whole, workers):
    output = tmp_path / "out"
    command = [sys.executable, "-c", PROGRAM, inputs, str(output), str(workers)]
    for moment in range(1, 7, workers):
        process = subprocess.Popen(command, start_new_session=True, env=taking(0.001))
        deadline = time.monotonic() + 20
        # The more is there, the later it is killed: at each attempt another part of the work.
        while process.poll() is None and time.monotonic() < deadline:
            if sum(1 for _ in output.rglob("*.json")) >= 3 * moment:
                break
            time.sleep(0.002)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True)
    assert contents(output).keys() == whole.keys()
    shards = [name for name in whole if name.endswith(".zst")]
    assert {name: contents(output)[name] for name in shards} == {name: whole[name] for name in shards}
    assert sorted(path.name for path in output.iterdir()) == sorted([*whole, "manifest.json"])


def ended(group):
    """Return True once all processes of a group have ended."""
    for _ in range(500):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_ctrl_c_leaves_no_process_and_no_half_written_file(tmp_path, inputs, whole):
    output = tmp_path / "out"
    program = f"{INTERRUPTIBLE}{PROGRAM}print('never here')"
    command = [sys.executable, "-c", program, inputs, str(output), "2"]
    process = subprocess.Popen(
        command,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=taking(0.02),  # so that it can't be over before it is interrupted
    )
    deadline = time.monotonic() + 60
    while not list(output.rglob("clean/*.json")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, err = process.communicate(timeout=60)
    assert out == ""
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert ended(process.pid)
    assert not list(output.rglob("*.partial"))
    subprocess.run([sys.executable, "-c", PROGRAM, inputs, str(output), "1"], check=True)
    shards = {name: data for name, data in whole.items() if name.endswith(".zst")}
    assert shards.items() <= contents(output).items()


def test_half_written_files_of_a_killed_build_are_removed(tmp_path, inputs, whole):
    with contextlib.suppress(StopError):
        build(inputs, tmp_path / "out", num_shards=3, run_all=stopping_after(3))
    (tmp_path / "out" / ".train-00000-of-00003.jsonl.zst.0123abcd.partial").write_text("half")
    (tmp_path / "out" / ".manifest.json.0123abcd").write_text("half")
    build(inputs, tmp_path / "out", num_shards=3)
    assert contents(tmp_path / "out") == whole


def test_a_finished_corpus_is_checked_and_left_alone(tmp_path, inputs):
    build(inputs, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    build(inputs, tmp_path / "out")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before


def test_a_damaged_shard_is_built_again(tmp_path, inputs, whole, caplog):
    build(inputs, tmp_path / "out", num_shards=3)
    shard = tmp_path / "out" / "train-00001-of-00003.jsonl.zst"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    build(inputs, tmp_path / "out", num_shards=3)
    assert "train-00001-of-00003.jsonl.zst is not as it was written; building it again" in caplog.text
    assert contents(tmp_path / "out") == whole


def test_a_damaged_shard_is_built_again_despite_files_of_a_killed_build(tmp_path, inputs, whole):
    output = tmp_path / "out"

    def keep_work(function, work):
        for piece in work:
            function(piece)
        shutil.copytree(output / ".work", tmp_path / "work", dirs_exist_ok=True)

    build(inputs, output, num_shards=3, run_all=keep_work)
    shutil.move(tmp_path / "work", output / ".work")
    shard = output / "train-00001-of-00003.jsonl.zst"
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    build(inputs, output, num_shards=3)
    assert contents(output) == whole


def test_the_rest_of_another_corpus_is_not_mixed_with_a_new_one(tmp_path, inputs):
    build(inputs, tmp_path / "out", num_shards=3)
    (tmp_path / "out" / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"holds other files \(samples.jsonl, train-00000-of-00003"):
        build(inputs, tmp_path / "out", MinChars(chars=9), num_shards=2)


def test_a_build_stopped_by_damage_continues_once_damage_may_be_skipped(tmp_path):
    texts = ["first, the longest and so cleaned first", "second", "third"]
    inputs = write_files(tmp_path / "in", [[page(f"http://a.org/{text}", text)] for text in texts])
    with (tmp_path / "in" / "001.jsonl").open("a") as file:
        file.write("no JSON\n")
    with pytest.raises(ValueError, match="line 2"):
        build(inputs, tmp_path / "out")
    finished = tmp_path / "out" / ".work" / "clean" / "000000.json"
    before = finished.stat().st_mtime_ns
    times = []

    def look(function, work):
        times.append(finished.stat().st_mtime_ns)
        for piece in work:
            function(piece)

    skip = PageReaderConfig(on_corruption="skip")
    manifest = build(inputs, tmp_path / "out", reading=skip, run_all=look)
    assert times[-1] == before
    assert manifest["made from"]["on damage"] == "skip"
    assert manifest["reading"]["damaged"] == 1
    build(inputs, tmp_path / "anew", reading=skip)
    assert contents(tmp_path / "out") == contents(tmp_path / "anew")
    with pytest.raises(ValueError, match="on damage: it has skip, you ask for fail"):
        build(inputs, tmp_path / "out")


def test_a_build_stopped_by_damage_continues_once_the_file_is_corrected(tmp_path):
    texts = ["first, the longest and so cleaned first", "second", "third"]
    inputs = write_files(tmp_path / "in", [[page(f"http://a.org/{text}", text)] for text in texts])
    first, second, _ = sorted((tmp_path / "in").iterdir())
    whole = second.read_text()
    second.write_text(whole[:-9])
    with pytest.raises(ValueError, match=r"001.jsonl, line 1: invalid JSON"):
        build(inputs, tmp_path / "out")
    second.write_text(whole)
    untouched = first.read_text()
    first.write_text(untouched + "\n")
    with pytest.raises(ValueError, match=r"000.jsonl: it was .* bytes, now it is .* bytes\nChoose another"):
        build(inputs, tmp_path / "out")
    first.write_text(untouched)
    manifest = build(inputs, tmp_path / "out")
    assert manifest["made from"]["input"] == build(inputs, tmp_path / "anew")["made from"]["input"]
    assert contents(tmp_path / "out") == contents(tmp_path / "anew")


@pytest.mark.parametrize("tasks", [1, 2, 3, 4])
def test_a_file_that_changes_after_it_was_read_is_refused(tmp_path, tasks):
    inputs = write_files(tmp_path / "in", [[page("http://a.org", "some text")]])
    with contextlib.suppress(StopError):
        build(inputs, tmp_path / "out", run_all=stopping_after(tasks))
    file = tmp_path / "in" / "000.jsonl"
    file.write_text(file.read_text() + "\n")
    with pytest.raises(ValueError, match=r"000.jsonl: it was .* bytes, now it is .* bytes"):
        build(inputs, tmp_path / "out")


def test_another_recipe_or_other_inputs_are_refused_with_the_difference(tmp_path, inputs):
    output = tmp_path / "out"
    more = write_files(tmp_path / "more", [[page("http://b.org", "other")]])
    for stop in (3, 10**6):  # unfinished, finished
        with contextlib.suppress(StopError):
            build(inputs, output, run_all=stopping_after(stop))
        with pytest.raises(ValueError, match="made from something else") as refused:
            build(inputs, output, MinChars(chars=9), *STEPS[1:], format="tfrecord")
        message = str(refused.value)
        assert "step 1: it has MinChars(chars=3), version 1, you ask for MinChars(chars=9" in message
        assert "format: it has jsonl.zst, you ask for tfrecord" in message
        assert "Choose another output, or delete that folder" in message
        with pytest.raises(
            ValueError, match=r"000\.jsonl: it was .* bytes, now it is not among them"
        ) as refused:
            build(more, output)
        assert "and 4 more input files" in str(refused.value)


def test_a_folder_with_other_files_is_refused(tmp_path, inputs):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds other files \(notes.txt\); choose another output"):
        build(inputs, tmp_path)


def test_two_writers_at_once_are_refused(tmp_path, inputs):
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(ValueError, match="another process is writing the corpus"):
            build(inputs, tmp_path)
    finally:
        os.close(held)


@pytest.mark.parametrize("form", ["jsonl.zst", "tfrecord", "arrayrecord"])
def test_a_full_disk_is_reported_and_loses_nothing(tmp_path, form):
    texts = [f"{n} " + os.urandom(400).hex() for n in range(40)]
    inputs = write_files(tmp_path / "in", [[page(f"http://a.org/{n}", text)] for n, text in enumerate(texts)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, limits[1]))  # clean tasks fit, shards don't
    try:
        with pytest.raises(
            ValueError, match=r"can't be written .*make room, then start the same command again"
        ):
            build(inputs, tmp_path / "out", UniqueUrls(), format=form)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(list((tmp_path / "out").rglob(".work/clean/*.json"))) == 40
    assert not list((tmp_path / "out").rglob("*.partial"))
    assert (
        sum(
            split["pages"]
            for split in build(inputs, tmp_path / "out", UniqueUrls(), format=form)["splits"].values()
        )
        == 40
    )


def test_a_damaged_file_between_stages_is_named_with_the_remedy(tmp_path, inputs, whole):
    with pytest.raises(StopError):
        build(inputs, tmp_path / "out", num_shards=3, run_all=stopping_after(8))
    file = tmp_path / "out" / ".work" / "clean" / "000003.pages"
    good = file.read_bytes()
    file.write_bytes(bytes(byte ^ 1 for byte in good))
    with pytest.raises(ValueError, match=r"000003\.pages is damaged: .*delete that file and start the same"):
        build(inputs, tmp_path / "out", num_shards=3)
    file.unlink()
    build(inputs, tmp_path / "out", num_shards=3)
    assert contents(tmp_path / "out") == whole


def test_a_failing_rule_is_reported_with_its_name_the_page_and_the_file(tmp_path):
    inputs = write_files(
        tmp_path / "in", [[page("http://a.org/1", "fine"), page("http://a.org/2", "explode")]]
    )
    message = r"ZeroDivisionError: boom \(step no-digits, page http://a.org/2\)"
    with pytest.raises(ValueError, match=r"000\.jsonl, page 1: " + message):
        build(inputs, tmp_path / "first", NoDigits())
    with pytest.raises(ValueError, match="^" + message):
        build(inputs, tmp_path / "later", UniqueUrls(), LINES, NoDigits())


def test_damaged_records_are_counted_where_they_are_skipped(tmp_path):
    inputs = write_files(tmp_path / "in", [[page("http://a.org/1", "fine")]])
    with (tmp_path / "in" / "000.jsonl").open("a") as file:
        file.write('{"url": "http://a.org/2", "te\n')
    with pytest.raises(ValueError, match=r"000\.jsonl, line 2"):
        build(inputs, tmp_path / "out")
    manifest = build(inputs, tmp_path / "skipped", reading=PageReaderConfig(on_corruption="skip"))
    assert manifest["reading"]["damaged"] == 1
    assert "000.jsonl, line 2" in str(manifest["reading"]["examples"])


def test_inputs_without_pages_are_warned_of(tmp_path, caplog):
    inputs = write_files(tmp_path / "in", [[]])
    build(inputs, tmp_path / "out")
    assert "no page was found in" in caplog.text


def test_a_corpus_without_pages_is_valid_and_warned_of(tmp_path, caplog):
    inputs = write_files(tmp_path / "in", [[page("http://a.org/1", "7"), page("http://a.org/2", "8")]])
    manifest = build(inputs, tmp_path / "out", NoDigits())
    assert "no page is left of 2" in caplog.text
    assert step(manifest, "no-digits")["dropped"] == {"filtered:digits": 2}
    assert rows(tmp_path / "out") == []
    assert [shard["pages"] for shard in manifest["shards"]] == [0, 0]


def test_progress_shows_how_far_a_single_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(cleaning_stage, "_REPORT_SECONDS", 0.0)
    pages = [page(f"http://a.org/{index}", "x" * 50_000) for index in range(40)]
    inputs = write_files(tmp_path / "in", [pages])
    amounts: list[int] = []
    monkeypatch.setattr(stage_runner.Progress, "reach", lambda _, done: amounts.append(done))
    build(inputs, tmp_path / "out")
    (size,) = (path.stat().st_size for path in (tmp_path / "in").iterdir())
    assert amounts == sorted(amounts)
    assert len({amount for amount in amounts if amount < size / 2}) >= 4
    assert amounts[-1] == pytest.approx(size, abs=1)
