from dataclasses import replace

import numpy as np
import pytest
import seqio
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.references.objective_examples import check_task
from benchmarks.references.objectives import check_statistics, helper_lengths, masks
from benchmarks.references.reference import compare_all
from t5x_like.text.objectives.noise import count_noise
from t5x_like.text.objectives.objective import Lengths, Text, lengths_of
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.seqio_bridge import preprocessors
from tests.text.objectives.t5_objectives import (
    DENOISING,
    FIRST_SENTINEL,
    IDS,
    make_one,
    read,
)

LENGTHS = Lengths(512, 114)
MANY_SENTINELS = replace(IDS, num_sentinels=1000)
OBJECTIVES = {
    "span_15_3": (0.15, 3.0),
    "span_50_3": (0.5, 3.0),
    "span_15_8": (0.15, 8.0),
    "span_50_8": (0.5, 8.0),
    "span_15_64": (0.15, 64.0),
    "span_50_64": (0.5, 64.0),
}


def test_length_arithmetic_is_t5s(golden):
    assert compare_all(helper_lengths(golden / "objectives" / "random_spans_helper.json")) > 100


def test_masks_are_t5s_in_numpy_and_tensorflow(golden):
    assert compare_all(masks(golden / "objectives" / "mask_direct.json")) == 496


@pytest.mark.parametrize("name", OBJECTIVES)
def test_span_corruption_is_the_denoising_of_these_spans(name):
    density, length = OBJECTIVES[name]
    objective = SpanCorruption(noise_density=density, mean_noise_span_length=length)
    assert objective.denoising == DENOISING[name]


@pytest.mark.parametrize("cached", ["with", "no"])
@pytest.mark.parametrize("task", ["span_corruption", "span_corruption_128", "span_corruption_nomerge"])
def test_whole_task_is_t5s(golden, task, cached):
    content, name = read(golden, "exact_task_level.json"), f"{task}/{cached}_cache_placeholder_at_index_2"
    check_task(content, name, content["tasks"][name])


def reassemble(inputs, targets):
    """The tokens that a corrupted example was made of."""
    spans, tokens = {}, []
    for token in targets:
        if token > 30_000:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    for token in inputs:
        tokens.extend(spans.pop(token) if token > 30_000 else [token])
    assert not any(spans.values())
    return tokens


@given(
    length=st.integers(1, 300),
    noise_density=st.floats(0.01, 0.9),
    mean_noise_span_length=st.floats(1.0, 12.0),
    seed=st.integers(0, 2**63),
)
@settings(max_examples=150, deadline=None)
def test_span_corruption_keeps_every_token(length, noise_density, mean_noise_span_length, seed):
    objective = SpanCorruption(noise_density=noise_density, mean_noise_span_length=mean_noise_span_length)
    tokens = np.arange(3, 3 + length, dtype=np.int32)
    seeds = np.array([[seed, 1]], np.uint64)
    (example,) = objective.make([Text(tokens, length)], seeds, Lengths(601, 601), MANY_SENTINELS)
    assert (example.inputs[-1], example.targets[-1]) == (1, 1)
    assert reassemble(example.inputs[:-1].tolist(), example.targets[:-1].tolist()) == tokens.tolist()
    assert lengths_of([example]).tolist() == [list(objective.lengths(length))]
    sentinels = [token for token in example.targets.tolist() if token > 30_000]
    assert sentinels == list(range(FIRST_SENTINEL, FIRST_SENTINEL - len(sentinels), -1))
    assert (
        length < 2
        or len(sentinels)
        == count_noise(length, noise_density=noise_density, mean_noise_span_length=mean_noise_span_length)[1]
    )


def test_rows_do_not_depend_on_each_other():
    lengths = [568, 568, 17, 568, 1]
    texts = [Text(np.arange(length, dtype=np.int32), length) for length in lengths]
    seeds = np.stack([np.full(5, 7), np.arange(5)], axis=-1).astype(np.uint64)
    together = SpanCorruption().make(texts, seeds, LENGTHS, IDS)
    for row in range(5):
        (alone,) = SpanCorruption().make(texts[row : row + 1], seeds[row : row + 1], LENGTHS, IDS)
        np.testing.assert_array_equal(alone.inputs, together[row].inputs)
        np.testing.assert_array_equal(alone.targets, together[row].targets)
    masks = [together[row].inputs >= FIRST_SENTINEL for row in (0, 1)]
    assert not np.array_equal(*masks)


def test_span_lengths_have_t5s_distribution(golden):
    check_statistics("span_15_3", read(golden, "stats_200.json")["span_15_3"])


@pytest.mark.parametrize(
    "bad", [{"noise_density": 0.0}, {"noise_density": 1.0}, {"mean_noise_span_length": 0.5}]
)
def test_impossible_settings_are_refused(bad):
    with pytest.raises(ValueError, match="must"):
        SpanCorruption(**bad)
    with pytest.raises(ValueError, match="too short"):
        SpanCorruption(noise_density=0.15).raw_length(1)


def test_too_short_targets_are_refused_with_the_length_needed():
    vocabulary = seqio.PassThroughVocabulary(size=32_100, eos_id=1)
    step = preprocessors.span_corruption(SpanCorruption())[-1]
    with pytest.raises(ValueError, match="raise the targets' length to 114"):
        step(None, {"inputs": 512, "targets": 100}, {"targets": seqio.Feature(vocabulary)})


@pytest.mark.parametrize("noise_density", [0.15, 0.5])
@pytest.mark.parametrize("inputs_length", [8, 9, 64, 512])
def test_spans_of_one_token_leave_inputs_their_length(noise_density, inputs_length):
    """T5's arithmetic finds no length here, and its inputs lose their end."""
    objective = SpanCorruption(noise_density=noise_density, mean_noise_span_length=1.0)
    raw_length, targets_length = objective.plan(inputs_length)
    limits = Lengths(inputs_length, targets_length)
    objective.check(limits, MANY_SENTINELS)
    example = make_one(objective, np.arange(3, 3 + raw_length), limits, MANY_SENTINELS)
    assert inputs_length - 1 <= len(example.inputs) <= inputs_length
    assert len(example.targets) <= targets_length
    assert example.inputs[-1] == example.targets[-1] == IDS.eos
