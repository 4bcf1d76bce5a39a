import numpy as np
import pytest
import seqio
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.text.objectives.noise import count_noise, random_spans, uniforms_needed
from t5x_like.text.objectives.objective import Lengths, Text, lengths_of
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.seqio_bridge import preprocessors
from tests.text.objectives.t5_objectives import (
    FIRST_SENTINEL,
    IDS,
    datasets_of,
    features_of,
    read,
    task_examples,
)

LENGTHS = Lengths(512, 114)
MANY_SENTINELS = IDS._replace(num_sentinels=1000)
OBJECTIVES = {
    "span_15_3": (0.15, 3.0),
    "span_50_3": (0.5, 3.0),
    "span_15_8": (0.15, 8.0),
    "span_50_8": (0.5, 8.0),
    "span_15_64": (0.15, 64.0),
    "span_50_64": (0.5, 64.0),
}


def uniforms_of(length, seeds, noise_density, mean_noise_span_length):
    """TensorFlow's random numbers for T5's seeds, in the order that the numpy mask takes them."""
    num_noise, _ = count_noise(
        length, noise_density=noise_density, mean_noise_span_length=mean_noise_span_length
    )
    parts = zip((num_noise - 1, max(length, 2) - num_noise - 1), seeds, strict=True)
    return np.concatenate([tf.random.stateless_uniform([num], seed).numpy() for num, seed in parts])


def test_length_arithmetic_is_t5s(golden):
    for inputs_length, noise_density, mean_noise_span_length, raw_length, targets_length in read(
        golden, "random_spans_helper.json"
    )["rows"]:
        objective = SpanCorruption(noise_density=noise_density, mean_noise_span_length=mean_noise_span_length)
        assert objective.plan(inputs_length) == (raw_length, targets_length)
        assert objective.raw_length(inputs_length) == raw_length


def test_masks_are_t5s_for_the_same_random_numbers(golden):
    num_checked = 0
    for length, noise_density, mean_noise_span_length, seeds, mask in read(golden, "mask_direct.json")[
        "rows"
    ]:
        if mask.startswith("ERROR"):
            continue
        expected = np.array([digit == "1" for digit in mask])
        in_numpy = random_spans(
            length,
            uniforms_of(length, seeds, noise_density, mean_noise_span_length),
            noise_density=noise_density,
            mean_noise_span_length=mean_noise_span_length,
        )
        np.testing.assert_array_equal(in_numpy, expected)
        num_checked += 1
    assert num_checked == 496


def test_masks_in_tensorflow_are_t5s(golden):
    function = tf.function(preprocessors.random_spans, reduce_retracing=True)
    for length, noise_density, mean_noise_span_length, seeds, mask in read(golden, "mask_direct.json")[
        "rows"
    ]:
        if mask.startswith("ERROR"):
            continue
        arguments = (
            tf.constant(length),
            tf.constant(seeds),
            tf.constant(noise_density),
            tf.constant(mean_noise_span_length),
        )
        found = "".join("01"[int(bit)] for bit in function(*arguments).numpy())
        assert found == mask


@pytest.mark.parametrize("name", OBJECTIVES)
def test_examples_are_t5s_for_the_same_seeds(golden, name):
    reference = read(golden, "exact_denoise.json")
    objective = SpanCorruption(noise_density=OBJECTIVES[name][0], mean_noise_span_length=OBJECTIVES[name][1])
    sequences = datasets_of(reference["sequences"])
    with seqio.map_seed_manager(reference["map_seed"]):
        found = preprocessors.denoise(sequences, features_of(reference), objective.denoising)
        examples = list(found.as_numpy_iterator())
    for example, expected in zip(examples, reference["objectives"][name]["out"], strict=True):
        assert example["inputs"].tolist() == expected["inputs"]
        assert example["targets"].tolist() == expected["targets"]


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    ("task", "together", "lengths"),
    [
        ("span_corruption", 128, {"inputs": 512, "targets": 114}),
        ("span_corruption_128", 128, {"inputs": 128, "targets": 32}),
        ("span_corruption_nomerge", 1, {"inputs": 512, "targets": 114}),
    ],
)
def test_whole_task_is_t5s(golden, task, together, lengths, cached):
    reference = read(golden, "exact_task_level.json")
    placeholder = "with" if cached else "no"
    expected = reference["tasks"][f"{task}/{placeholder}_cache_placeholder_at_index_2"]["out"]

    steps = [*preprocessors.span_corruption(SpanCorruption(), together=together), preprocessors.append_end]
    found = task_examples(reference, steps, lengths, cached=cached)
    for example, wanted in zip(found, expected, strict=True):
        assert example["inputs"].tolist() == wanted["inputs"]
        assert example["targets"].tolist() == wanted["targets"]


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
    expected = read(golden, "stats_200.json")["span_15_3"]
    rng = np.random.default_rng(0)
    mask = random_spans(
        568, rng.random((2000, uniforms_needed(568))), noise_density=0.15, mean_noise_span_length=3.0
    )
    assert abs(mask.mean() - expected["noise_density_mean_568"]) < 1e-9
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(int), axis=1)
    lengths = np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]
    found = np.bincount(lengths, minlength=8)[1:8] / len(lengths)
    histogram = expected["span_len_hist"]
    counts = np.array([histogram[str(length)] for length in range(1, 8)])
    np.testing.assert_allclose(found, counts / sum(histogram.values()), atol=0.02)


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
