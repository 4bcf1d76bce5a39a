from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.references.objective_examples import examples_of_task
from t5x_like.text.objectives.cutting import lay_window, texts_of
from t5x_like.text.objectives.objective import Lengths, lengths_of
from t5x_like.text.objectives.prefix_lm import PrefixLM
from t5x_like.text.objectives.random_bits import seeds_of_rows
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.objectives.ul2 import TABLE_1, UL2, Denoiser
from t5x_like.text.seqio_bridge.objective_preprocessors import seqio_preprocessors
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds
from tests.text.objectives.t5_objectives import assert_rows_are_independent, make_one

IDS = VocabularyIds(
    vocab_size=32_100,
    pad=0,
    eos=1,
    bos=32_003,
    unk=2,
    cls=32_001,
    sep=32_002,
    mask=32_000,
    first_sentinel=32_099,
    num_sentinels=96,
)
MODES = {"R": 32_004, "S": 32_005, "X": 32_006}
KEY = np.array([3, 4], np.uint64)


def window_of(lengths):
    numbers = iter(range(sum(lengths)))
    records = [{"tokens": np.array([3 + next(numbers) % 30_000 for _ in range(n)])} for n in lengths]
    return lay_window(records, chunks=np.zeros(len(lengths), np.uint64))


def made_of(objective, window, lengths, ids=IDS):
    cuts = objective.cut(window, lengths, KEY)
    numbers = np.arange(len(cuts.starts))
    texts = texts_of(window, cuts, numbers)
    return cuts, texts, objective.make(texts, seeds_of_rows(KEY, numbers), lengths, ids)


def restored(example):
    """Mode, and the tokens that the example was made of."""
    mode, *inputs = example.inputs[:-1].tolist()
    targets = example.targets[:-1].tolist()
    if mode == MODES["S"]:
        return mode, inputs + targets
    spans: dict[int, list[int]] = {}
    for token in targets:
        if token > 32_000:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    return mode, [kept for token in inputs for kept in (spans.pop(token) if token > 32_000 else [token])]


def test_the_denoisers_are_table_1():
    assert len(TABLE_1) == 7
    spans = [
        (each.mode, each.objective.mean_noise_span_length, each.objective.noise_density)
        for each in TABLE_1
        if isinstance(each.objective, SpanCorruption)
    ]
    assert spans == [
        ("R", 3.0, 0.15),
        ("R", 8.0, 0.15),
        ("X", 3.0, 0.5),
        ("X", 8.0, 0.5),
        ("X", 64.0, 0.15),
        ("X", 64.0, 0.5),
    ]
    assert [each.objective for each in TABLE_1 if each.mode == "S"] == [PrefixLM(noise_density=0.25)]


@pytest.mark.parametrize("lengths", [Lengths(512, 512), Lengths(512, 114), Lengths(64, 80), Lengths(16, 16)])
def test_examples_fit_fill_the_limits_and_keep_every_token(lengths):
    objective = UL2()
    objective.check(lengths, IDS)
    window = window_of([700, 3, 50_000, 1, 120] * 4)
    cuts, texts, examples = made_of(objective, window, lengths)
    assert (cuts.ends - cuts.starts).sum() == len(window.tokens)
    for text, label, example in zip(texts, cuts.labels.tolist(), examples, strict=True):
        mode, tokens = restored(example)
        assert mode == MODES[TABLE_1[label].mode]
        assert tokens == text.tokens.tolist()
        assert (example.inputs[-1], example.targets[-1]) == (1, 1)
    made = lengths_of(examples)
    assert (made <= lengths).all()
    for label, size in enumerate(objective.text_lengths(lengths)):
        whole = (cuts.labels == label) & ((cuts.ends - cuts.starts)[:, 0] == size)
        if isinstance(TABLE_1[label].objective, SpanCorruption) and size != 561:  # 561 tokens have 93 spans
            assert (made[whole] >= np.array(lengths) - 2).any()


