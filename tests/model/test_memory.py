"""What rows see of the batch before, and what they leave for the next."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model.families.segment_memory import Memory
from t5x_like.model.zoo.transfo_xl import TransfoXLConfig
from t5x_like.model.zoo.xlnet import XLNetConfig

TRANSFO_XL = TransfoXLConfig(
    vocab_size=32,
    model_dim=16,
    mlp_dim=24,
    num_heads=2,
    head_dim=8,
    num_layers=3,
    memory_length=12,
    embed_dim=16,
    init_stddev=0.3,
)
XLNET = XLNetConfig(
    vocab_size=32,
    model_dim=16,
    mlp_dim=24,
    num_heads=2,
    head_dim=8,
    num_layers=2,
    memory_length=8,
    init_stddev=0.3,
)
TOKENS = np.random.default_rng(0).integers(0, 32, (2, 12)).astype(np.int32)
CLOSE = {"rtol": 0, "atol": 2e-5}

run = jax.jit(lambda model, batch, memory: model(batch, memory=memory))


def segment(first: int, last: int, *, continues: list[int], **streams: np.ndarray) -> Batch:
    """A piece of the text as a decoder reads it."""
    return Batch(
        decoder_input_tokens=jnp.asarray(TOKENS[:, first:last]),
        continues=jnp.asarray(continues, jnp.int32),
        **{name: jnp.asarray(array, jnp.int32) for name, array in streams.items()},
    )


def built(config: TransfoXLConfig | XLNetConfig) -> tuple[Any, Memory]:
    model = config.build(jax.random.key(0))
    memory = model.new_memory(2)
    assert memory is not None
    return model, memory


@pytest.mark.parametrize(("same_length", "memory_length"), [(False, 12), (True, 4), (True, 7)])
def test_segments_with_memory_are_scored_as_one_long_text(same_length: bool, memory_length: int) -> None:
    model, memory = built(replace(TRANSFO_XL, same_length=same_length, memory_length=memory_length))
    whole = run(model, Batch(decoder_input_tokens=jnp.asarray(TOKENS)), None).logits
    pieces = []
    for index, first in enumerate(range(0, 12, 4)):
        result = run(model, segment(first, first + 4, continues=[min(index, 1)] * 2), memory)
        memory = result.memory
        pieces.append(result.logits)
    np.testing.assert_allclose(jnp.concatenate(pieces, axis=1), whole, **CLOSE)


def test_a_memory_that_is_too_short_forgets() -> None:
    model, memory = built(replace(TRANSFO_XL, memory_length=3))
    whole = run(model, Batch(decoder_input_tokens=jnp.asarray(TOKENS)), None).logits
    memory = run(model, segment(0, 6, continues=[0, 0]), memory).memory
    result = run(model, segment(6, 12, continues=[1, 1]), memory).logits
    assert np.abs(result - whole[:, 6:]).max() > 1e-3


def test_a_row_that_starts_sees_nothing_of_the_batch_before() -> None:
    model, memory = built(TRANSFO_XL)
    memory = run(model, segment(0, 6, continues=[0, 0]), memory).memory
    result = run(model, segment(6, 12, continues=[1, 0]), memory).logits
    alone = run(model, segment(6, 12, continues=[0, 0]), None).logits
    np.testing.assert_allclose(result[1], alone[1], **CLOSE)
    assert np.abs(result[0] - alone[0]).max() > 1e-3


def test_a_batch_that_says_nothing_of_its_rows_sees_no_memory() -> None:
    model, memory = built(TRANSFO_XL)
    memory = run(model, segment(0, 6, continues=[0, 0]), memory).memory
    result = run(model, segment(6, 12, continues=[1, 1])._replace(continues=None), memory).logits
    alone = run(model, segment(6, 12, continues=[0, 0]), None).logits
    np.testing.assert_allclose(result, alone, **CLOSE)


def test_only_the_example_that_goes_on_is_remembered() -> None:
    model, memory = built(TRANSFO_XL)
    packed = np.tile([1, 1, 2, 2, 2, 0], (2, 1))
    memory = run(model, segment(0, 6, continues=[0, 0], decoder_segment_ids=packed), memory).memory
    assert np.asarray(memory.real).tolist() == [[False] * 8 + [True] * 3 + [False]] * 2
    # The first two tokens go on with it; what follows them is another example.
    packed = np.tile([1, 1, 2, 2, 2, 2], (2, 1))
    result = run(model, segment(6, 12, continues=[1, 1], decoder_segment_ids=packed), memory)
    alone = run(model, segment(6, 12, continues=[0, 0], decoder_segment_ids=packed), None).logits
    np.testing.assert_allclose(result.logits[:, 2:], alone[:, 2:], **CLOSE)
    assert np.abs(result.logits - alone)[:, :2].max() > 1e-3
    assert np.asarray(result.memory.real).tolist() == [[False] * 8 + [True] * 4] * 2


def test_rows_of_padding_alone_forget_nothing_and_add_nothing() -> None:
    model, memory = built(TRANSFO_XL)
    memory = run(model, segment(0, 6, continues=[0, 0]), memory).memory
    padding = segment(6, 12, continues=[1, 1], decoder_segment_ids=np.zeros((2, 6)))
    memory = run(model, padding, memory).memory
    assert np.asarray(memory.real).tolist() == [[True] * 6 + [False] * 6] * 2


def test_no_gradient_reaches_the_batch_before() -> None:
    model, memory = built(TRANSFO_XL)

    def kept(model: Any) -> jax.Array:
        return jnp.sum(model(segment(0, 6, continues=[0, 0]), memory=memory).memory.states ** 2)

    assert all(not np.any(leaf) for leaf in jax.tree.leaves(jax.jit(jax.grad(kept))(model)))


def encoder_segment(first: int, last: int, *, continues: int, **streams: np.ndarray) -> Batch:
    batch = segment(first, last, continues=[continues] * 2, **streams)
    return batch._replace(encoder_input_tokens=batch.decoder_input_tokens, decoder_input_tokens=None)


def test_xlnet_remembers_what_the_next_segment_does_not_repeat() -> None:
    model, memory = built(replace(XLNET, direction="unidirectional", reuse_length=4))
    whole = run(model, encoder_segment(0, 12, continues=0), None).logits
    memory = run(model, encoder_segment(0, 8, continues=0), memory).memory
    assert np.asarray(memory.real).tolist() == [[False] * 4 + [True] * 4] * 2
    result = run(model, encoder_segment(4, 12, continues=1), memory).logits
    np.testing.assert_allclose(result, whole[:, 4:], **CLOSE)


def test_xlnets_targets_see_the_memory_and_only_what_comes_before_them() -> None:
    model, memory = built(XLNET)
    memory = run(model, encoder_segment(0, 6, continues=0), memory).memory
    batch = encoder_segment(6, 12, continues=1, ranks=np.tile([0, 2, 0, 1, 3, 0], (2, 1)))
    before = run(model, batch, memory).logits
    tokens = batch.encoder_input_tokens
    other = run(
        model, batch._replace(encoder_input_tokens=tokens.at[:, 1].set((tokens[:, 1] + 1) % 32)), memory
    ).logits
    moved = np.abs(other - before).max((0, 2)) > 1e-6
    assert moved.tolist() == [False, False, False, False, True, False]
    forgotten = run(model, batch._replace(continues=jnp.zeros(2, jnp.int32)), memory).logits
    assert np.abs(forgotten - before).max((0, 2)).min() > 1e-4


def test_models_without_a_memory_of_known_length_have_none_to_train_with() -> None:
    assert replace(TRANSFO_XL, memory_length=0).build(jax.random.key(0)).new_memory(2) is None
    assert replace(XLNET, memory_length=None).build(jax.random.key(0)).new_memory(2) is None
