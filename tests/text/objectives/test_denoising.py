from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.references.objective_examples import check_masked_examples, check_seeded_examples, check_task
from benchmarks.references.objectives import check_statistics
from t5x_like.text.objectives.cutting import lay_window
from t5x_like.text.objectives.denoising import Denoising
from t5x_like.text.objectives.noise import IidNoise, MaskTokens, RegularNoise, SpanNoise
from t5x_like.text.objectives.objective import Lengths, Text, lengths_of
from t5x_like.text.seqio_bridge import preprocessors
from tests.slow_cases import slow_except
from tests.text.objectives.t5_objectives import (
    DENOISING,
    FIRST_SENTINEL,
    IDS,
    assert_rows_are_independent,
    make_one,
    read,
)

WIDE = Lengths(2000, 2000)
MANY_SENTINELS = replace(IDS, num_sentinels=2000)
NOISES = (
    IidNoise(noise_density=0.3),
    SpanNoise(noise_density=0.3),
    SpanNoise(roll=True),
    RegularNoise(noise_density=0.25),
)


@pytest.mark.parametrize("name", DENOISING)
def test_examples_are_t5s_for_the_same_seeds(golden, name):
    check_seeded_examples(read(golden, "exact_denoise.json"), name)


@pytest.mark.parametrize("name", DENOISING)
def test_training_gives_t5s_examples_for_its_masks(golden, name):
    check_masked_examples(read(golden, "exact_denoise.json"), name)


@pytest.mark.parametrize("cached", ["with", "no"])
def test_whole_iid_task_is_t5s(golden, cached):
    content, name = (
        read(golden, "exact_task_level.json"),
        f"iid_denoising/{cached}_cache_placeholder_at_index_2",
    )
    check_task(content, name, content["tasks"][name])


@pytest.mark.parametrize("name", sorted({*DENOISING} - {"regular_mask", "gathered", "random_token"}))
def test_statistics_are_t5s(golden, name):
    check_statistics(name, read(golden, "stats_200.json")[name])


@pytest.mark.parametrize("noise", NOISES)
@given(length=st.integers(2, 200), seed=st.integers(0, 2**63))
@settings(max_examples=25, deadline=None)
def test_sentinels_on_both_sides_keep_every_token(noise, length, seed):
    tokens = np.arange(3, 3 + length)
    example = make_one(Denoising(noise=noise), tokens, WIDE, MANY_SENTINELS, seed=(seed, 1))
    sides = [side[:-1].tolist() for side in example[:2]]
    assert example.inputs[-1] == example.targets[-1] == 1
    assert sorted(token for side in sides for token in side if token < 30_000) == tokens.tolist()
    for side in sides:
        sentinels = [token for token in side if token > 30_000]
        assert sentinels == list(range(FIRST_SENTINEL, FIRST_SENTINEL - len(sentinels), -1))


@pytest.mark.parametrize("name", DENOISING)
def test_rows_do_not_depend_on_each_other(name):
    # Of 900 tokens, the longest spans are more than one; a single one is always at the end.
    assert_rows_are_independent(DENOISING[name], [900, 900, 17, 900, 2, 1], Lengths(950, 950))


@pytest.mark.parametrize("name", DENOISING)
@pytest.mark.parametrize("limit", slow_except([8, 64, 511, 512], (8, 511)))
def test_every_text_fits_and_fills_the_limits(name, limit):
    objective, lengths = DENOISING[name], Lengths(limit, limit)
    text_length = objective.text_length(limit)
    window = lay_window([{"tokens": np.arange(3, 9000)}], chunks=np.zeros(1, np.uint64))
    cuts = objective.cut(window, lengths, np.zeros(2, np.uint64))
    assert (cuts.ends - cuts.starts).max() == text_length
    assert (cuts.ends - cuts.starts).sum() == 8997
    seeds = np.stack([np.arange(200), np.arange(200)], axis=1).astype(np.uint64)
    texts = [Text(np.arange(3, 3 + text_length, dtype=np.int32), text_length)] * 200
    made = lengths_of(objective.make(texts, seeds, lengths, MANY_SENTINELS))
    assert made.max() <= limit
    if "iid" not in name or objective.targets == "text":
        assert made[:, 0].max() >= limit - 2


def test_targets_too_long_for_the_limit_are_cut_and_ended():
    example = make_one(Denoising(noise=IidNoise(noise_density=0.9)), np.arange(3, 103), Lengths(101, 20))
    assert len(example.targets) == 20
    assert example.targets[-1] == 1


def test_bert_style_gives_a_tenth_of_the_noise_random_words():
    objective = Denoising(inputs=MaskTokens(random_rate=0.1), targets="text")
    words = np.full(500, 7, np.int32)
    seeds = np.stack([np.arange(400), np.arange(400)], axis=1).astype(np.uint64)
    examples = objective.make([Text(words, 500)] * 400, seeds, WIDE, IDS)
    inputs = np.stack([example.inputs[:-1] for example in examples])
    assert abs((inputs != 7).mean() - 0.15) < 0.003
    assert abs((inputs == FIRST_SENTINEL).sum() / (inputs != 7).sum() - 0.9) < 0.01
    drawn = inputs[(inputs != 7) & (inputs != FIRST_SENTINEL)]
    assert drawn.min() >= 3
    assert drawn.max() < 32_000


