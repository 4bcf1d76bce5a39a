"""Classification of long rows by an LSTM: pooling, pieces, and reading from the end."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.families.rnn_language_model import PieceReading
from t5x_like.ancestors.zoo.awd_lstm import AWDLSTMConfig, ConcatPooling
from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.ensemble import EnsembleConfig
from t5x_like.model.layers.pooler import Pooler, PoolerConfig, pool
from tests.model.hidden_states import hidden_states

CONFIG = AWDLSTMConfig(
    vocab_size=50,
    model_dim=8,
    hidden_dim=12,
    num_layers=2,
    pad_vocab_to_multiple_of=1,
    init_stddev=1.0,
    task="sequence_classification",
    num_labels=3,
    classifier=ConcatPooling(hidden_dim=5),
)
LENGTH = 11
LENGTHS = np.array([11, 7, 3, 1])
TOKENS = np.random.default_rng(0).integers(1, 50, (4, LENGTH)).astype(np.int32)
SEGMENT_IDS = (np.arange(LENGTH) < LENGTHS[:, None]).astype(np.int32)
BATCH = Batch(
    encoder_input_tokens=jnp.asarray(TOKENS * SEGMENT_IDS), encoder_segment_ids=jnp.asarray(SEGMENT_IDS)
)
# Sums of gradients in another order differ by up to 1.4e-5 on some CPUs.
CLOSE = {"rtol": 1e-5, "atol": 3e-5}


@jax.jit
def outputs_and_gradients(model: Any, batch: Batch) -> Any:
    """The classes' scores, the outputs, and gradients of the scores' squares by weights."""

    def total(model: Any) -> Any:
        result = model(batch)
        scores = result.heads["sequence_classification"]
        return jnp.sum(scores**2), (scores, result.decoder_output)

    gradients, outputs = jax.grad(total, has_aux=True)(model)
    return outputs, parameters.split(gradients)[1]


def with_config(model: Any, **changes: Any) -> Any:
    """The same weights in a model of another configuration."""
    graphdef, _ = parameters.split(replace(CONFIG, **changes).build(jax.random.key(0)))
    return parameters.merge(graphdef, parameters.split(model)[1])


run = jax.jit(lambda model, batch, key=None: model(batch, dropout_key=key))


@pytest.fixture(scope="module")
def model() -> Any:
    return CONFIG.build(jax.random.key(0))


@pytest.fixture(scope="module")
def whole(model: Any) -> Any:
    return outputs_and_gradients(model, BATCH)


def close(left: Any, right: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **CLOSE), left, right)


@pytest.mark.parametrize("padding", ["after", "before"])
def test_concat_pooling_is_the_last_the_largest_and_the_mean_of_real_tokens(padding: str) -> None:
    x = jax.random.normal(jax.random.key(1), (4, LENGTH, 3)) - 2.0  # below padding's zeros
    real = jnp.asarray(SEGMENT_IDS if padding == "after" else SEGMENT_IDS[:, ::-1]) > 0
    rows = [row[mask] for row, mask in zip(np.asarray(x), np.asarray(real), strict=True)]
    wanted = np.stack([np.concatenate([row[-1], row.max(0), row.mean(0)]) for row in rows])
    np.testing.assert_allclose(pool(x, real, "concat"), wanted, rtol=1e-6)
    pooler = Pooler(PoolerConfig(pooling="concat"), 3, key=jax.random.key(0))
    np.testing.assert_allclose(pooler(x, real.astype(jnp.int32)), wanted, rtol=1e-6)
    np.testing.assert_array_equal(pool(x, jnp.zeros_like(real), "concat")[:, 3:], 0)
    gradient = jax.grad(lambda x: jnp.sum(pool(x, jnp.zeros_like(real), "concat")[:, 3:] ** 2))(x)
    np.testing.assert_array_equal(gradient, 0)


def test_the_classifier_is_two_blocks_of_norm_and_linear_layer(model: Any) -> None:
    result = run(model, BATCH)
    weights = parameters.flatten(parameters.split(model)[1])

    def normalized(x: np.ndarray) -> np.ndarray:
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ np.asarray(weights[f"heads/{name}/kernel"]) + np.asarray(weights[f"heads/{name}/bias"])

    pooled = np.asarray(pool(result.decoder_output, BATCH.encoder_segment_ids > 0, "concat"))
    hidden = np.maximum(linear(normalized(pooled), "pooler/transform/dense"), 0.0)
    wanted = linear(normalized(hidden), "scores/sequence_classification/projection")
    np.testing.assert_allclose(result.heads["sequence_classification"], wanted, rtol=0, atol=1e-5)
    assert weights["heads/pooler/transform/dense/kernel"].shape == (24, 5)


@pytest.mark.parametrize(
    "pieces",
    [
        PieceReading(length=3),
        pytest.param(PieceReading(length=20, num_trained=1), marks=pytest.mark.slow),
        PieceReading(length=3, num_trained=4),
        PieceReading(length=3, num_trained=9),
        pytest.param(PieceReading(length=LENGTH), marks=pytest.mark.slow),
    ],
    ids=["several", "one longer than the row", "all trained", "fewer than are trained", "one"],
)
def test_reading_in_pieces_equals_reading_the_whole_row(model: Any, whole: Any, pieces: PieceReading) -> None:
    close(outputs_and_gradients(with_config(model, pieces=pieces), BATCH), whole)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(None, marks=pytest.mark.slow),
        PieceReading(length=3),
        pytest.param(PieceReading(length=4, num_trained=1), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_rows_of_padding_have_finite_scores_and_no_gradient_of_their_own(
    model: Any, pieces: PieceReading | None
) -> None:
    """As in the last batch of a pass, whose other rows they leave as they are."""
    read = with_config(model, pieces=pieces)
    nothing = jax.tree.map(jnp.zeros_like, BATCH)
    for batch in (nothing, jax.tree.map(lambda rows, zeros: jnp.concatenate([rows, zeros]), BATCH, nothing)):
        (scores, output), gradients = outputs_and_gradients(read, batch)
        for array in jax.tree.leaves((scores, gradients)):
            assert np.isfinite(array).all()
        assert not np.any(output[-4:])
        assert not np.any(np.asarray(gradients["embedding"]["tokens"]["table"])[0])  # padding's
    np.testing.assert_allclose(scores[:4], run(read, BATCH).heads["sequence_classification"], **CLOSE)


def test_gradients_reach_the_last_pieces_of_each_row_only(model: Any) -> None:
    batch = BATCH._replace(
        encoder_input_tokens=jnp.arange(TOKENS.size, dtype=jnp.int32).reshape(TOKENS.shape)
    )
    trained = with_config(model, pieces=PieceReading(length=3, num_trained=2))
    outputs, gradients = outputs_and_gradients(trained, batch)
    wanted, whole_gradients = outputs_and_gradients(model, batch)
    close(outputs, wanted)
    reached = np.abs(gradients["embedding"]["tokens"]["table"]).sum(1) > 0
    real = np.asarray(batch.encoder_segment_ids) > 0
    last = real & (np.arange(LENGTH) >= LENGTHS[:, None] - 6)
    assert np.flatnonzero(reached).tolist() == np.asarray(batch.encoder_input_tokens)[last].tolist()
    assert np.abs(whole_gradients["embedding"]["tokens"]["table"]).sum(1).astype(bool).sum() == real.sum()


def test_each_piece_draws_dropout_of_its_own(model: Any) -> None:
    dropped = with_config(model, embedding_dropout_rate=0.5, pieces=PieceReading(length=29))
    twice = Batch(encoder_input_tokens=jnp.tile(jnp.arange(1, 30, dtype=jnp.int32), (1, 2)))
    hidden = hidden_states(dropped, twice, jax.random.key(0))["decoder"]
    first, second = np.split(~np.any(hidden[0, 0], axis=-1), 2)
    assert 5 < first.sum() < 25
    assert not np.array_equal(first, second)


def test_a_backward_model_reads_rows_from_their_end(model: Any, whole: Any) -> None:
    turned = BATCH._replace(
        encoder_input_tokens=BATCH.encoder_input_tokens[:, ::-1],
        encoder_segment_ids=BATCH.encoder_segment_ids[:, ::-1],
    )
    scores, output = whole[0]
    for pieces in (None, PieceReading(length=3)):
        backward = with_config(model, direction="backward", pieces=pieces)
        result = run(backward, turned)
        close(result.heads["sequence_classification"], scores)
        close(result.decoder_output[:, ::-1], output)
    rows = Batch(
        decoder_input_tokens=jnp.asarray(TOKENS)
    )  # a language model's rows come from the end already
    close(run(backward, rows).decoder_output, run(model, rows).decoder_output)


@pytest.mark.parametrize("changes", [{"task": "token_classification"}, {"keep_lm_head": True}], ids=str)
def test_a_backward_model_has_no_heads_that_read_tokens_in_place(changes: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match="direction is 'backward', and this head reads every token in its place"
    ):
        replace(CONFIG, direction="backward", **changes)


def test_pieces_and_classifiers_of_impossible_sizes_are_refused() -> None:
    for wrong, message in (
        (lambda: PieceReading(length=0), "length of pieces is 0; give a positive number"),
        (lambda: PieceReading(length=5, num_trained=0), "num_trained of pieces is 0; give a positive number"),
        (lambda: ConcatPooling(hidden_dim=0), "hidden_dim is 0; give a positive number"),
        (lambda: ConcatPooling(dropout_rate=1.0), "dropout_rate is 1.0; give a probability below 1"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


def test_an_ensemble_reads_with_the_direction_of_each_member(model: Any) -> None:
    config = EnsembleConfig(members=(CONFIG, replace(CONFIG, direction="backward")))
    graphdef, _ = parameters.split(config.build(jax.random.key(0)))
    both = {"by_number": dict.fromkeys(("000", "001"), parameters.split(model)[1])}
    forward, backward = parameters.merge(graphdef, both).members
    name = "sequence_classification"
    close(run(forward, BATCH).heads[name], run(model, BATCH).heads[name])
    assert np.abs(run(backward, BATCH).heads[name] - run(forward, BATCH).heads[name]).max() > 1e-3


@pytest.mark.slow
def test_memory_for_gradients_is_that_of_the_trained_pieces(model: Any) -> None:
    long = jnp.ones((8, 512), jnp.int32)
    batch = Batch(encoder_input_tokens=long, encoder_segment_ids=long)

    def memory(num_trained: int | None) -> int:
        reading = with_config(model, pieces=PieceReading(length=32, num_trained=num_trained))
        return outputs_and_gradients.lower(reading, batch).compile().memory_analysis().temp_size_in_bytes

    assert memory(1) < memory(None) / 2
