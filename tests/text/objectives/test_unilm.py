import zlib
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.model.layers.masks import AttentionDirection, direction_mask, rank_mask
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.objective import Lengths, Text
from t5x_like.text.objectives.unilm import (
    BIDIRECTIONAL,
    BIDIRECTIONAL_RANDOM,
    LEFT_TO_RIGHT,
    RIGHT_TO_LEFT,
    SOURCE_TO_TARGET,
    UniLM,
)
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

CLS, SEP, MASK = 5002, 5003, 5004
IDS = VocabularyIds(
    vocab_size=5101,
    pad=0,
    eos=1,
    unk=2,
    cls=CLS,
    sep=SEP,
    mask=MASK,
    first_sentinel=5100,
    num_sentinels=90,
)
LENGTHS = Lengths(512, 2)


def text(size, second, label):
    return Text(np.arange(3, 3 + size, dtype=np.int32), second, label)


def seeds_of(count, seed=0):
    return np.stack([np.full(count, seed), np.arange(count)], axis=1).astype(np.uint64)


def test_ranks_encode_each_attention_pattern():
    texts = [
        text(4, 2, BIDIRECTIONAL),
        text(2, 2, LEFT_TO_RIGHT),
        text(2, 2, RIGHT_TO_LEFT),
        text(4, 2, SOURCE_TO_TARGET),
    ]
    made = UniLM(types_by_pattern=True).make(texts, seeds_of(4), LENGTHS, IDS)
    assert made[0].targets.tolist() == [CLS, 3, 4, SEP, 5, 6, SEP]
    assert made[1].targets.tolist() == [CLS, 3, 4, SEP]
    assert [example.ranks.tolist() for example in made] == [
        [0] * 7,
        [0, 1, 2, 3],
        [3, 2, 1, 0],
        [0, 0, 0, 0, 1, 2, 3],
    ]
    assert [example.token_types.tolist() for example in made] == [
        [0, 0, 0, 0, 1, 1, 1],
        [2] * 4,
        [3] * 4,
        [4, 4, 4, 4, 5, 5, 5],
    ]
    (plain,) = UniLM().make(texts[3:], seeds_of(1), LENGTHS, IDS)
    assert plain.token_types.tolist() == [0, 0, 0, 0, 1, 1, 1]


LOOKS = {
    BIDIRECTIONAL: AttentionDirection.BIDIRECTIONAL,
    LEFT_TO_RIGHT: AttentionDirection.LEFT_TO_RIGHT,
    RIGHT_TO_LEFT: AttentionDirection.RIGHT_TO_LEFT,
    SOURCE_TO_TARGET: AttentionDirection.SEQUENCE_TO_SEQUENCE,
    BIDIRECTIONAL_RANDOM: AttentionDirection.BIDIRECTIONAL,
}


@pytest.mark.parametrize("kind", LOOKS)
def test_ranks_give_the_papers_masks(kind):
    (example,) = UniLM().make([text(9, 4, kind)], seeds_of(1), LENGTHS, IDS)
    length = len(example.inputs)
    expected = direction_mask(*(jnp.array([each]) for each in (int(LOOKS[kind]), 6, length)), length=length)
    np.testing.assert_array_equal(np.asarray(rank_mask(jnp.asarray(example.ranks[None])))[:, 0], expected)


@given(
    size=st.integers(2, 300),
    split=st.floats(0, 1),
    kind=st.sampled_from(list(LOOKS)),
    seed=st.integers(0, 2**62),
)
@settings(deadline=None)
def test_fifteen_percent_are_predicted_and_nothing_else_changes(size, split, kind, seed):
    second = 1 + int(split * (size - 1))
    (example,) = UniLM().make([text(size, second, kind)], seeds_of(1, seed), LENGTHS, IDS)
    is_target = example.weights > 0
    assert example.targets[example.targets < 5000].tolist() == list(range(3, 3 + size))
    np.testing.assert_array_equal(example.inputs[~is_target], example.targets[~is_target])
    assert not set(example.targets[is_target].tolist()) & {CLS, SEP}
    assert is_target.sum() == min(max(round(0.15 * len(example.targets)), 1), size)


