import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from t5x_like.io.writer_lock import exclusive_writer
from t5x_like.text.cache.reader import CachedExamples
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.tasks.text_task import TextTask
from tests.engines import CallingEngine

SHARD_BYTES = 60_000


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.fixture(scope="module")
def expected(tmp_path_factory, corpus_task) -> dict[str, bytes]:
    """Every file of an undisturbed run of one process."""
    output = tmp_path_factory.mktemp("undisturbed")
    cache_split(corpus_task(), "train", str(output), shard_bytes=SHARD_BYTES)
    result = contents(output / "letters" / "train")
    assert sum(name.endswith(".array_record") for name in result) > 3
    return result


def test_a_cache_holds_the_tokens_of_every_document_in_order(tmp_path, corpus_task, texts, text_of):
    manifest = cache_split(corpus_task(), "train", str(tmp_path), shard_bytes=SHARD_BYTES)
    examples = CachedExamples.open(tmp_path / "letters" / "train")
    assert [text_of(examples, index) for index in range(len(examples))] == texts
    assert manifest.num_tokens == {"tokens": sum(map(len, texts))}


def test_two_processes_write_the_same_bytes_as_one(tmp_path, corpus_task, expected):
    cache_split(corpus_task(), "train", str(tmp_path), shard_bytes=SHARD_BYTES, num_processes=2)
    assert contents(tmp_path / "letters" / "train") == expected


PROGRAM = """
import sys
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.tasks.pretraining import PretrainingTask
corpus, output, processes = sys.argv[1:]
if __name__ == "__main__":
    task = PretrainingTask(name="letters", vocabulary="bytes", files={"train": corpus})
    print("started", flush=True)
    cache_split(task, "train", output, shard_bytes=%d, num_processes=int(processes))
"""


@pytest.mark.parametrize("num_processes", [1, 2])
def test_killed_repeatedly_it_writes_the_same_bytes(tmp_path, corpus, expected, num_processes):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM % SHARD_BYTES)
    folder = tmp_path / "out" / "letters" / "train"
    command = [sys.executable, str(program), str(corpus), str(tmp_path / "out"), str(num_processes)]
    for wanted in range(0, 4, 1 if num_processes == 1 else 2):  # kill when so many shards are finished
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert running.stdout is not None
        running.stdout.readline()
        while running.poll() is None and len(list(folder.glob("*.index.npz"))) < wanted:
            time.sleep(0.0005)
        running.send_signal(signal.SIGKILL)
        running.communicate()
    subprocess.run(command, check=True, capture_output=True)
    assert contents(folder) == expected


@pytest.mark.parametrize("kept", range(5))
def test_incomplete_shards_and_indices_are_written_again(tmp_path, corpus_task, expected, kept):
    folder = tmp_path / "letters" / "train"
    folder.mkdir(parents=True)
    started = json.loads(expected["manifest.json"])
    for name in ("num_examples", "num_tokens", "num_skipped", "lengths", "shards", "checksum"):
        del started[name]
    (folder / "started.json").write_text(json.dumps(started))
    for name in ["starts_word.npy", *[n for n in expected if n[:5].isdigit() and int(n[:5]) < kept]]:
        (folder / name).write_bytes(expected[name])
    half = f"{kept:05d}"
    (folder / f"{half}.array_record").write_bytes(expected[f"{half}.array_record"][:70_000])
    (folder / f"{half}.index.npz").write_bytes(expected[f"{half}.index.npz"][:99])
    (folder / f".{half}.array_record.77.partial").write_bytes(b"abc")
    cache_split(corpus_task(), "train", str(tmp_path), shard_bytes=SHARD_BYTES)
    assert contents(folder) == expected


