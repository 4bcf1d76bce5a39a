import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t5x_like.text.cache import shard_readers
from t5x_like.text.cache.fingerprint import task_fingerprint
from t5x_like.text.cache.reader import CachedExamples
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import ids_of


def tokens_of(text):
    return [byte + 3 for byte in text.encode()]


@given(numbers=st.lists(st.integers(0, 299), max_size=40))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_examples_are_read_in_the_requested_order(cached, texts, numbers):
    examples = CachedExamples.open(cached)
    result = examples.read(np.array(numbers, np.int64))
    assert [example["tokens"].tolist() for example in result] == [tokens_of(texts[n]) for n in numbers]
    assert all(example["tokens"].dtype == np.uint16 for example in result)


def test_lengths_are_known_without_the_shards(cached, texts):
    examples = CachedExamples.open(cached)
    for shard in cached.glob("*.array_record"):
        shard.unlink()
    lengths = examples.lengths("tokens")
    assert lengths.dtype == np.int64
    assert lengths.tolist() == [len(text) for text in texts]
    assert isinstance(lengths, np.memmap)
    assert len(examples) == 300


def test_it_holds_the_vocabularys_ids(cached):
    examples = CachedExamples.open(cached)
    tokenizer = open_tokenizer("bytes", 100)
    expected = ids_of(tokenizer)
    assert replace(examples.ids, starts_word=None) == replace(expected, starts_word=None)
    assert expected.starts_word is not None
    assert np.array_equal(examples.ids.starts_word, expected.starts_word)  # pyright: ignore
    assert examples.vocabulary_fingerprint == tokenizer.fingerprint


def test_it_opens_only_for_its_own_task(cached, corpus_task):
    for with_files in (True, False):
        fingerprint = task_fingerprint(corpus_task(), "train", with_files=with_files)
        CachedExamples.open(cached, task_fingerprint=fingerprint)
    other = task_fingerprint(corpus_task(sentences=True), "train")
    with pytest.raises(ValueError, match="sentences: the cache has not apart, you ask for apart"):
        CachedExamples.open(cached, task_fingerprint=other)
    with pytest.raises(ValueError, match=r"vocabulary: the cache has .*, you ask for abc"):
        CachedExamples.open(cached, vocabulary_fingerprint="abc")


def test_the_objective_does_not_matter(cached, corpus_task):
    from t5x_like.text.objectives.span_corruption import SpanCorruption

    task = corpus_task(objective=SpanCorruption(noise_density=0.5))
    CachedExamples.open(cached, task_fingerprint=task_fingerprint(task, "train"))


def test_other_examples_have_another_checksum(cached, tmp_path_factory, corpus_task):
    from t5x_like.text.cache.writing import cache_split

    other = tmp_path_factory.mktemp("other")
    same = cache_split(corpus_task(), "train", str(other / "same"), shard_bytes=100_000)
    (other / "a.txt").write_text("a\n")
    changed = cache_split(corpus_task(files={"train": str(other / "a.txt")}), "train", str(other / "changed"))
    del same, changed
    checksums = [
        CachedExamples.open(path).checksum
        for path in (cached, other / "same" / "letters" / "train", other / "changed" / "letters" / "train")
    ]
    assert checksums[0] == checksums[1] != checksums[2]


def test_it_is_pickled_as_a_few_bytes(cached, texts):
    packed = pickle.dumps(CachedExamples.open(cached))
    assert len(packed) < 20_000
    assert pickle.loads(packed).read(np.array([5]))[0]["tokens"].tolist() == tokens_of(texts[5])


def test_threads_share_it_with_few_open_files(cached, texts, monkeypatch):
    monkeypatch.setattr(shard_readers, "_MOST_OPEN", 2)
    examples = CachedExamples.open(cached)
    assert len(examples.manifest.shards) > 3
    batches = [np.random.default_rng(seed).permutation(300)[:80] for seed in range(24)]
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(examples.read, batches))
    for batch, read in zip(batches, result, strict=True):
        assert [len(example["tokens"]) for example in read] == [len(texts[n]) for n in batch]


@pytest.mark.parametrize("number", [-1, 300])
def test_numbers_out_of_range_are_named(cached, number):
    with pytest.raises(ValueError, match=f"example {number} is out of range: there are 300"):
        CachedExamples.open(cached).read(np.array([3, number]))


def test_an_unknown_feature_is_named_with_those_there_are(cached):
    with pytest.raises(ValueError, match="has no feature 'targets'; it has tokens"):
        CachedExamples.open(cached).lengths("targets")


def test_a_folder_above_or_without_a_cache_is_reported(cached, tmp_path):
    with pytest.raises(ValueError, match=r"there are caches inside: letters/train"):
        CachedExamples.open(cached.parent.parent)
    with pytest.raises(ValueError, match="there is no such folder; make one with t5x-like cache"):
        CachedExamples.open(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"is in a bucket.*mount the bucket"):
        CachedExamples.open("gs://bucket/letters/train")


def test_reading_imports_neither_tensorflow_nor_jax(cached):
    program = f"""
import sys, numpy
from t5x_like.text.cache.reader import CachedExamples
CachedExamples.open({str(cached)!r}).read(numpy.arange(9))
print([name for name in ("tensorflow", "seqio", "jax", "sentencepiece") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
