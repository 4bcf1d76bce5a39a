"""Sequence-to-sequence fine-tuning of an encoder: what is masked, and what each token attends to."""

from collections import Counter
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model.layers.masks import rank_mask
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.masked_targets import MaskedTargets
from t5x_like.text.objectives.objective import Example, Lengths
from t5x_like.text.objectives.random_bits import seeds_of_rows
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]
CLS, SEP, MASK = 2, 3, 4
KEY = np.array([1, 2], np.uint64)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text("\n".join(PIECES) + "\n")
    return str(file)


@pytest.fixture(scope="module")
def ids(vocabulary):
    return ids_of(open_tokenizer(vocabulary, 0))


def made(objective, sources, targets, ids):
    pairs = [
        Example(inputs=np.array([*source, SEP], np.int32), targets=np.array([*target, SEP], np.int32))
        for source, target in zip(sources, targets, strict=True)
    ]
    return objective.make(pairs, seeds_of_rows(KEY, np.arange(len(pairs))), ids)


def test_a_row_is_source_and_target_between_special_ids(ids):
    (row,) = made(MaskedTargets(mask_rate=1.0, random_rate=0.0), [[5, 6]], [[7, 8, 9]], ids)
    assert row.targets.tolist() == [CLS, 5, 6, SEP, 7, 8, 9, SEP]
    assert row.token_types.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert row.ranks.tolist() == [0, 0, 0, 0, 1, 2, 3, 4]
    assert row.weights.sum() == 3  # 0.7 of the target's three tokens and its end
    masked = row.weights > 0
    assert not masked[:4].any()
    assert (row.inputs == np.where(masked, MASK, row.targets)).all()


def test_the_source_is_seen_by_all_and_the_target_by_what_follows(ids):
    (row,) = made(MaskedTargets(), [[5, 6, 7]], [[8, 9]], ids)
    allowed = np.asarray(rank_mask(jnp.asarray(row.ranks)[None]))[0, 0]
    num_source = 5
    for query in range(len(row.targets)):
        for key in range(len(row.targets)):
            wanted = key < num_source or (query >= num_source and key <= query)
            assert allowed[query, key] == wanted, (query, key)


@pytest.mark.parametrize("density", [0.2, 0.7])
def test_each_target_has_its_share_of_masks_anywhere_also_at_its_end(ids, density):
    sizes = [1, 3, 9] * 400
    rows = made(MaskedTargets(noise_density=density), [[5]] * len(sizes), [[6] * size for size in sizes], ids)
    places = Counter()
    for size, row in zip(sizes, rows, strict=True):
        assert row.weights.sum() == max(round(density * (size + 1)), 1)
        if size == 9:
            places.update(np.flatnonzero(row.weights).tolist())
    assert set(places) == set(range(3, 13))
    assert max(places.values()) < 1.5 * min(places.values())
    replaced = Counter(
        "mask" if token == MASK else "kept" if token == wanted else "random"
        for row in rows
        for token, wanted, weight in zip(row.inputs, row.targets, row.weights, strict=True)
        if weight
    )
    shares = {name: count / sum(replaced.values()) for name, count in replaced.items()}
    assert shares["mask"] == pytest.approx(0.8, abs=0.05)
    assert shares["random"] == pytest.approx(0.09, abs=0.04)


def test_rows_too_short_and_vocabularies_without_a_mask_are_refused(ids):
    assert MaskedTargets().limits(Lengths(16, 5), ids) == Lengths(10, 5)
    with pytest.raises(
        ValueError, match=r"inputs_length=8 have no room for a source next to targets_length=6.* 9 or"
    ):
        MaskedTargets().limits(Lengths(8, 6), ids)
    with pytest.raises(ValueError, match="the vocabulary has no id for mask"):
        MaskedTargets().limits(Lengths(16, 5), replace(ids, mask=None))
    with pytest.raises(ValueError, match=r"noise_density must lie between 0 and 1, got 1\.5"):
        MaskedTargets(noise_density=1.5)


@pytest.fixture(scope="module")
def config(vocabulary, tmp_path_factory):
    file = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    lines = [f"{'a b c d'[: 1 + 2 * (index % 4)]}\t{'efghij'[index % 6]}" for index in range(40)]
    file.write_text("\n".join(["one\tother", *lines]) + "\n")
    task = TextTask(
        name="written_letters",
        vocabulary=vocabulary,
        num_sentinels=0,
        files={"train": str(file)},
        input_template="{one}",
        target_template="{other}",
    )
    registry.register([task])
    return LoaderConfig(
        mixture=task.name,
        batch_size=4,
        inputs_length=16,
        targets_length=4,
        layout="encoder",
        masked_targets=MaskedTargets(),
    )


def test_batches_are_packed_and_masked_anew_in_each_epoch(config):
    assert config.labels(registry.resolve(config.mixture)).head is None
    loader = build_loader(config)
    seen = {}
    for _ in range(12):
        batch = next(loader)
        assert batch.decoder_input_tokens is None
        assert batch.encoder_segment_ids.max() > 1
        for row in range(4):
            for segment in range(1, batch.encoder_segment_ids[row].max() + 1):
                inside = batch.encoder_segment_ids[row] == segment
                text = tuple(batch.target_tokens[row][inside].tolist())
                seen.setdefault(text, set()).add(tuple(batch.encoder_input_tokens[row][inside].tolist()))
                assert batch.encoder_positions[row][inside].tolist() == list(range(inside.sum()))
    assert max(map(len, seen.values())) > 1


def test_the_same_batches_follow_after_a_restart(config):
    loader = build_loader(config)
    next(loader)
    state = loader.state()
    expected = next(loader)
    again = build_loader(config)
    again.restore(state)
    for one, other in zip(next(again), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_masked_targets_of_another_layout_are_refused():
    with pytest.raises(ValueError, match=r"masked_targets is for encoders.*set layout='encoder'"):
        LoaderConfig(
            mixture="x", batch_size=1, inputs_length=8, targets_length=4, masked_targets=MaskedTargets()
        )
