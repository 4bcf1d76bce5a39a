"""Lengths of epochs in steps, and data that has none."""

from dataclasses import replace

import numpy as np
import pytest

from t5x_like.text import registry
from t5x_like.text.batches.in_memory import cut_document, first_tokens, load_in_memory
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.cache.writing import cache_split
from t5x_like.text.tasks.mixtures import Mixture
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.text_task import TextTask


def steps(mixture, **changes):
    settings = {"batch_size": 4, "inputs_length": 64, "targets_length": 32, "pack": False}
    return build_loader(LoaderConfig(mixture=mixture, **settings | changes)).steps_per_epoch()


def mixed(*tasks, rates=None):
    name = "mixed_" + "_".join(tasks)
    registry.register([Mixture(name=name, tasks=tasks, **({} if rates is None else {"rates": rates}))])
    return name


def test_an_epoch_has_every_example_once(make_text_task, make_corpus):
    first, second = make_text_task(40), make_text_task(30)
    assert steps(first) == 10
    assert steps(first, batch_size=16) == 2.5
    assert steps(first, layout="decoder", targets_length=64, inputs_length=32) == 10
    assert steps(first, layout="encoder", pack=True) == 10  # rows of a head aren't packed
    assert steps(mixed(first, second)) == 17.5
    corpus = make_corpus()
    loader = build_loader(
        LoaderConfig(
            mixture=corpus, batch_size=1, inputs_length=64, targets_length=32, pack=False, repeat=False
        )
    )
    assert steps(corpus, batch_size=1) == sum(1 for _ in loader)


@pytest.mark.seqio
def test_other_data_has_no_length_in_steps(make_text_task):
    first, second = make_text_task(40), make_text_task(30)
    with pytest.raises(ValueError, match=r"several examples into a row.*set pack=False"):
        steps(first, pack=True)
    rates = {first: 1.0, second: 1.0}
    with pytest.raises(ValueError, match=rf"in steps 20\.0 of '{first}', 15\.0 of '{second}'; give rates"):
        steps(mixed(first, second, rates=rates))
    with pytest.raises(ValueError, match="is read as a stream, whose size isn't known; give steps"):
        steps(make_text_task(30), max_tokens_in_memory=1)


def test_a_corpus_is_read_as_often_as_the_steps_need(make_corpus, make_text_task):
    corpus = make_corpus()
    settings = {"batch_size": 4, "inputs_length": 64, "targets_length": 32}
    loader = build_loader(LoaderConfig(mixture=corpus, **settings))
    once = build_loader(LoaderConfig(mixture=corpus, **settings, repeat=False))
    num_batches = sum(1 for _ in once)
    assert loader.epochs(3 * num_batches)[corpus] == pytest.approx(3, rel=0.1)
    assert build_loader(LoaderConfig(mixture=make_text_task(40), **settings)).epochs(10) == {}


def test_a_task_can_be_capped_at_a_number_of_examples_from_memory_or_a_cache(make_text_task, tmp_path):
    task = registry.definition(make_text_task(40))
    assert isinstance(task, TextTask)
    capped = replace(task, name="capped_rows", max_examples=12)
    by_size = Mixture(name="by_size", tasks=(task.name, "capped_rows"))
    registry.register([capped, by_size])
    settings = {"batch_size": 4, "inputs_length": 64, "targets_length": 32, "pack": False}
    assert steps("capped_rows") == 3
    assert steps("capped_rows", layout="encoder") == 3
    assert registry.resolve("by_size").rates() == [40.0, 12.0]
    assert len(list(capped.read("validation"))) == len(list(task.read("validation")))
    cache = str(tmp_path / "cache")
    cache_split(capped, "train", cache, num_shards=2)
    from_memory, from_cache = (
        build_loader(LoaderConfig(mixture="capped_rows", cache=each, **settings)) for each in (None, cache)
    )
    for _ in range(4):
        one, other = next(from_memory), next(from_cache)
        np.testing.assert_array_equal(one.encoder_input_tokens, other.encoder_input_tokens)
    from_memory.restore(from_cache.state())  # the data are the same
    assert registry.resolve("by_size").rates(lambda _: 40)[1] == 12.0, "a cache has all rows"
    with pytest.raises(ValueError, match="max_examples must be at least 1, not 0"):
        replace(task, name="empty", max_examples=0)


def test_the_last_of_the_first_documents_is_cut_to_the_number_of_tokens(make_corpus):
    task = registry.definition(make_corpus())
    assert isinstance(task, PretrainingTask)
    stored = load_in_memory(task, "train", max_tokens_in_memory=10**9)
    whole = np.concatenate([each["tokens"] for each in stored.read(np.arange(len(stored)))])
    checksums = set()
    for number in (1, 50, 333, int(stored.lengths("tokens")[0]), len(whole) - 1):
        first = first_tokens(stored, number)
        cut = np.concatenate([each["tokens"] for each in first.read(np.arange(len(first)))])
        np.testing.assert_array_equal(cut, whole[:number])
        assert first.lengths("tokens").sum() == number
        checksums.add(first.checksum)
    assert len(checksums) == 5
    assert first_tokens(stored, len(whole)) is stored


def test_sentences_and_spans_of_a_cut_document_are_those_in_it():
    document = {
        "tokens": np.arange(10),
        "sentence_ends": np.array([3, 6, 10], np.int32),
        "spans": np.array([[0, 2], [4, 6], [5, 8]], np.int32),
    }
    cut = cut_document(document, 7)
    assert {name: array.tolist() for name, array in cut.items()} == {
        "tokens": list(range(7)),
        "sentence_ends": [3, 6, 7],
        "spans": [[0, 2], [4, 6]],
    }
    assert cut_document(document, 6)["sentence_ends"].tolist() == [3, 6]


def test_a_corpus_can_be_capped_at_a_number_of_tokens_and_repeated(make_corpus):
    task = registry.definition(make_corpus())
    assert isinstance(task, PretrainingTask)
    capped = replace(task, name="capped", max_tokens=2000)
    registry.register([capped])
    settings = {"batch_size": 4, "inputs_length": 64, "targets_length": 32}
    whole = build_loader(LoaderConfig(mixture=task.name, **settings))
    part = build_loader(LoaderConfig(mixture="capped", **settings))
    stored = load_in_memory(task, "train", max_tokens_in_memory=10**9).lengths("tokens")
    share = 2000 / stored.sum()
    assert part.epochs(100)["capped"] == pytest.approx(whole.epochs(100)[task.name] / share, rel=0.2)
    with pytest.raises(
        ValueError, match="has max_tokens, and over 1 tokens in all, which are read as a stream"
    ):
        build_loader(LoaderConfig(mixture="capped", max_tokens_in_memory=1, **settings))
    with pytest.raises(ValueError, match="max_tokens must be at least 1, not 0"):
        replace(task, name="empty", max_tokens=0)