def test_finished_shards_are_not_written_again(tmp_path, corpus_task, expected):
    cache_split(corpus_task(), "train", str(tmp_path), shard_bytes=SHARD_BYTES)
    folder = tmp_path / "letters" / "train"
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    cache_split(corpus_task(), "train", str(tmp_path), shard_bytes=SHARD_BYTES)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_finished_cache_that_was_damaged_is_repaired(tmp_path, corpus_task, expected, caplog):
    cache_split(corpus_task(), "train", str(tmp_path), shard_bytes=SHARD_BYTES)
    folder = tmp_path / "letters" / "train"
    content = bytearray(expected["00002.array_record"])
    content[5000] ^= 4
    (folder / "00002.array_record").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        cache_split(corpus_task(), "train", str(tmp_path), shard_bytes=SHARD_BYTES)
    assert "00002.array_record is not as it was written; redoing what is damaged" in caplog.text
    assert contents(folder) == expected


def test_shards_by_number_differ_by_at_most_one_example(tmp_path, corpus_task, texts, text_of):
    manifest = cache_split(corpus_task(), "train", str(tmp_path), num_shards=7)
    assert [shard.examples for shard in manifest.shards] == [42, 43, 43, 43, 43, 43, 43]
    examples = CachedExamples.open(tmp_path / "letters" / "train")
    assert [text_of(examples, number) for number in (0, 41, 42, 299)] == [texts[n] for n in (0, 41, 42, 299)]


def test_more_shards_than_examples_are_refused(tmp_path, corpus_task):
    with pytest.raises(ValueError, match="must lie between 1 and the 300 examples of task 'letters'"):
        cache_split(corpus_task(), "train", str(tmp_path), num_shards=301)


def test_another_tasks_cache_is_refused_line_by_line(tmp_path, corpus_task, corpus):
    cache_split(corpus_task(), "train", str(tmp_path))
    with pytest.raises(ValueError, match="was made from something else") as refused:
        cache_split(corpus_task(num_sentinels=5, separator="blank_line"), "train", str(tmp_path))
    message = str(refused.value)
    assert "letters/train was made from something else:\n" in message
    assert "  separator: the cache has line, you ask for blank_line\n" in message
    assert "  vocabulary: the cache has " in message
    assert "Choose another output" in message
    assert "column" not in message


def test_other_files_are_another_task(tmp_path, corpus_task):
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    task = corpus_task(files={"train": str(file)})
    cache_split(task, "train", str(tmp_path))
    file.write_text("one\ntwa\n")
    os.utime(file, (0, 0))
    with pytest.raises(ValueError, match="file 0, crc32c: the cache has"):
        cache_split(task, "train", str(tmp_path))


def test_files_that_moved_are_the_same_task(tmp_path, corpus_task, corpus):
    cache_split(corpus_task(), "train", str(tmp_path))
    moved = tmp_path / "moved.txt"
    moved.write_bytes(corpus.read_bytes())
    assert cache_split(corpus_task(files={"train": str(moved)}), "train", str(tmp_path)).num_examples == 300


def test_an_unfinished_cache_of_other_shards_is_refused(tmp_path, corpus_task):
    with pytest.raises(RuntimeError, match="pulled the plug"):
        cache_split(corpus_task(), "train", str(tmp_path), engine=CallingEngine(_pull_the_plug))
    with pytest.raises(ValueError, match="sharding: the cache has a shard for each of 1 parts") as refused:
        cache_split(corpus_task(), "train", str(tmp_path))
    assert "It is unfinished." in str(refused.value)


def _pull_the_plug(function, work):
    raise RuntimeError("pulled the plug")


def test_a_folder_with_other_files_is_left_alone(tmp_path, corpus_task):
    folder = tmp_path / "letters" / "train"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("my only copy")
    with pytest.raises(ValueError, match=r"holds other files \(thesis.tex\); choose another output"):
        cache_split(corpus_task(), "train", str(tmp_path))
    assert (folder / "thesis.tex").exists()


def test_two_writers_at_once_are_refused(tmp_path, corpus_task):
    folder = tmp_path / "letters" / "train"
    folder.mkdir(parents=True)
    with (
        exclusive_writer(str(folder), "cache"),
        pytest.raises(ValueError, match="another process is writing the cache"),
    ):
        cache_split(corpus_task(), "train", str(tmp_path))