def test_random_words_are_any_but_special_ids():
    ids = replace(IDS, vocab_size=20, first_sentinel=19, num_sentinels=3, unk=None, eos=5, cls=9, mask=16)
    objective = Denoising(noise=IidNoise(noise_density=1.0), inputs="random", targets="text")
    example = make_one(objective, np.full(1900, 3), WIDE, ids)
    assert sorted(set(example.inputs[:-1].tolist())) == [1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 13, 14, 15]


def test_gathered_words_come_from_the_text():
    objective = Denoising(noise=IidNoise(noise_density=1.0), inputs="gathered", targets="text")
    example = make_one(objective, np.arange(100, 600), WIDE)
    result = example.inputs[:-1]
    assert set(result.tolist()) <= set(range(100, 600))
    assert len(set(result.tolist())) < 400  # with repetition: about 1 - 1/e of them


@given(st.lists(st.integers(3, 9), min_size=1, max_size=60), st.integers(0, 2**63))
@settings(max_examples=50, deadline=None)
def test_shuffled_noise_keeps_its_words_and_places(tokens, seed):
    objective = Denoising(noise=IidNoise(noise_density=0.5), inputs="shuffled", targets="text")
    is_noise = objective.noise.draw(len(tokens), np.array([[seed, 1]], np.uint64))[0]
    result = make_one(objective, tokens, WIDE, seed=(seed, 1)).inputs[:-1]
    assert result[~is_noise].tolist() == np.array(tokens)[~is_noise].tolist()
    assert sorted(result.tolist()) == sorted(tokens)


def test_more_spans_than_sentinels_repeat_the_last():
    ids = replace(IDS, num_sentinels=2)
    tokens, mask = np.arange(3, 10, dtype=np.int32)[None], np.array([[1, 0, 1, 0, 1, 0, 1]], bool)
    inputs, _ = Denoising().corrupt(tokens, mask, np.zeros((1, 2), np.uint64), WIDE, ids)
    assert inputs[0].tolist() == [32_099, 4, 32_098, 6, 32_098, 8, 32_098, 1]


def test_a_vocabulary_without_sentinels_masks_with_its_mask():
    ids = replace(IDS, num_sentinels=0, mask=4, first_sentinel=32_099)
    objective = Denoising(noise=IidNoise(noise_density=1.0), inputs=MaskTokens(), targets="text")
    objective.check(Lengths(64, 64), ids)
    assert make_one(objective, [7, 8], WIDE, ids).inputs.tolist() == [4, 4, 1]
    with pytest.raises(ValueError, match="neither sentinels nor a mask"):
        objective.check(Lengths(64, 64), replace(ids, mask=None))


def test_limits_and_vocabularies_that_do_not_do_are_refused_with_the_numbers_needed():
    with pytest.raises(ValueError, match="set targets_length to 143 or more"):
        Denoising().check(Lengths(512, 114), IDS)
    with pytest.raises(ValueError, match="66 sentinels are needed for inputs of 512, the vocabulary has 10"):
        Denoising().check(Lengths(512, 192), replace(IDS, num_sentinels=10))
    with pytest.raises(ValueError, match="too short"):
        Denoising().check(Lengths(2, 192), IDS)
    with pytest.raises(ValueError, match="inputs must be MaskTokens"):
        Denoising(inputs="masked")
    with pytest.raises(ValueError, match="targets must be one of text"):
        Denoising(targets="all")
    with pytest.raises(ValueError, match="random_rate must lie between"):
        MaskTokens(random_rate=1.1)
    steps = preprocessors.denoising(Denoising())
    with pytest.raises(ValueError, match="exceed the limit of 100"):
        steps[-1](None, {"inputs": 512, "targets": 100}, None)


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (lambda: IidNoise(noise_density=0.0), "share of the tokens"),
        (lambda: RegularNoise(noise_density=1.5), "share of the tokens"),
        (lambda: RegularNoise(shortest=3, longest=2), "shortest <= longest"),
        (lambda: SpanNoise(noise_density=1.0), "use IidNoise"),
        (lambda: SpanNoise(mean_noise_span_length=0.5), "at least 1 token"),
    ],
)
def test_impossible_noise_is_refused(noise, message):
    with pytest.raises(ValueError, match=message):
        noise()


@pytest.mark.parametrize("noise", NOISES)
def test_noise_has_its_density(noise):
    seeds = np.stack([np.arange(3000), np.arange(3000)], axis=1).astype(np.uint64)
    masks = noise.draw(300, seeds)
    assert abs(masks.mean() - noise.noise_density) < 0.01
    if isinstance(noise, SpanNoise):
        assert (masks.sum(1) == round(300 * noise.noise_density)).all()


def test_rolled_spans_lie_anywhere_and_others_at_the_end():
    seeds = np.stack([np.arange(3000), np.arange(3000)], axis=1).astype(np.uint64)
    assert SpanNoise().draw(100, seeds)[:, [0, -1]].mean(0).tolist() == [0.0, 1.0]
    assert np.abs(SpanNoise(roll=True).draw(100, seeds).mean(0) - 0.15).max() < 0.03


def test_regular_spans_are_as_long_and_as_far_from_each_other():
    seeds = np.stack([np.arange(50), np.arange(50)], axis=1).astype(np.uint64)
    for mask in RegularNoise(noise_density=0.25, shortest=2, longest=4).draw(100, seeds):
        edges = np.flatnonzero(np.diff(mask.astype(int)) == 1)
        span, period = mask[edges[0] + 1 : edges[1]].sum(), edges[1] - edges[0]
        assert (np.diff(edges) == period).all()
        assert 2 <= span <= 4
        assert period == 4 * span
