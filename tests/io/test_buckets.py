"""Files, checkpoints, caches, corpora and models in a bucket, spoken to over a wire, also one that fails."""

import time
from datetime import datetime

import jax.numpy as jnp
import numpy as np
import pytest
import s3fs

import t5x_like
from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.checkpoints.local_steps import refuse_several_writers
from t5x_like.checkpoints.saved_steps import saved_steps
from t5x_like.checkpoints.steps import absolute
from t5x_like.cli.main import main
from t5x_like.io.files import as_path, changed_seconds, read_json, write_json
from t5x_like.io.paths import find_files, names_in
from t5x_like.io.writer_lock import current_writer, exclusive_writer
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.tasks.pretraining import PretrainingTask
from tests.bucket_server import SECRET, bucket_server
from tests.references import FIXTURES, ROOT

STATE = {"params": {"a": jnp.arange(12.0).reshape(3, 4), "b": jnp.ones(2)}}


@pytest.fixture(scope="module")
def server():
    with bucket_server() as server:
        yield server


@pytest.fixture
def folder(server, request):
    yield f"s3://tests/{request.node.name}"
    server.recover()


def stored(folder):
    return sorted(name.removeprefix("tests/") for name in s3fs.S3FileSystem().find(folder))


def save(folder, step, state=STATE):
    with Checkpoints(folder) as checkpoints:
        checkpoints.save(step, state, loader_state={"position": step}, config_text="a = 1")
        checkpoints.wait()


def test_json_is_replaced(folder):
    for value in (1, 2):
        write_json(f"{folder}/a/file.json", {"value": value})
    assert read_json(f"{folder}/a/file.json") == {"value": 2}
    assert len(stored(folder)) == 1


def test_files_are_matched_and_sorted(folder):
    for name in ("b", "a", "other"):
        write_json(f"{folder}/{name}.json", name)
    assert [file.rpartition("/")[2] for file in find_files(f"{folder}/[ab].json")] == ["a.json", "b.json"]


def test_a_folder_without_files_is_empty(folder):
    as_path(folder).mkdir(parents=True, exist_ok=True)
    assert names_in(folder) == []


def test_listings_show_what_another_program_wrote(folder):
    write_json(f"{folder}/first.json", 1)
    assert names_in(folder) == ["first.json"]
    s3fs.S3FileSystem(skip_instance_cache=True).pipe(f"{folder}/second.json", b"2")
    assert names_in(folder) == ["first.json", "second.json"]
    assert as_path(f"{folder}/second.json").exists()


def test_a_file_has_the_time_of_its_last_change(folder):
    write_json(f"{folder}/file.json", 1)
    assert abs(changed_seconds(f"{folder}/file.json") - time.time()) < 60


def test_a_checkpoint_is_restored_bit_by_bit(folder):
    save(folder, 3)
    with Checkpoints(folder) as checkpoints:
        restored = checkpoints.restore(like=STATE)
    assert (restored.step, restored.loader_state, restored.config_text) == (3, {"position": 3}, "a = 1")
    for name, array in STATE["params"].items():
        assert np.array_equal(restored.state["params"][name], array)


def test_old_steps_are_deleted_and_sizes_are_known(folder):
    with Checkpoints(folder, keep=1) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, STATE)
        checkpoints.wait()
    (step,) = saved_steps(absolute(folder))
    assert (step.name, step.state) == ("2", "finished")
    assert step.num_bytes > 100
    assert abs(step.saved - time.time()) < 60


def test_a_busy_store_delays_a_save(folder, server):
    server.fail("PUT", "state", times=3)
    save(folder, 1)
    with Checkpoints(folder) as checkpoints:
        assert checkpoints.restore(like=STATE).step == 1


def test_a_lost_credential_loses_no_earlier_step(folder, server):
    save(folder, 1)
    server.fail("PUT", "/2/", times=1000, status=403, code="AccessDenied")
    with pytest.raises(OSError, match=r"step 2 could not be saved .*: \[1\]") as caught:
        save(folder, 2)
    assert SECRET not in str(caught.value)
    server.recover()
    with Checkpoints(folder) as checkpoints:
        assert checkpoints.restore(like=STATE).step == 1


def test_an_upload_that_is_cut_is_no_step(folder, server):
    save(folder, 1)
    server.fail("PUT", "/2/manifest.json", times=1000, status=403, code="AccessDenied")
    server.fail("DELETE", "", times=1000, status=403, code="AccessDenied")
    server.fail("POST", "", times=1000, status=403, code="AccessDenied")  # deletes many files
    with pytest.raises(OSError, match="could not be saved"):
        save(folder, 2)
    server.recover()
    assert any("/2/state/" in name for name in stored(folder))
    with Checkpoints(folder) as checkpoints:
        assert checkpoints.all_steps() == [1]
        assert checkpoints.restore(like=STATE).step == 1


