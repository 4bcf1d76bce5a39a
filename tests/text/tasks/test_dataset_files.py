"""Datasets of the Hugging Face library are read by tasks, row for row."""

import sys
from pathlib import Path

import pytest

import t5x_like
from t5x_like.text.tasks.dataset_files import dataset_files
from t5x_like.text.tasks.row_files import read_rows
from t5x_like.text.tasks.rows import BadRow

datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()

ROWS = {"text": ["good", "bad \t one", "fine", "poor"], "label": [1, 0, 1, 0]}
LABELS = datasets.ClassLabel(names=["negative", "positive"])


def dataset(rows=ROWS):
    features = datasets.Features({"text": datasets.Value("string"), "label": LABELS})
    return datasets.Dataset.from_dict(rows, features=features)


@pytest.fixture
def saved(tmp_path):
    """A directory with two splits, the first in two files."""
    splits = {"train": dataset(), "validation": dataset({"text": ["new"], "label": [1]})}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "saved", num_shards={"train": 2, "validation": 1})
    return tmp_path / "saved"


def task(files):
    return t5x_like.TextTask(
        name="sentiment",
        vocabulary="bytes",
        files=files,
        input_template="review: {text}",
        target_template="{label}",
        label_words={"0": "negative", "1": "positive"},
    )


def test_a_task_reads_the_rows_of_each_split(saved):
    files = {split: dataset_files(saved, split) for split in ("train", "validation")}
    assert len(files["train"]) == 2
    result = task(files)
    assert [(pair.inputs, pair.targets) for pair in result.read("train")] == [
        ("review: good", "positive"),
        ("review: bad \t one", "negative"),
        ("review: fine", "positive"),
        ("review: poor", "negative"),
    ]
    assert [pair.inputs for pair in result.read("validation")] == ["review: new"]


def test_a_pattern_reads_the_same_without_the_library(saved, monkeypatch):
    expected = [pair.inputs for pair in task({"train": dataset_files(saved, "train")}).read("train")]
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert [pair.inputs for pair in task({"train": f"{saved}/train/*.arrow"}).read("train")] == expected


def test_a_selection_that_was_saved_has_its_own_rows(tmp_path):
    dataset().select([2, 0]).save_to_disk(tmp_path / "one")
    result = task({"train": dataset_files(tmp_path / "one", "train")})
    assert [pair.inputs for pair in result.read("train")] == ["review: fine", "review: good"]


def test_what_is_not_there_is_named(saved, tmp_path):
    with pytest.raises(ValueError, match="has no split 'test'; there are train, validation"):
        dataset_files(saved, "test")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty is no dataset that can be read"):
        dataset_files(tmp_path / "empty", "train")


def test_without_the_library_the_extra_is_named(saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"pip install 't5x-like\[datasets\]'"):
        dataset_files(saved, "train")


@pytest.mark.parametrize("kept", [0, 3, 200])
def test_a_file_cut_short_is_a_bad_row(saved, tmp_path, kept):
    (file, *_) = dataset_files(saved, "train")
    path = tmp_path / "cut.arrow"
    path.write_bytes(Path(file).read_bytes()[:kept])
    rows = list(read_rows(str(path), "arrow"))
    assert isinstance(rows[-1], BadRow)
    assert "not an Arrow file of UTF-8 text" in str(rows[-1])
