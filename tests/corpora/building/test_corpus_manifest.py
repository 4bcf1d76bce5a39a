"""The manifest and the samples of a corpus."""

import json

import pytest

from t5x_like.corpora.building.corpus_manifest import read_manifest
from t5x_like.corpora.building.recipe import UniqueUrls
from tests.corpora.building.tiny import NoDigits, build, page, step, write_files

PAGES = [page(f"http://a.org/{n}", "letters" + " alone" * n, "2019") for n in range(20)]
PAGES += [page(f"http://b.org/{n}", f"digits {n}") for n in range(20)]
PAGES += [page("http://a.org/3", "an older page", "2018")]


@pytest.fixture
def output(tmp_path):
    build(write_files(tmp_path / "in", [PAGES[::2], PAGES[1::2]]), tmp_path / "out", num_shards=2)
    return tmp_path / "out"


def test_counts_add_up_from_the_input_to_the_splits(output):
    manifest = read_manifest(str(output))
    assert manifest["input"]["pages"] == 41
    assert manifest["input"]["files"] == 2
    assert [each["in"] for each in manifest["steps"]] == [41, 41, 40, 20, 20]
    assert step(manifest, "duplicate-url-filter")["dropped"] == {"filtered:duplicate_url": 1}
    assert step(manifest, "no-digits")["dropped"] == {"filtered:digits": 20}
    assert step(manifest, "min-chars")["seen"] == {"chars": sum(len(each["text"]) for each in PAGES)}
    assert sum(split["pages"] for split in manifest["splits"].values()) == 20
    assert sum(manifest["lengths"]["read"].values()) == 41
    assert sum(manifest["lengths"]["kept"].values()) == sum(manifest["languages"].values()) == 20
    assert manifest["lengths"]["read"]["4"] == 22  # of 8 to 15 characters
    assert {"name", "tasks", "bytes", "seconds"} == set(manifest["stages"][0])
    assert manifest["stages"][0]["bytes"] > 0
    assert manifest["rate"]["value"] > 0


def test_samples_are_a_few_pages_of_each_outcome(output, tmp_path):
    samples = [json.loads(line) for line in (output / "samples.jsonl").read_text().splitlines()]
    by_fate = {}
    for sample in samples:
        by_fate.setdefault((sample["step"], sample["fate"]), []).append(sample["text"])
    assert by_fate[("duplicate-url-filter", "filtered:duplicate_url")] == ["an older page"]
    digits = by_fate[("no-digits", "filtered:digits")]
    assert len(digits) == 5
    assert all(text.startswith("digits") for text in digits)
    assert len(by_fate[("kept", "kept")]) == 5


def test_samples_do_not_depend_on_the_order_of_reading(tmp_path):
    for name, files in (("a", [PAGES]), ("b", [PAGES[::-1][:7], PAGES[::-1][7:]])):
        build(write_files(tmp_path / f"{name}_in", files), tmp_path / name, UniqueUrls(), NoDigits())
    assert (tmp_path / "a" / "samples.jsonl").read_bytes() == (tmp_path / "b" / "samples.jsonl").read_bytes()


def test_a_folder_without_a_corpus_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"has no manifest\.json: no corpus was finished there; run t5x-like corpus"
    ):
        read_manifest(str(tmp_path))
    (tmp_path / "manifest.json").write_text('{"format": "other"}')
    with pytest.raises(ValueError, match="is not the manifest of a corpus"):
        read_manifest(str(tmp_path))
