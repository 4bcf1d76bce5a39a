import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.references.objective_examples import examples_of_task
from t5x_like.text.objectives.denoising import Deshuffling
from t5x_like.text.objectives.objective import Lengths, Text
from t5x_like.text.seqio_bridge.objective_preprocessors import seqio_preprocessors
from tests.text.objectives.t5_objectives import (
    IDS,
    assert_rows_are_independent,
    make_one,
    read,
)

LENGTHS = Lengths(64, 64)


@given(st.lists(st.integers(3, 9), min_size=1, max_size=63), st.integers(0, 2**63))
@settings(max_examples=50, deadline=None)
def test_inputs_are_the_words_of_the_text_in_any_order(tokens, seed):
    example = make_one(Deshuffling(), tokens, LENGTHS, seed=(seed, 1))
    assert example.targets.tolist() == [*tokens, 1]
    assert example.inputs[-1] == 1
    assert sorted(example.inputs[:-1].tolist()) == sorted(tokens)


def test_all_orders_are_as_likely():
    seeds = np.stack([np.arange(6000), np.arange(6000)], axis=1).astype(np.uint64)
    texts = [Text(np.array([7, 8, 9], np.int32), 3)] * 6000
    examples = Deshuffling().make(texts, seeds, LENGTHS, IDS)
    orders, counts = np.unique([example.inputs[:3] for example in examples], axis=0, return_counts=True)
    assert len(orders) == 6
    assert abs(counts - 1000).max() < 120


def test_rows_do_not_depend_on_each_other():
    assert_rows_are_independent(Deshuffling(), [60, 60, 17, 60, 2, 1], LENGTHS)


def test_a_seqio_task_gives_whole_texts_and_their_words(golden):
    reference = read(golden, "exact_task_level.json")
    result = examples_of_task(
        reference, seqio_preprocessors(Deshuffling()), {"inputs": 512, "targets": 512}, cached=True
    )
    joined = [token for example in result for token in example["targets"][:-1].tolist()]
    assert joined == [token for document in reference["docs"] for token in document]
    for example in result:
        assert sorted(example["inputs"].tolist()) == sorted(example["targets"].tolist())
        assert example["inputs"].tolist() != example["targets"].tolist()


def test_targets_shorter_than_inputs_are_refused():
    with pytest.raises(ValueError, match="set targets_length to 64"):
        Deshuffling().check(Lengths(64, 32), IDS)
