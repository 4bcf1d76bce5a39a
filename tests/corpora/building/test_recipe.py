"""Recipes are checked when they are made."""

import pytest

from t5x_like.corpora.building.build_plan import plan
from t5x_like.corpora.building.input_files import InputBatch, InputFile
from t5x_like.corpora.building.recipe import CorpusRecipe, UniqueUrls
from t5x_like.corpora.rules.bad_words import BadWords
from tests.corpora.building.tiny import LINES, MinChars, NoDigits, recipe


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((MinChars,), r"step 1 is <class .*MinChars'>; a step is .*; write MinChars\(\)"),
        (
            (MinChars(), "clean"),
            r"step 2 is 'clean'; a step is a rule for pages \(apply\), UniqueUrls or a rule",
        ),
        ((UniqueUrls(), UniqueUrls()), "steps 1 and 2 are both UniqueUrls; once is enough"),
        (
            (LINES, UniqueUrls()),
            r"step 1 \(dedupe-lines\) comes before UniqueUrls \(step 2\).*put UniqueUrls first",
        ),
    ],
)
def test_invalid_steps_and_wrong_orders_are_refused(steps, message):
    with pytest.raises(ValueError, match=f"corpus recipe 'tiny': {message}"):
        recipe(*steps)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "name is ''; give a name"),
        ({"format": "csv"}, "format is 'csv'; choose from jsonl.zst, tfrecord, arrayrecord"),
        ({"num_shards": 0}, "num_shards is 0; give 1 or more, or None"),
        ({"validation_share": 0.0005}, "validation_share is 0.0005; give thousandths from 0 to 0.999"),
        ({"validation_share": 1.0}, "validation_share is 1.0; give thousandths"),
    ],
)
def test_fields_out_of_range_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        recipe(**fields)


def test_a_recipe_describes_all_settings_that_determine_the_output(tmp_path):
    (tmp_path / "en.txt").write_text("word\n")
    made = CorpusRecipe(name="mine", steps=[MinChars(chars=5), UniqueUrls(), BadWords(lists=str(tmp_path))])
    words = made.describe()
    assert words["step 1"] == "MinChars(chars=5), version 1"
    before = words["step 3"]
    assert "terms sha256 " in before
    (tmp_path / "en.txt").write_text("another\n")
    assert made.describe()["step 3"] != before


def batches(path: str, size: int) -> list[InputBatch]:
    return [InputBatch(0, (InputFile(path, size),))]


@pytest.mark.parametrize("num_shards", [None, 1, 3, 1000])
@pytest.mark.parametrize("size", [0, 10**6, 10**9, 10**12])
def test_partitions_fit_memory_and_shards_hold_them_all(size, num_shards):
    made = plan(
        recipe(NoDigits(), num_shards=num_shards, validation_share=0.001), "out", batches("a.wet.gz", size)
    )
    shards = [made.shard(index) for index in range(made.num_shards)]
    assert [number for shard in shards for number in shard.partitions] == list(range(made.num_partitions))
    assert sum(shard.split == "train" for shard in shards) == (num_shards or made.num_train)
    assert made.num_train >= min(4 * size / 64e6, 2**15)  # more, and there would be too many small files
    assert made.num_train * 999 / 1000 <= 1000 * made.num_validation  # validation's aren't larger
    assert made.num_train <= max(16, min(4 * size / 64e6 + 1, 2**15)) + (num_shards or 0)


def test_partitions_are_ranges_of_digests_and_validation_has_its_own():
    made = plan(recipe(num_shards=10), "out", batches("a.jsonl", 1))
    digests = sorted(bytes([byte]) + bytes(14) + bytes([last]) for byte in range(256) for last in range(7))
    held_out = [digest for digest in digests if made.recipe.is_held_out(digest)]
    train = [made.partition_of(digest) for digest in digests if digest not in held_out]
    assert train == sorted(train)
    assert set(train) == set(range(10))
    assert {made.partition_of(digest) for digest in held_out} == {10, 11}
    assert all(int.from_bytes(digest, "big") % 1000 < 200 for digest in held_out)
