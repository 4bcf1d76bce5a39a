"""The order of prediction says in one number a token what masks say in one a pair."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import t5x_like
from t5x_like.batch import Batch
from t5x_like.model.layers.masks import (
    AttentionDirection,
    combine_masks,
    direction_mask,
    rank_mask,
    segment_mask,
    strict_rank_mask,
)
from tests.model.zoo.tiny_models import LENGTH, TINY, VOCAB_SIZE
from tests.references import read_arrays
from tests.slow_cases import slow_except

TOKENS = np.random.default_rng(0).integers(0, VOCAB_SIZE, (2, LENGTH)).astype(np.int32)
PLACES = np.arange(LENGTH, dtype=np.int32)


def ranks_for(look: AttentionDirection, source: int, total: int, length: int) -> np.ndarray:
    """What an objective writes for one of UniLM's ways of looking."""
    places = np.arange(length)
    return {
        AttentionDirection.BIDIRECTIONAL: np.zeros(length, int),
        AttentionDirection.LEFT_TO_RIGHT: places,
        AttentionDirection.RIGHT_TO_LEFT: np.maximum(total - 1 - places, 0),
        AttentionDirection.SEQUENCE_TO_SEQUENCE: np.maximum(places - source + 1, 0),
    }[look].astype(np.int32)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(list(AttentionDirection)), st.integers(0, 9), st.integers(1, 9))
def test_ranks_say_what_unilms_masks_say(look: AttentionDirection, source: int, total: int) -> None:
    source = min(source, total)
    ranks = jnp.asarray(ranks_for(look, source, total, 9))[None]
    segment_ids = jnp.asarray(np.arange(9) < total, jnp.int32)[None]
    seen = combine_masks(rank_mask(ranks), segment_mask(segment_ids, segment_ids))
    assert seen is not None
    wanted = direction_mask(jnp.array([look]), jnp.array([source]), jnp.array([total]), length=9)
    np.testing.assert_array_equal(seen[0, 0, :total], wanted[0, :total])


@settings(max_examples=50, deadline=None)
@given(st.permutations(range(8)), st.integers(0, 8))
def test_targets_see_what_is_no_target_and_targets_before_them(order: list[int], num_targets: int) -> None:
    targets = order[:num_targets]
    ranks = np.zeros((1, 8), np.int32)
    ranks[0, targets] = 1 + np.arange(num_targets)
    seen = np.asarray(strict_rank_mask(jnp.asarray(ranks)))[0, 0]
    for query in range(8):
        known = set(order[num_targets:])
        if query in targets:
            known |= set(targets[: targets.index(query)])
        assert set(np.flatnonzero(seen[query])) == known


def scores(name: str, **streams: np.ndarray) -> np.ndarray:
    model = TINY[name].build(jax.random.key(0))
    batch = Batch(**{field: jnp.asarray(array) for field, array in streams.items()})
    return np.asarray(jax.jit(lambda model, batch: model(batch).logits)(model, batch))


@pytest.mark.parametrize("look", slow_except(AttentionDirection, [AttentionDirection(0)]))
def test_an_encoder_reads_ranks_as_it_reads_masks(look: AttentionDirection) -> None:
    segment_ids = np.tile(PLACES < 10, (2, 1)).astype(np.int32)
    mask = direction_mask(jnp.full(2, look), jnp.full(2, 4), jnp.full(2, 10), length=LENGTH)
    inputs = {"encoder_input_tokens": TOKENS, "encoder_segment_ids": segment_ids}
    by_mask = scores("bert", **inputs, attention_mask=np.asarray(mask))
    by_ranks = scores("bert", **inputs, ranks=np.tile(ranks_for(look, 4, 10, LENGTH), (2, 1)))
    np.testing.assert_allclose(by_ranks[:, :10], by_mask[:, :10], atol=1e-6)
    if look != AttentionDirection.BIDIRECTIONAL:
        assert np.abs(by_ranks - scores("bert", **inputs))[:, :10].max() > 1e-3


def test_local_layers_of_an_encoder_obey_ranks() -> None:
    ranks = np.tile(PLACES, (2, 1))
    before = scores("modernbert", encoder_input_tokens=TOKENS, ranks=ranks)
    other = np.where(PLACES == 6, (TOKENS + 1) % VOCAB_SIZE, TOKENS)
    after = scores("modernbert", encoder_input_tokens=other, ranks=ranks)
    moved = np.abs(after - before).max((0, 2)) > 1e-6
    assert not moved[:6].any()
    assert moved[6]


def test_ranks_replace_a_decoders_causal_mask() -> None:
    causal = scores("gpt2", decoder_input_tokens=TOKENS)
    ranks = np.tile(PLACES, (2, 1))
    np.testing.assert_allclose(scores("gpt2", decoder_input_tokens=TOKENS, ranks=ranks), causal, atol=1e-6)
    prefix = np.tile(PLACES < 5, (2, 1)).astype(np.int32)
    by_prefix = scores("gpt2", decoder_input_tokens=TOKENS, prefix=prefix)
    by_ranks = scores("gpt2", decoder_input_tokens=TOKENS, ranks=np.maximum(ranks - 4, 0))
    np.testing.assert_allclose(by_ranks, by_prefix, atol=1e-6)
    assert np.abs(by_prefix - causal).max() > 1e-3


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_ranks_do_not_reach_into_other_examples(name: str) -> None:
    stream = "decoder" if name == "gpt2" else "encoder"
    segment_ids = np.tile(np.where(PLACES < 6, 1, 2), (2, 1)).astype(np.int32)
    inputs = {f"{stream}_segment_ids": segment_ids, "ranks": np.zeros_like(TOKENS)}
    before = scores(name, **inputs, **{f"{stream}_input_tokens": TOKENS})
    other = np.where(PLACES == 2, (TOKENS + 1) % VOCAB_SIZE, TOKENS)
    moved = np.abs(scores(name, **inputs, **{f"{stream}_input_tokens": other}) - before).max((0, 2)) > 1e-6
    np.testing.assert_array_equal(moved, PLACES < 6)


@pytest.mark.parametrize("name", ["xlnet", "xlnet_variants"])
def test_xlnets_recorded_permutation_is_an_order_of_ranks(golden: Path, name: str) -> None:
    recorded = read_arrays(golden / "models" / name / "io.npz")
    targets = recorded["in_target_mapping"].argmax(-1)
    ranks = np.zeros(recorded["in_input_ids_a"].shape, np.int32)
    np.put_along_axis(ranks, targets, np.arange(1, 1 + targets.shape[1], dtype=np.int32)[None], axis=1)
    allowed = np.asarray(strict_rank_mask(jnp.asarray(ranks)))[:, 0]
    np.testing.assert_array_equal(allowed, recorded["in_perm_mask"] == 0)
    batch = Batch(
        encoder_input_tokens=jnp.asarray(recorded["in_input_ids_a"], jnp.int32),
        token_types=jnp.asarray(recorded["in_token_type_ids_a"], jnp.int32),
        ranks=jnp.asarray(ranks),
    )
    logits = np.asarray(t5x_like.from_pretrained(golden / "models" / name).model(batch).logits)
    result = np.take_along_axis(logits, targets[..., None], axis=1)[
        ..., : recorded["out_perm_logits"].shape[-1]
    ]
    np.testing.assert_allclose(result, recorded["out_perm_logits"], atol=2e-5)
