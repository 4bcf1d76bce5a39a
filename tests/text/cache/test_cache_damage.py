"""Shards that are truncated, missing, empty or changed are reported, or their examples are left out and counted."""

import logging
import re

import numpy as np
import pytest

from t5x_like.text.cache.reader import CachedExamples

SHARD = "00001.array_record"


def flip(path, place, bit=3):
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def read_all(examples):
    return [example["tokens"].tolist() for example in examples.read(np.arange(len(examples)))]


@pytest.mark.parametrize("size", [0, 1000, 65536, 100_000])
def test_a_truncated_shard_is_refused_at_opening(cached, size):
    expected = (cached / SHARD).stat().st_size
    cut(cached / SHARD, size)
    with pytest.raises(
        ValueError,
        match=rf"{SHARD} is damaged at byte {size}: it has {size} bytes instead of {expected}; copy it again",
    ):
        CachedExamples.open(cached)


def test_a_missing_shard_is_refused_with_its_number_of_examples(cached):
    (cached / SHARD).unlink()
    with pytest.raises(ValueError, match=rf"{SHARD} is missing, and \d+ examples with it"):
        CachedExamples.open(cached)


def test_a_longer_shard_is_refused(cached):
    with (cached / SHARD).open("ab") as stream:
        stream.write(bytes(65536))
    with pytest.raises(ValueError, match="bytes instead of"):
        CachedExamples.open(cached)


@pytest.mark.parametrize("place", [300, 70_000, 131_080])
def test_a_flipped_bit_is_reported_with_file_and_offset(cached, place):
    flip(cached / SHARD, place)
    examples = CachedExamples.open(cached)
    start = place // 65536 * 65536
    with pytest.raises(ValueError, match=rf"{SHARD} is damaged between bytes {start} and {start + 65536} \("):
        read_all(examples)


def test_a_shard_exchanged_with_another_is_not_read_as_its_own(cached):
    one, other = cached / "00001.array_record", cached / "00002.array_record"
    first, second = one.read_bytes(), other.read_bytes()
    if len(first) == len(second):
        one.write_bytes(second)
        with pytest.raises(ValueError, match=r"00001\.array_record is damaged"):
            read_all(CachedExamples.open(cached))
    else:
        one.write_bytes(second)
        with pytest.raises(ValueError, match="bytes instead of"):
            CachedExamples.open(cached)


def quarantined(cached, caplog):
    with caplog.at_level(logging.WARNING):
        return CachedExamples.open(cached, on_corruption="quarantine")


def test_quarantine_leaves_out_the_examples_of_the_damaged_block_and_no_others(cached, texts, caplog):
    whole = read_all(CachedExamples.open(cached))
    flip(cached / SHARD, 70_000)
    examples = quarantined(cached, caplog)
    left = read_all(examples)
    assert 0 < examples.num_quarantined < 60
    assert len(examples) == len(left) == 300 - examples.num_quarantined
    first = next(index for index, tokens in enumerate(whole) if tokens != left[index])
    assert left == whole[:first] + whole[first + examples.num_quarantined :]
    assert f"{examples.num_quarantined} of 300 examples touch damaged bytes and are left out" in caplog.text
    assert examples.lengths("tokens").tolist() == [len(tokens) for tokens in left]


def outcome(cached):
    """Return the examples, or the position in the error message."""
    try:
        return read_all(CachedExamples.open(cached))
    except ValueError as error:
        return re.search(rf"{SHARD} is damaged between bytes \d+ and", str(error))[0]  # pyright: ignore


def test_every_byte_that_is_flipped_is_refused_quarantined_or_harmless(cached, caplog):
    whole = read_all(CachedExamples.open(cached))
    content = (cached / SHARD).read_bytes()
    for place in np.random.Generator(np.random.Philox(0)).integers(0, len(content), 60).tolist():
        flip(cached / SHARD, place, bit=place % 8)
        assert outcome(cached) in (whole, f"{SHARD} is damaged between bytes {place // 65536 * 65536} and")
        left = read_all(quarantined(cached, caplog))
        kept = iter(whole)
        assert all(tokens in kept for tokens in left), "what is left is the whole without some"
        (cached / SHARD).write_bytes(content)


@pytest.mark.parametrize("harm", ["missing", "emptied", "half"])
def test_quarantine_counts_the_examples_of_a_lost_file(cached, caplog, harm):
    whole = read_all(CachedExamples.open(cached))
    held = CachedExamples.open(cached).manifest.shards
    if harm == "missing":
        (cached / SHARD).unlink()
    else:
        cut(cached / SHARD, 0 if harm == "emptied" else 80_000)
    examples = quarantined(cached, caplog)
    if harm == "half":
        assert 0 < examples.num_quarantined < held[1].examples
    else:
        assert examples.num_quarantined == held[1].examples
    kept = iter(whole)
    assert all(tokens in kept for tokens in read_all(examples))


def test_damage_after_the_last_example_loses_none(cached, caplog):
    whole = read_all(CachedExamples.open(cached))
    flip(cached / SHARD, (cached / SHARD).stat().st_size - 65536 + 30)
    with pytest.raises(ValueError, match="is damaged between bytes"):
        read_all(CachedExamples.open(cached))
    examples = quarantined(cached, caplog)
    assert read_all(examples) == whole
    assert examples.num_quarantined == 0


def test_a_quarantine_changes_the_checksum(cached, caplog):
    before = CachedExamples.open(cached).checksum
    flip(cached / SHARD, 70_000)
    assert quarantined(cached, caplog).checksum != before


def test_a_cache_without_intact_examples_is_an_error(cached, caplog):
    for shard in cached.glob("*.array_record"):
        cut(shard, 0)
    with pytest.raises(ValueError, match="every one of its 300 examples touches damaged bytes"):
        quarantined(cached, caplog)


@pytest.mark.parametrize("name", ["manifest.json", "lengths.tokens.npy", "starts_word.npy"])
def test_files_that_describe_the_cache_are_checked_at_opening(cached, name):
    path = cached / name
    content = path.read_bytes()
    if name == "manifest.json":
        path.write_bytes(content.replace(b'"examples": ', b'"examples": 1', 1))
    else:
        flip(path, len(content) - 5)
    with pytest.raises(ValueError, match=rf"{name} is damaged"):
        CachedExamples.open(cached)


def test_a_damaged_index_is_named_where_it_is_needed(cached, caplog):
    flip(cached / "00001.index.npz", 200)
    with pytest.raises(ValueError, match=r"00001\.index\.npz is damaged"):
        quarantined(cached, caplog)


def test_an_unknown_policy_is_refused(cached):
    with pytest.raises(ValueError, match="on_corruption must be 'fail' or 'quarantine', not 'ignore'"):
        CachedExamples.open(cached, on_corruption="ignore")  # pyright: ignore[reportArgumentType]
