"""A language model of LSTMs: what continues from batch to batch, dropout of words, decoding, and its refusals."""

import itertools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.families.rnn_language_model import RNNLanguageModelConfig
from t5x_like.ancestors.zoo.awd_lstm import AWDLSTMConfig
from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.adapters import PrefixTuning
from t5x_like.model.families.segment_memory import Memory
from t5x_like.training.losses import LossConfig, normalize, total
from tests.model.hidden_states import hidden_states

CONFIG = AWDLSTMConfig(vocab_size=30, model_dim=8, hidden_dim=12, num_layers=2, pad_vocab_to_multiple_of=1)
TOKENS = np.random.default_rng(0).integers(0, 30, (2, 12)).astype(np.int32)
CLOSE = {"rtol": 0, "atol": 2e-6}

run = jax.jit(lambda model, batch, memory: model(batch, memory=memory))


@pytest.fixture(scope="module")
def model() -> Any:
    """With weights large enough for the past to show."""
    graphdef, params = parameters.split(CONFIG.build(jax.random.key(0)))
    return parameters.merge(graphdef, jax.tree.map(lambda leaf: 3 * leaf, params))


def segment(first: int, last: int, *, continues: list[int], segment_ids: Any = None) -> Batch:
    return Batch(
        decoder_input_tokens=jnp.asarray(TOKENS[:, first:last]),
        decoder_segment_ids=None if segment_ids is None else jnp.asarray(segment_ids, jnp.int32),
        continues=jnp.asarray(continues, jnp.int32),
    )


def test_rows_that_continue_are_read_as_one_text_and_others_begin_anew(model):
    whole = run(model, Batch(decoder_input_tokens=jnp.asarray(TOKENS)), None)
    first = run(model, segment(0, 6, continues=[0, 0]), model.new_memory(2))
    second = run(model, segment(6, 12, continues=[1, 0]), first.memory)
    alone = run(model, segment(6, 12, continues=[0, 0]), model.new_memory(2))
    np.testing.assert_allclose(first.logits, whole.logits[:, :6], **CLOSE)
    np.testing.assert_allclose(second.logits[0], whole.logits[0, 6:], **CLOSE)
    np.testing.assert_allclose(second.logits[1], alone.logits[1], **CLOSE)
    assert np.abs(second.logits[0] - alone.logits[0]).max() > 1e-3
    assert whole.memory is None


def test_padding_at_the_end_and_rows_of_padding_leave_the_state(model):
    padded = run(
        model, segment(0, 6, continues=[0, 0], segment_ids=[[1] * 4 + [0] * 2, [0] * 6]), model.new_memory(2)
    )
    short = run(model, segment(0, 4, continues=[0, 0]), model.new_memory(2))
    np.testing.assert_allclose(padded.memory.states[:, 0], short.memory.states[:, 0], **CLOSE)
    assert padded.memory.real.tolist() == [[True], [False]]
    after = run(model, segment(6, 12, continues=[1, 1], segment_ids=[[0] * 6] * 2), padded.memory)
    jax.tree.map(np.testing.assert_array_equal, after.memory, padded.memory)


def test_a_memory_has_each_state_once(model):
    memory = model.new_memory(5)
    assert isinstance(memory, Memory)
    assert memory.states.shape == (1, 5, 1, 2 * (12 + 8))
    with_states = memory._replace(
        states=jax.random.normal(jax.random.key(0), memory.states.shape), real=jnp.ones((5, 1), bool)
    )
    nothing = Batch(
        decoder_input_tokens=jnp.zeros((5, 3), jnp.int32),
        decoder_segment_ids=jnp.zeros((5, 3), jnp.int32),
        continues=jnp.ones(5, jnp.int32),
    )
    np.testing.assert_array_equal(run(model, nothing, with_states).memory.states, with_states.states)


def test_a_memory_of_another_batch_size_is_refused(model):
    message = (
        "the memory has 3 rows and the batch has 2, .*give a batch of 3 rows, or begin with new_memory(2)"
    )
    for continues in ([1, 1], None):
        batch = Batch(
            decoder_input_tokens=jnp.asarray(TOKENS), continues=continues and jnp.asarray(continues)
        )
        with pytest.raises(ValueError, match=message.replace("(2)", r"\(2\)")):
            model(batch, memory=model.new_memory(3))


def test_prompts_are_continued_as_rows_are_read(model):
    tokens = jnp.asarray(TOKENS)
    wanted = run(model, Batch(decoder_input_tokens=tokens), None).logits
    prompts = jnp.pad(tokens[:, :5], ((0, 0), (2, 0)))
    mask = jnp.pad(jnp.ones((2, 5), jnp.int32), ((0, 0), (2, 0)))
    token, cache = model.prefill(prompts, mask, max_new_tokens=7, start_id=0)
    step = jax.jit(lambda model, tokens, cache: model.decode_step(tokens, cache))
    for place in range(4, 12):
        scores, cache = step(model, token, cache)
        np.testing.assert_allclose(scores, wanted[:, place], **CLOSE)
        token = tokens[:, min(place + 1, 11)]


