"""Recurrent encoder-decoders: attention against its formulas, decoding against whole rows, padding, refusals."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.layers.rnn_attention import RNNAttention, RNNAttentionConfig
from t5x_like.ancestors.zoo.rnn_seq2seq import RNNSeq2SeqConfig
from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.zoo.t5 import T5Config
from tests.model.hidden_states import hidden_states
from tests.slow_cases import slow_except

CONFIG = RNNSeq2SeqConfig(
    vocab_size=30, model_dim=8, hidden_dim=12, num_layers=2, pad_vocab_to_multiple_of=1, init_stddev=0.5
)
KINDS = {
    "sutskever": replace(CONFIG, encoder_direction="backward"),
    "bahdanau": replace(
        CONFIG,
        cell="gru",
        encoder_direction="both",
        attention="additive",
        input_feeding="context",
        num_layers=1,
    ),
    "luong": replace(CONFIG, attention="general", input_feeding="output", tie_word_embeddings=True),
    "luong without feeding": replace(CONFIG, attention="dot"),
}
RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.integers(2, 30, (2, 6)).astype(np.int32)
TARGETS = RANDOM.integers(2, 30, (2, 5)).astype(np.int32)
CLOSE = {"rtol": 0, "atol": 5e-6}

call = jax.jit(lambda model, batch: model(batch))
step = jax.jit(lambda model, tokens, cache: model.decode_step(tokens, cache))


@pytest.fixture(scope="module", params=slow_except(KINDS, KINDS.keys() - {"luong without feeding"}))
def model(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param].build(jax.random.key(1))


def batch_of(inputs: Any, targets: Any) -> Batch:
    return Batch(
        encoder_input_tokens=jnp.asarray(inputs),
        encoder_segment_ids=jnp.asarray(inputs > 0, jnp.int32),
        decoder_input_tokens=jnp.asarray(targets),
        decoder_segment_ids=jnp.asarray(targets > 0, jnp.int32),
    )


@pytest.fixture(scope="module")
def whole(model: Any) -> Any:
    """Predictions for rows of which one input is two tokens shorter than the other, in front of padding."""
    inputs = INPUTS.copy()
    inputs[1, 4:] = 0
    return inputs, call(model, batch_of(inputs, TARGETS))


def test_padding_changes_nothing(model, whole):
    inputs, result = whole
    short = model(batch_of(inputs[1:, :4], TARGETS[1:, :3]))
    np.testing.assert_allclose(result.logits[1:, :3], short.logits, **CLOSE)
    alone = model(batch_of(INPUTS[:1], TARGETS[:1]))
    np.testing.assert_allclose(result.logits[:1], alone.logits, **CLOSE)


def test_every_input_token_and_no_later_target_reaches_the_output(model, whole):
    inputs, result = whole
    for place in range(6):
        changed = inputs.copy()
        changed[0, place] = 1
        assert np.abs(call(model, batch_of(changed, TARGETS)).logits[0] - result.logits[0]).max() > 1e-4, (
            place
        )
    later = TARGETS.copy()
    later[:, 3:] = 1
    after = call(model, batch_of(inputs, later)).logits
    np.testing.assert_array_equal(after[:, :3], result.logits[:, :3])
    assert np.abs(after[:, 3] - result.logits[:, 3]).max() > 1e-3


def test_beams_are_decoded_as_whole_rows_are_read(model, whole):
    """Two beams of each input: the first beam reads this row's targets, the second one the other row's."""
    inputs, result = whole
    swapped = call(model, batch_of(inputs, TARGETS[::-1]))
    _, cache = model.prefill(
        jnp.asarray(inputs), jnp.asarray(inputs > 0, jnp.int32), max_new_tokens=5, start_id=0
    )
    cache = model.reorder_cache(cache, jnp.zeros((2, 2), jnp.int32))
    rows = np.stack([TARGETS, TARGETS[::-1]], axis=1).reshape(4, 5)  # by input, then beam
    wanted = np.stack([result.logits, swapped.logits], axis=1)
    for place in range(5):
        if place == 2:  # beams change places
            cache = model.reorder_cache(cache, jnp.asarray([[1, 0], [1, 0]]))
            rows, wanted = rows.reshape(2, 2, 5)[:, ::-1].reshape(4, 5), wanted[:, ::-1]
        if place == 3:  # the first input has ended
            cache = model.keep_inputs(cache, jnp.asarray([1]), 2)
            rows, wanted = rows[2:], wanted[1:]
        logits, cache = step(model, jnp.asarray(rows[:, place]), cache)
        np.testing.assert_allclose(logits.reshape(wanted[:, :, place].shape), wanted[:, :, place], **CLOSE)


def test_hidden_states_and_outputs_have_their_shapes(model, whole):
    config, (inputs, result) = model.config, whole
    layers = len(config.decoder.hidden_dims)
    hidden = hidden_states(model, batch_of(inputs, TARGETS))
    assert hidden["encoder"].shape[:3] == (layers + 1, 2, 6)
    assert hidden["decoder"].shape[:3] == (layers + 1, 2, 5)
    np.testing.assert_allclose(hidden["encoder"][-1], result.encoder_output, **CLOSE)
    assert result.decoder_output.shape == (2, 5, config.output_dim)
    np.testing.assert_allclose(model.encode(jnp.asarray(INPUTS[:1])), result.encoder_output[:1], **CLOSE)


def test_rows_without_tokens_have_outputs_without_numbers_that_are_not_finite(model):
    """Of no input the decoder knows nothing; of no target there is nothing to score."""
    nothing = np.zeros((2, 0), np.int32)
    for inputs, targets in ((nothing, TARGETS), (INPUTS, nothing), (0 * INPUTS, TARGETS)):
        logits = model(batch_of(inputs, targets)).logits
        assert logits.shape == (*targets.shape, 30)
        assert np.isfinite(logits).all()


def softmax(x: Any) -> Any:
    return np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)


@pytest.mark.parametrize("score", ["dot", "general", "additive"])
def test_attention_computes_the_formulas_of_the_papers(score):
    config = RNNAttentionConfig(score=score, output_dim=3)
    attention = RNNAttention(config, query_dim=4, encoded_dim=4, key=jax.random.key(0))
    encoded, queries = RANDOM.normal(size=(2, 5, 4)), RANDOM.normal(size=(2, 3, 4))
    real = np.array([[True] * 5, [True] * 2 + [False] * 3])
    W, U = (
        None if each is None else np.asarray(each.kernel[...]) for each in (attention.query, attention.key)
    )
    scores = np.zeros((2, 3, 5))
    for row, place, other in np.ndindex(2, 3, 5):
        q, k = queries[row, place], encoded[row, other]
        if score == "dot":
            scores[row, place, other] = q @ k
        elif score == "general":
            scores[row, place, other] = q @ (k @ U)
        else:
            scores[row, place, other] = np.tanh(q @ W + k @ U) @ np.asarray(attention.score.kernel[...])[:, 0]
    weights = softmax(np.where(real[:, None], scores, -np.inf))
    context = np.einsum("blm,bme->ble", weights, encoded)
    joined = np.tanh(np.concatenate([context, queries], -1) @ np.asarray(attention.output.kernel[...]))
    queries, encoded = (jnp.asarray(each, jnp.float32) for each in (queries, encoded))
    result = attention.context(queries, attention.prepare(encoded, jnp.asarray(real)))
    np.testing.assert_allclose(result, context, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(attention.join(queries, result), joined, rtol=1e-5, atol=1e-6)


def test_reversed_inputs_are_read_from_their_last_token_to_their_first():
    """A forward encoder that is given the reversed input ends in the same states."""
    backward = KINDS["sutskever"]
    model = backward.build(jax.random.key(1))
    graphdef = parameters.split(replace(backward, encoder_direction="forward").build(jax.random.key(1)))[0]
    params = parameters.split(model)[1]
    encoder = {
        number: {"forward": layer["backward"]} for number, layer in params["encoder"]["layers"].items()
    }
    forward = parameters.merge(graphdef, {**params, "encoder": {"layers": encoder}})
    wanted = forward(batch_of(INPUTS[:, ::-1].copy(), TARGETS)).logits
    np.testing.assert_allclose(model(batch_of(INPUTS, TARGETS)).logits, wanted, **CLOSE)


def test_impossible_configurations_are_refused():
    for wrong, message in (
        ({"input_feeding": "output"}, "input_feeding='output' feeds what attention computes; set attention"),
        ({"tie_word_embeddings": True}, "outputs have hidden_dim=12; give both the same"),
        (
            {"attention": "dot", "encoder_direction": "both"},
            "score='dot' compares outputs of the decoder, 12 wide",
        ),
        ({"remat": "full"}, "remat='full', and recurrent layers keep all activations"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(CONFIG, **wrong).build(jax.random.key(0))
    parts = CONFIG.parts
    for stack, message in (
        (replace(parts.decoder, direction="both"), "direction of the decoder is 'both'"),
        (replace(parts.decoder, hidden_dims=(12,)), "the encoder has 2 layers and the decoder 1"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(parts, decoder=stack)
    assert not CONFIG.can_pack
    assert getattr(T5Config, "can_pack", True)
