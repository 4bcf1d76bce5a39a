"""Rows that TensorFlow Datasets has prepared, of benchmarks whose columns are lists, or that it numbers otherwise."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from t5x_like.text.benchmarks import catalogue


def prepare(
    folder: Path, name: str, config: str, features: dict[str, Any], split: str, rows: Sequence[Any]
) -> None:
    """As TFDS lays out and writes what it has prepared."""
    described = tfds.features.FeaturesDict(features)
    place = folder / name / config / "1.0.0"
    place.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(place / f"{name}-{split}.tfrecord-00000-of-00001")) as writer:
        for row in rows:
            writer.write(described.serialize_example(described.encode_example(row)))
    described.save_config(str(place))


def pairs(name: str, folder: Path, split: str) -> list[tuple[str, str]]:
    task = catalogue.benchmark_task(name=name, vocabulary="bytes", data_dir=str(folder))
    return [(row.inputs, row.targets) for row in task.read(split)]


def test_prepared_rows_are_read_as_official_files_are(tmp_path: Path) -> None:
    text = tfds.features.Text
    endings = {"context": text(), "endings": tfds.features.Sequence(text()), "label": np.int32}
    story = {"context": "Al fell.", "endings": ["He rose.", "He flew."]}
    rows = [{**story, "label": 2}, {**story, "label": 1}]
    prepare(tmp_path, "story_cloze", "2016", endings, "test", rows)
    assert [targets for _, targets in pairs("story_cloze", tmp_path, "test")] == ["choice2", "choice1"]
    answers = tfds.features.Sequence({"text": text(), "answer_start": np.int32})
    columns = {"id": np.str_, "title": text(), "context": text(), "question": text(), "answers": answers}
    row: dict[str, Any] = {"id": "q", "title": "", "context": "Al fell. Bo ran.", "question": "Who fell?"}
    row["answers"] = [{"text": "Al", "answer_start": 0}, {"text": "Al fell", "answer_start": 0}]
    prepare(tmp_path, "squad", "v1.1", columns, "validation", [row, {**row, "answers": row["answers"][:1]}])
    assert [targets for _, targets in pairs("squad_v010_allanswers", tmp_path, "validation")] == ["Al", "Al"]
    task = catalogue.benchmark_task(name="squad_v010_allanswers", vocabulary="bytes", data_dir=str(tmp_path))
    assert [row.extras["answers"] for row in task.read("validation")] == [["Al", "Al fell"], ["Al"]]
    tags = tfds.features.Sequence(tfds.features.ClassLabel(names=["O", "B-PER", "I-PER"]))
    named = {"tokens": tfds.features.Sequence(text()), "ner": tags, "pos": tags}
    sentence = {"tokens": ["Al", "fell"], "ner": [1, 0], "pos": [0, 0]}
    prepare(tmp_path, "conll2003", "conll2003", named, "dev", [sentence])
    expected = [("conll2003 tokens: Al fell", "B-PER O")]
    assert pairs("conll2003_ner", tmp_path, "validation") == expected