def test_dropped_words_are_dropped_at_all_their_places():
    config = replace(CONFIG, embedding_dropout_rate=0.5)
    model = config.build(jax.random.key(0))
    tokens = jnp.asarray(np.tile(np.arange(30), (2, 2)), jnp.int32)
    embedded = np.asarray(model.embed(tokens, dropout_key=jax.random.key(0))).reshape(4, 30, 8)
    gone = (embedded == 0).all(axis=-1)
    assert (gone == gone[0]).all()
    assert 5 < gone[0].sum() < 25
    kept = embedded[0][~gone[0]]
    np.testing.assert_allclose(kept, 2 * model.embedding.tokens.table[...][~gone[0]], rtol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        "dropout_rate",
        "input_dropout_rate",
        "layer_dropout_rate",
        "embedding_dropout_rate",
        "weight_dropout_rate",
    ],
)
def test_each_rate_acts_in_training_only(name):
    dropped, plain = (each.build(jax.random.key(0)) for each in (replace(CONFIG, **{name: 0.5}), CONFIG))
    batch = Batch(decoder_input_tokens=jnp.asarray(TOKENS))
    wanted = run(plain, batch, None).decoder_output
    np.testing.assert_array_equal(run(dropped, batch, None).decoder_output, wanted)
    trained = dropped(batch, dropout_key=jax.random.key(0)).decoder_output
    assert np.abs(trained - wanted).max() > 1e-4


def test_hidden_states_are_as_wide_as_the_widest(model):
    batch = Batch(decoder_input_tokens=jnp.asarray(TOKENS))
    hidden = np.asarray(hidden_states(model, batch)["decoder"])
    assert hidden.shape == (3, 2, 12, 12)
    np.testing.assert_allclose(hidden[-1, ..., :8], model(batch).decoder_output, rtol=1e-6, atol=1e-7)
    assert not hidden[:, ..., 8:][[0, 2]].any()
    assert hidden[1, ..., 8:].all()


def test_impossible_configurations_are_refused():
    for wrong, message in (
        ({"hidden_dim": 0}, "hidden_dim is 0; give a positive number"),
        ({"remat": "full"}, "remat='full', and recurrent layers keep all"),
        (
            {"adapter": PrefixTuning(length=3)},
            "adapter=PrefixTuning, and adapters have no place in a recurrent model",
        ),
        (
            {"quantization": "int8"},
            "quantization='int8', and products of a recurrent model aren't computed in 8 bits",
        ),
        ({"attention_implementation": "blockwise"}, "a recurrent model has no such attention"),
        ({"float32_gradients": True}, "only projections of Transformers have it"),
        ({"scan_layers": False}, "layers of a recurrent model don't run in a loop"),
        ({"embedding_dropout_rate": 1.0}, "embedding_dropout_rate is 1.0; give a probability below 1"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(CONFIG, **wrong)
    parts = CONFIG.parts
    assert isinstance(parts, RNNLanguageModelConfig)
    with pytest.raises(ValueError, match="direction is 'both'; a language model's layers read 'forward'"):
        replace(parts, stack=replace(parts.stack, direction="both"))


def test_regularization_is_of_dropped_outputs_and_of_their_differences():
    """AR and TAR (Merity et al. 2018, §4.6) in the loss, over real tokens and inside segments, in parts or whole."""
    rates = {"activation_regularization": 2.0, "temporal_activation_regularization": 0.5}
    config = replace(CONFIG, dropout_rate=0.5, init_stddev=1.0, **rates)
    segment_ids = np.array([[1] * 7 + [2] * 5, [1] * 4 + [0] * 8], np.int32)
    batch = Batch(
        decoder_input_tokens=jnp.asarray(TOKENS),
        decoder_segment_ids=jnp.asarray(segment_ids),
        target_tokens=jnp.asarray(TOKENS),
        loss_weights=jnp.asarray(segment_ids > 0, jnp.float32),
    )
    weights, normalizers = normalize(batch, LossConfig())
    others = {"weights": weights, "normalizers": normalizers, "num_tasks": 1}

    @jax.jit
    def losses(model, plain, batch, key):
        result = model(batch, dropout_key=key)
        loss, totals = total(result, batch, LossConfig(), **others)
        own = total(plain(batch, dropout_key=key), batch, LossConfig(), **others)[0]
        return loss - own, totals.measures, result.decoder_output, plain(batch).decoder_output

    model = config.build(jax.random.key(0))
    plain = replace(config, **dict.fromkeys(rates, 0.0)).build(jax.random.key(0))
    added, measures, dropped, output = losses(model, plain, batch, jax.random.key(1))
    real, rows = segment_ids > 0, np.asarray(output, np.float64)
    assert 0.2 < (np.asarray(dropped)[real] == 0).mean() < 0.8
    pairs = [
        (row, place)
        for row, ends in enumerate(([0, 7, 12], [0, 4]))
        for a, b in itertools.pairwise(ends)
        for place in range(a, b - 1)
    ]
    wanted = {
        "activation_regularization": (np.asarray(dropped, np.float64)[real] ** 2).mean(1).sum() / 16,
        "temporal_activation_regularization": sum(
            ((rows[row, place + 1] - rows[row, place]) ** 2).mean() for row, place in pairs
        )
        / 16,
    }
    assert {name: float(each.total / each.count) for name, each in measures.items()} == pytest.approx(
        wanted, rel=1e-5
    )
    assert float(added) == pytest.approx(sum(rates[name] * value for name, value in wanted.items()), rel=1e-3)
    assert model.measured == tuple(rates)
    assert plain.measured == ()
    with pytest.raises(ValueError, match=r"activation_regularization is -1\.0; give 0 or a positive number"):
        replace(CONFIG, activation_regularization=-1.0)