def test_denoisers_come_as_often_as_their_rates_say():
    window = window_of([400] * 2000)
    cuts = UL2().cut(window, Lengths(64, 64), KEY)
    assert abs(np.bincount(cuts.labels) / len(cuts.labels) - 1 / 7).max() < 0.01
    uneven = UL2(denoisers=(TABLE_1[0], Denoiser(mode="S", objective=PrefixLM(), rate=3.0)))
    cuts = uneven.cut(window, Lengths(64, 64), KEY)
    assert abs(np.mean(cuts.labels) - 0.75) < 0.01
    seeds = np.stack([np.arange(3000), np.arange(3000)], axis=1).astype(np.uint64)
    texts = [texts_of(window, cuts, [0])[0]._replace(label=-1)] * 3000
    modes = [example.inputs[0] for example in uneven.make(texts, seeds, Lengths(64, 64), IDS)]
    assert abs(np.mean(np.array(modes) == MODES["S"]) - 0.75) < 0.03


def test_other_keys_give_other_cuts_and_the_same_key_the_same():
    window, lengths = window_of([5000] * 3), Lengths(64, 64)
    first, again = (UL2().cut(window, lengths, KEY) for _ in range(2))
    other = UL2().cut(window, lengths, KEY + np.uint64(1))
    np.testing.assert_array_equal(first.labels, again.labels)
    assert first.labels[:50].tolist() != other.labels[:50].tolist()


@given(length=st.integers(2, 60), seed=st.integers(0, 2**63), label=st.integers(0, 6))
@settings(max_examples=60, deadline=None)
def test_any_denoiser_keeps_every_token(length, seed, label):
    tokens = np.arange(3, 3 + length)
    example = make_one(UL2(), tokens, Lengths(128, 128), IDS, seed=(seed, 1), label=label)
    assert restored(example) == (MODES[TABLE_1[label].mode], tokens.tolist())


def test_rows_do_not_depend_on_each_other():
    assert_rows_are_independent(UL2(), [200, 200, 17, 200, 2], Lengths(256, 256), IDS)


def test_a_text_too_long_for_its_denoiser_is_cut_to_fit():
    for seed in range(20):
        example = make_one(UL2(), np.arange(3, 503), Lengths(64, 64), IDS, seed=(seed, 1))
        assert max(len(example.inputs), len(example.targets)) <= 64


def test_modes_are_the_vocabularys_own_words_or_none():
    objective = UL2(mode_ids={"R": (7, 8), "S": (9,), "X": (10, 11)})
    lengths = Lengths(64, 64)
    objective.check(lengths, replace(IDS, num_sentinels=93))
    _, _, examples = made_of(objective, window_of([3000]), lengths)
    begins = {tuple(example.inputs[:2].tolist()) for example in examples}
    assert {(7, 8), (10, 11)} <= begins
    assert any(begin[0] == 9 for begin in begins)
    assert lengths_of(examples).max() <= 64
    _, _, examples = made_of(UL2(mode_ids=None), window_of([3000]), lengths)
    assert not {example.inputs[0] for example in examples} & set(MODES.values())


def test_a_seqio_task_refuses_a_vocabulary_without_sentinels():
    reference = {"docs": [list(range(3, 900))] * 30, "seqio_task_seed": 1}
    with pytest.raises(ValueError, match="the vocabulary has 0 sentinels"):
        examples_of_task(reference, seqio_preprocessors(UL2()), {"inputs": 64, "targets": 64}, cached=True)


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="at least 16 each"):
        UL2().check(Lengths(3, 64), IDS)
    with pytest.raises(ValueError, match="has 20 sentinels, of which 17 are left for spans; 93 are needed"):
        UL2().check(Lengths(512, 512), replace(IDS, num_sentinels=20))
    with pytest.raises(ValueError, match="no ids of X"):
        UL2(mode_ids={"R": (3,), "S": (4,)})
    with pytest.raises(ValueError, match="'sentinels' or None"):
        UL2(mode_ids="words")
    with pytest.raises(ValueError, match="one of R, S, X"):
        Denoiser(mode="T", objective=PrefixLM())
    with pytest.raises(ValueError, match="rate must be above 0"):
        Denoiser(mode="S", objective=PrefixLM(), rate=0.0)
    with pytest.raises(ValueError, match="no denoisers"):
        UL2(denoisers=())