def test_masks_have_the_papers_proportions():
    texts = [text(509, 300, BIDIRECTIONAL)] * 500
    made = UniLM().make(texts, seeds_of(500), LENGTHS, IDS)
    inputs, targets, weights = (
        np.concatenate([getattr(each, name) for each in made]) for name in ("inputs", "targets", "weights")
    )
    chosen = weights > 0
    assert abs(np.mean(inputs[chosen] == MASK) - 0.8) < 0.01
    assert abs(np.mean(inputs[chosen] == targets[chosen]) - 0.1) < 0.01
    single = UniLM(shares=(1.0, 0.0, 0.0)).make(texts, seeds_of(500), LENGTHS, IDS)
    together = [np.mean(np.diff(np.flatnonzero(example.weights)) == 1) for example in made]
    apart = [np.mean(np.diff(np.flatnonzero(example.weights)) == 1) for example in single]
    # Of 13 tokens, 8 are alone, 2 in a pair and 3 in a triple: 3 of 13 follow one of their own unit.
    assert abs((np.mean(together) - 3 / 13) / (1 - 3 / 13) - np.mean(apart)) < 0.02


def test_labels_mark_whether_the_second_segment_follows():
    texts = [text(8, 4, kind) for kind in LOOKS]
    assert [example.label for example in UniLM().make(texts, seeds_of(5), LENGTHS, IDS)] == [0, -1, -1, -1, 1]
    without = UniLM(predicts_next=False)
    assert {example.label for example in without.make(texts, seeds_of(5), LENGTHS, IDS)} == {-1}
    assert "label" not in without.spec.fields


def test_rows_do_not_depend_on_each_other():
    texts = [
        text(300, 100, BIDIRECTIONAL),
        text(5, 2, SOURCE_TO_TARGET),
        text(1, 1, SOURCE_TO_TARGET),
        text(9, 9, 2),
    ]
    seeds = seeds_of(4)
    together = UniLM().make(texts, seeds, LENGTHS, IDS)
    for row in range(4):
        (alone,) = UniLM().make(texts[row : row + 1], seeds[row : row + 1], LENGTHS, IDS)
        for left, right in zip(alone, together[row], strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.fixture
def make_task(tmp_path, request):
    def make(objective):
        file = tmp_path / "text.txt"
        file.write_text("".join(f"In year {index} it rained and the river rose\n" for index in range(300)))
        name = f"unilm_{zlib.crc32(repr((request.node.name, objective)).encode())}"
        registry.register(
            [PretrainingTask(name=name, vocabulary="bytes", files={"train": str(file)}, objective=objective)]
        )
        return name

    return make


def test_the_loader_gives_every_kind_at_its_rate(make_task):
    config = LoaderConfig(mixture=make_task(UniLM()), batch_size=600, inputs_length=64, targets_length=2)
    batch = next(build_loader(config))
    assert (batch.encoder_segment_ids.max(axis=1) == 1).all()
    first, last = batch.ranks[:, 0], batch.ranks[np.arange(600), (batch.encoder_segment_ids > 0).sum(1) - 1]
    has_two = batch.token_types.max(axis=1) > 0
    results = [
        (first == 0) & (last == 0),
        ~has_two & (last > first),
        first > last,
        has_two & (last > first),
    ]
    np.testing.assert_allclose(np.mean(results, axis=1), [1 / 3, 1 / 6, 1 / 6, 1 / 3], atol=0.07)
    np.testing.assert_array_equal(batch.sequence_labels >= 0, results[0])
    assert abs(np.mean(batch.sequence_labels[results[0]]) - 0.5) < 0.12
    assert not batch.loss_weights[batch.encoder_segment_ids == 0].any()


def test_without_labels_rows_are_shared(make_task):
    name = make_task(UniLM(predicts_next=False))
    batch = next(build_loader(LoaderConfig(mixture=name, batch_size=4, inputs_length=64, targets_length=2)))
    assert batch.sequence_labels is None


@pytest.mark.seqio
def test_seqio_gives_examples_from_a_task(make_task):
    task = registration.get_task(make_task(UniLM()))
    rows = list(
        task.get_dataset({"inputs": 64, "targets": 64}, "train", shuffle=False, seed=3).as_numpy_iterator()
    )
    assert len(rows) > 100
    assert all(len(row["inputs"]) == len(row["ranks"]) <= 64 for row in rows)


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="noise_density must lie between 0 and 1, got 2"):
        UniLM(noise_density=2)
    with pytest.raises(ValueError, match="shares must not be negative, nor all 0"):
        UniLM(shares=(0, 0, 0))
    with pytest.raises(ValueError, match="no id for cls, sep"):
        UniLM().check(LENGTHS, replace(IDS, cls=None, sep=None))
    with pytest.raises(ValueError, match="set it to 5 or more"):
        UniLM().check(Lengths(4, 2), IDS)