def test_several_processes_are_refused_at_once(monkeypatch):
    monkeypatch.setattr("jax.process_count", lambda: 2)
    with pytest.raises(ValueError, match=r"2 processes can't save in s3:// together.*mountpoint-s3"):
        refuse_several_writers(absolute("s3://tests/run"))
    refuse_several_writers(absolute("run"))


def test_a_second_writer_is_refused(folder, monkeypatch):
    with exclusive_writer(folder, "run", signed=True):
        monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
        with (
            pytest.raises(ValueError, match=r"another process .* is writing the run"),
            exclusive_writer(folder, "run", signed=True),
        ):
            pass
    assert current_writer(folder) is None


def test_a_model_is_exported_and_opened(folder):
    source = t5x_like.from_pretrained(FIXTURES / "models/bert_mlm")
    checkpoint = source.checkpoint
    write_hugging_face(checkpoint.config, checkpoint.params, folder, fields=checkpoint.fields)
    opened = t5x_like.from_pretrained(folder)
    ids = np.array([[5, 6, 7]])
    assert np.array_equal(opened(input_ids=ids).logits, source(input_ids=ids).logits)
    with pytest.raises(ValueError, match="is not empty; nothing was written"):
        write_hugging_face(checkpoint.config, checkpoint.params, folder)


def test_an_export_that_fails_is_no_model(folder, server):
    checkpoint = t5x_like.from_pretrained(FIXTURES / "models/bert_mlm").checkpoint
    server.fail("PUT", "model.safetensors", times=1000, status=403, code="AccessDenied")
    with pytest.raises(OSError, match=r"AccessDenied|denied|Forbidden"):
        write_hugging_face(checkpoint.config, checkpoint.params, folder)
    server.recover()
    with pytest.raises(ValueError, match=r"safetensors|no model"):
        t5x_like.from_pretrained(folder)


def run(*words):
    assert main([str(word) for word in words]) == 0


def test_a_corpus_is_built_and_cached_in_a_bucket(folder):
    pages = "".join(f'{{"url": "https://a.org/{index}", "text": "Page {index}."}}\n' for index in range(40))
    as_path(f"{folder}/pages.jsonl").write_text(pages)
    recipe = ROOT / "gin/corpora/wikipedia.gin"
    output = f"--output={folder}/corpus"
    run("corpus", "build", f"--recipe={recipe}", f"--input={folder}/pages*.jsonl", output, "--workers=1")
    files = find_files(f"{folder}/corpus/train*")
    task = PretrainingTask(name="in_a_bucket", vocabulary="bytes", files={"train": files})
    assert cache_split(task, "train", f"{folder}/caches", num_processes=1).num_examples == 40


@pytest.mark.slow
def test_commands_follow_a_run_in_a_bucket(folder, capsys):
    quickstart, home = ROOT / "gin/recipes/quickstart", f"{folder}/run"
    for steps in (2, 4):
        macros = (f"--set=TRAIN_STEPS={steps}", "--set=SAVE_EVERY_STEPS=2")
        run("train", f"--gin_file={quickstart}/pretrain.gin", f"--model_dir={home}", *macros)
    assert "resumed at step 2" in capsys.readouterr().err
    run("runs", "list", folder)
    assert f"{datetime.now():%Y-%m-%d}" in capsys.readouterr().out
    evaluation = f"--set=OUTPUT_DIR={folder}/evaluation"
    run(
        "evaluate",
        f"--gin_file={quickstart}/evaluate.gin",
        f"--set=CHECKPOINT={home}",
        evaluation,
        "--set=LIMIT=4",
    )
    run("convert", "--from", home, "--to", f"{folder}/exported", "--export", "hf")
    assert t5x_like.from_pretrained(f"{folder}/exported").generate("In the beginning", max_new_tokens=2)
    runs = (f"--set={name}={home}" for name in ("PRETRAIN_DIR", "FINETUNE_DIR"))
    page = f"--set=OUTPUT={folder}/report.html"
    evaluated = f"--set=EVALUATION_DIR={folder}/evaluation"
    run("report", f"--gin_file={quickstart}/report.gin", *runs, evaluated, page)
    assert SECRET not in as_path(f"{folder}/report.html").read_text()