@pytest.mark.parametrize("num_processes", [1, 2])
def test_a_bad_row_stops_it_and_is_named(tmp_path, corpus_task, num_processes):
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n{"txt": "not"}\n')
    task = corpus_task(files={"train": str(tmp_path / "a.jsonl")})
    with pytest.raises(ValueError, match=r"a\.jsonl:2: no column 'text'"):
        cache_split(task, "train", str(tmp_path), num_processes=num_processes)
    with pytest.raises(ValueError, match="it was never finished; run the same t5x-like cache command again"):
        CachedExamples.open(tmp_path / "letters" / "train")


def test_skipped_rows_are_counted(tmp_path, corpus_task):
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n{"txt": "not"}\n{"text": ""}\n')
    task = corpus_task(files={"train": str(tmp_path / "a.jsonl")}, on_bad_row="skip")
    manifest = cache_split(task, "train", str(tmp_path))
    assert (manifest.num_examples, manifest.num_skipped) == (2, 1)
    assert CachedExamples.open(tmp_path / "letters" / "train").manifest.num_skipped == 1


def test_an_unknown_split_and_missing_files_are_named(tmp_path, corpus_task):
    with pytest.raises(ValueError, match="task 'letters' has no split 'test'; there are train"):
        cache_split(corpus_task(), "test", str(tmp_path))
    with pytest.raises(ValueError, match=r"'none\.txt' does not exist"):
        cache_split(corpus_task(files={"train": "none.txt"}), "train", str(tmp_path))


def test_texts_of_every_kind_are_kept_unchanged(tmp_path, corpus_task, text_of):
    texts = ["", "   ", "a\x00b", "</s> [MASK] <extra_id_0>", "é\u3000漢字😀", "x" * 1_000_000]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    cache_split(corpus_task(files={"train": str(tmp_path / "a.jsonl")}), "train", str(tmp_path))
    examples = CachedExamples.open(tmp_path / "letters" / "train")
    assert [text_of(examples, index) for index in range(len(texts))] == texts
    assert examples.lengths("tokens").tolist() == [len(text.encode()) for text in texts]


def test_text_tasks_keep_complete_inputs_and_targets(tmp_path):
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "sun\t1\n" + "rain " * 999 + "\t0\n")
    task = TextTask(
        name="weather",
        vocabulary="bytes",
        files={"train": str(tmp_path / "a.tsv")},
        input_template="weather: {text}",
        target_template="{label}",
        label_words={"0": "bad", "1": "good"},
    )
    cache_split(task, "train", str(tmp_path))
    examples = CachedExamples.open(tmp_path / "weather" / "train")
    first, second = examples.read(np.array([0, 1]))
    assert bytes(first["inputs"].astype(np.uint8) - 3) == b"weather: sun"
    assert bytes(first["targets"].astype(np.uint8) - 3) == b"good"
    assert len(second["inputs"]) == len("weather: ") + 999 * 5


def test_sentences_and_spans_are_cached_with_the_tokens(tmp_path, corpus_task):
    row = {"text": "Mount Etna erupts. It is hot.", "spans": [[0, 10], [25, 28]]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    task = corpus_task(files={"train": str(tmp_path / "a.jsonl")}, sentences=True, spans_column="spans")
    cache_split(task, "train", str(tmp_path))
    (example,) = CachedExamples.open(tmp_path / "letters" / "train").read(np.array([0]))
    assert example["sentence_ends"].tolist() == [18, 29]
    assert example["spans"].tolist() == [[0, 10], [25, 28]]
    assert example["spans"].dtype == np.int32
    assert bytes(example["tokens"].astype(np.uint8) - 3).decode() == row["text"]


FULL = """
import resource, signal, sys
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.tasks.pretraining import PretrainingTask
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
task = PretrainingTask(name="letters", vocabulary="bytes", files={"train": sys.argv[1]})
try:
    cache_split(task, "train", sys.argv[2])
except OSError as error:
    print(error.strerror, error.filename)
"""


def test_a_file_that_cannot_grow_is_reported_and_leaves_no_half(tmp_path, corpus):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(corpus), str(tmp_path)], capture_output=True, text=True, check=True
    )
    folder = tmp_path / "letters" / "train"
    assert done.stdout.strip() == f"File too large {folder / '00000.array_record'}", done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["started.json", "starts_word.npy"]
