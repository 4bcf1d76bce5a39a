"""The same cache by Apache Beam, which is an optional extra."""

import importlib.util

import numpy as np
import pytest

from t5x_like.io.engines import cluster_engine
from t5x_like.text.cache.reader import CachedExamples
from t5x_like.text.cache.writing import cache_split
from tests.engines import CallingEngine, one_after_the_other

has_beam = importlib.util.find_spec("apache_beam") is not None


@pytest.mark.skipif(has_beam, reason="apache_beam is installed")
def test_without_beam_a_runner_is_refused_with_the_remedy():
    with pytest.raises(
        ValueError, match=r"runner=DirectRunner needs Apache Beam .*pip install 't5x-like\[beam\]'"
    ):
        cluster_engine("DirectRunner")


@pytest.mark.skipif(not has_beam, reason="needs the extra t5x-like[beam]")
@pytest.mark.filterwarnings("default")  # Beam's own
def test_beam_makes_the_same_examples_in_the_same_order(tmp_path, corpus_task, texts):
    for index in range(3):
        (tmp_path / f"{index}.txt").write_text("\n".join(texts[100 * index : 100 * index + 100]) + "\n")
    task = corpus_task(files={"train": str(tmp_path / "?.txt")})
    cache_split(task, "train", str(tmp_path / "here"))
    cache_split(task, "train", str(tmp_path / "beam"), engine=cluster_engine("DirectRunner"))
    here, beam = (CachedExamples.open(tmp_path / name / "letters" / "train") for name in ("here", "beam"))
    numbers = np.arange(300)
    assert [e["tokens"].tolist() for e in here.read(numbers)] == [
        e["tokens"].tolist() for e in beam.read(numbers)
    ]
    assert [shard.examples for shard in beam.manifest.shards] == [100, 100, 100]


def test_a_shard_for_each_file_holds_the_same_examples(tmp_path, corpus_task, texts):
    for index in range(3):
        (tmp_path / f"{index}.txt").write_text("\n".join(texts[100 * index : 100 * index + 100]) + "\n")
    task = corpus_task(files={"train": str(tmp_path / "?.txt")})
    cache_split(task, "train", str(tmp_path / "here"))
    manifest = cache_split(task, "train", str(tmp_path / "units"), engine=CallingEngine(one_after_the_other))
    assert [shard.examples for shard in manifest.shards] == [100, 100, 100]
    here, units = (CachedExamples.open(tmp_path / name / "letters" / "train") for name in ("here", "units"))
    assert [e["tokens"].tolist() for e in here.read(np.arange(300))] == [
        e["tokens"].tolist() for e in units.read(np.arange(300))
    ]


def test_units_count_rows_they_skip_and_refuse_another_number_of_shards(tmp_path, corpus_task):
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n{"txt": "not"}\n')
    task = corpus_task(files={"train": str(tmp_path / "a.jsonl")}, on_bad_row="skip")

    engine = CallingEngine(one_after_the_other)
    with pytest.raises(ValueError, match="there is a shard for each of its 1 files; leave num_shards out"):
        cache_split(task, "train", str(tmp_path), engine=engine, num_shards=5)
    assert cache_split(task, "train", str(tmp_path), engine=engine).num_skipped == 1
