"""Corpus files can be read by the libraries of their formats."""

import json

import pytest
import zstandard

from t5x_like.corpora.building.atomic_files import checksum_of_file
from t5x_like.corpora.building.corpus_formats import write_pages
from t5x_like.corpora.building.recipe import UniqueUrls
from t5x_like.corpora.pages.crawled_page import Page
from tests.corpora.building.tiny import build, contents, page, write_files

PAGES = [
    Page("http://a.org/1", "Zeile eins.\nZeile zwei – ja.", "2019-04-18T10:00:00Z", language="de"),
    Page("http://a.org/2", "x" * 300, "2020"),
    Page("http://a.org/3", "half a \ud800 character"),
]
ROWS = [
    {"url": "http://a.org/1", "timestamp": "2019-04-18T10:00:00Z", "text": PAGES[0].text, "language": "de"},
    {"url": "http://a.org/2", "timestamp": "2020", "text": "x" * 300, "language": ""},
    {"url": "http://a.org/3", "timestamp": "", "text": "half a ? character", "language": ""},
]


def test_json_lines(tmp_path):
    write_pages(PAGES, str(tmp_path / "a"), "jsonl.zst")
    with zstandard.open(tmp_path / "a", "rt", encoding="utf-8", newline="\n") as stream:
        assert [json.loads(line) for line in stream.read().splitlines()] == ROWS


def parsed(record):
    import tensorflow as tf

    features = tf.train.Example.FromString(record).features.feature
    return {name: feature.bytes_list.value[0].decode() for name, feature in features.items()}


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.seqio
def test_tf_records(tmp_path, count):
    import tensorflow as tf

    write_pages(PAGES[:count], str(tmp_path / "a"), "tfrecord")
    records = tf.data.TFRecordDataset(str(tmp_path / "a")).as_numpy_iterator()
    assert [parsed(record) for record in records] == ROWS[:count]


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.seqio
def test_array_records(tmp_path, count):
    from array_record.python import array_record_module

    write_pages(PAGES[:count], str(tmp_path / "a"), "arrayrecord")
    reader = array_record_module.ArrayRecordReader(str(tmp_path / "a"))
    assert [parsed(record) for record in reader.read_all()] == ROWS[:count]
    reader.close()


@pytest.mark.parametrize("form", ["tfrecord", "arrayrecord"])
def test_other_formats_are_reproducible_and_the_manifest_has_their_checksums(tmp_path, form):
    inputs = write_files(tmp_path / "in", [[page(f"http://a.org/{n}", f"text {n}") for n in range(50)]])
    manifest = build(inputs, tmp_path / "a", UniqueUrls(), format=form)
    build(inputs, tmp_path / "b", UniqueUrls(), format=form)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    for shard in manifest["shards"]:
        assert checksum_of_file(str(tmp_path / "a" / shard["file"])) == (shard["bytes"], shard["crc32c"])
    assert sum(shard["pages"] for shard in manifest["shards"]) == 50
