import zlib
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.model.layers.masks import strict_rank_mask
from t5x_like.text import registry
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.objective import Lengths, Text
from t5x_like.text.objectives.permutation_lm import PermutationLM
from t5x_like.text.seqio_bridge import registration
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

CLS, SEP = 5002, 5003
IDS = VocabularyIds(
    vocab_size=5101, pad=0, eos=1, unk=2, cls=CLS, sep=SEP, first_sentinel=5100, num_sentinels=90
)
LENGTHS = Lengths(512, 2)


def text(size, second=None):
    return Text(np.arange(3, 3 + size, dtype=np.int32), size if second is None else second)


def seeds_of(count, seed=0):
    return np.stack([np.full(count, seed), np.arange(count)], axis=1).astype(np.uint64)


def spans_of(is_target):
    edges = np.diff(np.pad(is_target, 1).astype(int))
    return np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)


def test_texts_are_separated_and_followed_by_the_class_token():
    (example,) = PermutationLM().make([text(5, 2)], seeds_of(1), LENGTHS, IDS)
    assert example.inputs.tolist() == [3, 4, SEP, 5, 6, 7, SEP, CLS]
    assert example.token_types.tolist() == [0, 0, 0, 1, 1, 1, 1, 2]
    (example,) = PermutationLM(two_segments=False).make([text(3)], seeds_of(1), LENGTHS, IDS)
    assert example.inputs.tolist() == [3, 4, 5, SEP, CLS]
    assert example.token_types.tolist() == [0, 0, 0, 0, 2]


@given(
    size=st.integers(1, 300),
    split=st.floats(0, 1),
    partial=st.integers(1, 8),
    max_span=st.integers(1, 6),
    seed=st.integers(0, 2**62),
)
@settings(deadline=None)
def test_one_token_in_k_is_predicted_each_with_a_rank_of_its_own(size, split, partial, max_span, seed):
    objective = PermutationLM(partial=partial, max_span=max_span)
    second = 1 + int(split * (size - 1))
    (example,) = objective.make([text(size, second)], seeds_of(1, seed), LENGTHS, IDS)
    is_target = example.weights > 0
    assert (example.ranks > 0).tolist() == is_target.tolist()
    num_targets = int(is_target.sum())
    assert sorted(example.ranks[is_target].tolist()) == list(range(1, num_targets + 1))
    assert max(size // partial, 1) - max_span < num_targets <= max(size // partial, 1)
    assert not set(example.inputs[is_target].tolist()) & {SEP, CLS}
    np.testing.assert_array_equal(example.inputs, example.targets)
    assert example.inputs[example.inputs < 5000].tolist() == list(range(3, 3 + size))


def test_spans_have_one_to_five_tokens_equally_often_and_any_place():
    texts = [text(509, 200)] * 600
    examples = PermutationLM().make(texts, seeds_of(600), LENGTHS, IDS)
    masks = np.stack([example.weights > 0 for example in examples])
    # Stretches of 6 to 30 tokens leave spans apart but for those that end and begin at a common border.
    lengths = np.concatenate([spans_of(mask) for mask in masks])
    shares = np.bincount(lengths, minlength=6)[1:6] / len(lengths)
    np.testing.assert_allclose(shares, 0.2, atol=0.03)
    assert np.mean(lengths <= 5) > 0.95
    assert abs(masks.sum() / 600 / 509 - 1 / 6) < 0.005
    orders = np.stack([example.ranks[example.ranks > 0][:2] for example in examples])
    assert abs(np.mean(orders[:, 0] < orders[:, 1]) - 0.5) < 0.06


def test_attention_masks_are_those_of_the_docstring():
    ranks = jnp.array([[0, 2, 1, 3]], jnp.int32)
    seen = np.asarray(strict_rank_mask(ranks))[0, 0]
    assert seen[2].tolist() == [True, False, False, False]
    assert seen[1].tolist() == [True, False, True, False]
    assert seen[3].tolist() == [True, True, True, False]


def test_rows_do_not_depend_on_each_other():
    texts, seeds = [text(300, 100), text(17, 4), text(1), text(300, 100)], seeds_of(4)
    together = PermutationLM().make(texts, seeds, LENGTHS, IDS)
    for row in range(4):
        (alone,) = PermutationLM().make(texts[row : row + 1], seeds[row : row + 1], LENGTHS, IDS)
        for left, right in zip(alone, together[row], strict=True):
            np.testing.assert_array_equal(left, right)
    assert not np.array_equal(together[0].ranks, together[3].ranks)


@pytest.fixture
def task(tmp_path, request):
    file = tmp_path / "text.txt"
    file.write_text("".join(f"In year {index} it rained and the river rose\n" for index in range(60)))
    name = f"permuted_{zlib.crc32(request.node.name.encode())}"
    registry.register(
        [
            PretrainingTask(
                name=name, vocabulary="bytes", files={"train": str(file)}, objective=PermutationLM()
            )
        ]
    )
    return name


def test_the_loader_gives_full_rows_with_ranks(task):
    batch = next(build_loader(LoaderConfig(mixture=task, batch_size=4, inputs_length=128, targets_length=2)))
    assert batch.decoder_input_tokens is None
    np.testing.assert_array_equal(batch.ranks > 0, batch.loss_weights > 0)
    assert set(np.unique(batch.token_types)) == {0, 1, 2}
    assert not batch.loss_weights[batch.encoder_segment_ids == 0].any()


@pytest.mark.seqio
def test_seqio_gives_examples_from_a_task(task):
    dataset = registration.get_task(task).get_dataset(
        {"inputs": 64, "targets": 64}, "train", shuffle=False, seed=3
    )
    rows = list(dataset.as_numpy_iterator())
    assert len(rows) > 20
    assert all(len(row["inputs"]) == len(row["ranks"]) <= 64 for row in rows)


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="partial must be at least 1"):
        PermutationLM(partial=0)
    with pytest.raises(ValueError, match="max_span must be at least 1 token, got 0"):
        PermutationLM(max_span=0)
    with pytest.raises(ValueError, match=r"random_rate must lie between 0 and 1, got 1.5"):
        PermutationLM(random_rate=1.5)
    with pytest.raises(ValueError, match="no id for cls, sep; raise num_sentinels"):
        PermutationLM().check(LENGTHS, replace(IDS, cls=None, sep=None))
    with pytest.raises(
        ValueError, match=r"inputs_length of 8 is too short for 6 tokens.* set it to 9 or more"
    ):
        PermutationLM().check(Lengths(8, 2), IDS)
