import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.references.objective_examples import check_seeded_examples, check_task
from t5x_like.text.objectives.cutting import lay_window, texts_of
from t5x_like.text.objectives.objective import Lengths, Text, lengths_of
from t5x_like.text.objectives.prefix_lm import PrefixLM
from tests.text.objectives.t5_objectives import (
    IDS,
    PREFIXES,
    assert_rows_are_independent,
    make_one,
    read,
)

LENGTHS = Lengths(512, 512)


@pytest.mark.parametrize("name", PREFIXES)
def test_examples_are_t5s_for_the_same_seeds(golden, name):
    check_seeded_examples(read(golden, "exact_denoise.json"), name)


@pytest.mark.parametrize("cached", ["with", "no"])
def test_whole_task_is_t5s(golden, cached):
    content, name = read(golden, "exact_task_level.json"), f"prefix_lm/{cached}_cache_placeholder_at_index_2"
    check_task(content, name, content["tasks"][name])


@pytest.mark.parametrize("name", PREFIXES)
def test_lengths_have_t5s_distribution(golden, name):
    expected = np.array(read(golden, "stats_200.json")[name]["inputs_len_568"])
    reference = np.repeat(*expected.T)
    seeds = np.stack([np.arange(4000), np.arange(4000)], axis=1).astype(np.uint64)
    examples = PREFIXES[name].make([Text(np.arange(568, dtype=np.int32), 568)] * 4000, seeds, LENGTHS, IDS)
    result = lengths_of(examples)[:, 0] - 1
    assert abs(result.mean() - reference.mean()) < 3 * reference.std() / 10
    least = int(PREFIXES[name].shortest_prefix(np.array([568]))[0])
    assert {result.min(), result.max()} <= {least, least + 1, 566, 567}
    assert reference.min() >= least


@pytest.mark.parametrize("name", PREFIXES)
@given(length=st.integers(2, 511), seed=st.integers(0, 2**63))
@settings(max_examples=50, deadline=None)
def test_prefix_and_rest_are_the_text_and_neither_is_empty(name, length, seed):
    tokens = np.arange(3, 3 + length)
    example = make_one(PREFIXES[name], tokens, LENGTHS, seed=(seed, 1))
    assert (example.inputs[-1], example.targets[-1]) == (1, 1)
    assert [*example.inputs[:-1], *example.targets[:-1]] == tokens.tolist()
    assert min(len(example.inputs), len(example.targets)) > 1
    assert max(len(example.inputs), len(example.targets)) <= 512


def test_documents_stay_apart_and_single_tokens_are_left_out():
    window = lay_window([{"tokens": np.arange(n)} for n in (3, 11, 1, 20)], chunks=np.zeros(4, np.uint64))
    cuts = PrefixLM().cut(window, Lengths(11, 11), np.zeros(2, np.uint64))
    results = [text.tokens.tolist() for text in texts_of(window, cuts, np.arange(len(cuts.starts)))]
    assert results == [[0, 1, 2], list(range(10)), list(range(10)), list(range(10, 20))]


def test_a_single_token_is_predicted_from_nothing():
    example = make_one(PrefixLM(), [9], LENGTHS)
    assert (example.inputs.tolist(), example.targets.tolist()) == ([1], [9, 1])


def test_rows_do_not_depend_on_each_other():
    assert_rows_are_independent(PrefixLM(), [200, 200, 17, 200, 2, 1], LENGTHS)


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match=r"above 0 and up to 0\.5"):
        PrefixLM(noise_density=0.6)
    with pytest.raises(ValueError, match="targets of up to 511 tokens, over the limit of 114"):
        PrefixLM().check(Lengths(512, 114), IDS)
    PrefixLM(noise_density=0.25).check(Lengths(512, 257), IDS)
    with pytest.raises(ValueError, match="too short to split"):
        PrefixLM().check(Lengths(2, 8), IDS)
