"""Bidirectional language models: what each direction sees, packed rows, hidden states, the shared softmax, refusals."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.families.bidirectional_language_model import FullSoftmax
from t5x_like.ancestors.layers.rnn_stack import RNNStack
from t5x_like.ancestors.layers.sampled_softmax import SampledLogits, SampledSoftmax
from t5x_like.ancestors.zoo.elmo import ClusteredSoftmax, ElmoConfig
from t5x_like.batch import Batch
from t5x_like.model import parameters
from tests.model.hidden_states import hidden_states

DIM, VOCAB, LENGTH = 6, 40, 7
CONFIG = ElmoConfig(
    vocab_size=VOCAB,
    model_dim=DIM,
    hidden_dim=8,
    character_dim=4,
    filters=((1, 4), (2, 4)),
    num_highway_layers=1,
    pad_vocab_to_multiple_of=16,
)
TOKENS = np.random.default_rng(0).integers(0, VOCAB, (2, LENGTH)).astype(np.int32)
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
call = jax.jit(lambda model, batch, key=None: model(batch, dropout_key=key))


def built(config: ElmoConfig = CONFIG) -> Any:
    """A model whose words have random characters."""
    graphdef, params = parameters.split(config.build(jax.random.key(0)))
    flat = parameters.flatten(params)
    path = "embedding/character_ids"
    flat[path] = jnp.asarray(np.random.default_rng(1).integers(1, 262, flat[path].shape), jnp.int32)
    return parameters.merge(graphdef, parameters.unflatten(flat))


@pytest.fixture(scope="module")
def model() -> Any:
    return built()


def batch_of(tokens: np.ndarray, segment_ids: np.ndarray | None = None) -> Batch:
    ids = None if segment_ids is None else jnp.asarray(segment_ids, jnp.int32)
    return Batch(encoder_input_tokens=jnp.asarray(tokens), encoder_segment_ids=ids)


def test_each_direction_sees_its_own_side_alone(model):
    changed = TOKENS.copy()
    place = 3
    changed[:, place] = (changed[:, place] + 1) % VOCAB
    before, after = call(model, batch_of(TOKENS)), call(model, batch_of(changed))
    forward, backward = (
        np.abs(np.asarray(old) - np.asarray(new)).max(axis=(0, 2)) > 1e-6
        for old, new in (
            (before.logits.forward, after.logits.forward),
            (before.logits.backward, after.logits.backward),
        )
    )
    # The first forward and the last backward position have no context; their scores are not used.
    assert forward[1:].tolist() == [False] * place + [True] * (LENGTH - 1 - place)
    assert backward[:-1].tolist() == [True] * place + [False] * (LENGTH - 1 - place)


def test_packed_segments_and_padding_are_read_apart(model):
    segments = np.array([[1, 1, 1, 2, 2, 2, 2], [1, 1, 1, 1, 1, 0, 0]])
    packed = call(model, batch_of(TOKENS, segments))
    hidden = hidden_states(model, batch_of(TOKENS, segments))["encoder"]
    for row, part in ((0, slice(0, 3)), (0, slice(3, 7)), (1, slice(0, 5))):
        batch = batch_of(TOKENS[row : row + 1, part])
        alone = call(model, batch)
        alone_hidden = hidden_states(model, batch)["encoder"]
        np.testing.assert_allclose(hidden[:, row, part], alone_hidden[:, 0], **CLOSE)
        np.testing.assert_allclose(packed.logits.forward[row, part][1:], alone.logits.forward[0, 1:], **CLOSE)
        np.testing.assert_allclose(
            packed.logits.backward[row, part][:-1], alone.logits.backward[0, :-1], **CLOSE
        )


def test_hidden_states_are_words_twice_then_both_directions_of_each_layer(model):
    hidden = hidden_states(model, batch_of(TOKENS))
    assert hidden["encoder"].shape == (3, 2, LENGTH, 2 * DIM)
    words, first, last = hidden["encoder"]
    np.testing.assert_array_equal(words[..., :DIM], words[..., DIM:])
    np.testing.assert_array_equal(hidden["encoder/forward"], hidden["encoder"][..., :DIM])
    np.testing.assert_array_equal(hidden["encoder/backward"], hidden["encoder"][..., DIM:])
    np.testing.assert_allclose(call(model, batch_of(TOKENS)).encoder_output, last, **CLOSE)
    x = jnp.asarray(words[..., :DIM])
    forward, backward = model.forward_rnn(x).layers, model.backward_rnn(x).layers
    for layer, states in enumerate((first, last)):
        np.testing.assert_allclose(states, jnp.concatenate([forward[layer], backward[layer]], -1), **CLOSE)


def test_layers_add_their_inputs(model):
    x = hidden_states(model, batch_of(TOKENS))["encoder"][0][..., :DIM]
    graphdef, weights = parameters.split(model.forward_rnn)
    plain = RNNStack(replace(model.config.stack, residual=False), key=jax.random.key(0))
    without = parameters.merge(parameters.split(plain)[0], weights)(x)
    result = parameters.merge(graphdef, weights)(x)
    np.testing.assert_allclose(result.layers[1], without.layers[1] + without.layers[0], **CLOSE)
    np.testing.assert_allclose(result.layers[0], without.layers[0], **CLOSE)


def test_both_directions_train_one_softmax_and_one_encoder(model):
    graphdef, params = parameters.split(model)
    trained, constants = parameters.partition(params, parameters.select(params, ("*",)))

    def score(trained: Any, name: str) -> jax.Array:
        selection = parameters.select(params, ("*",))
        whole = parameters.merge(graphdef, parameters.combine(trained, constants, selection))
        return jnp.sum(jnp.square(getattr(call(whole, batch_of(TOKENS)).logits, name)))

    assert set(parameters.flatten(constants)) == {"embedding/character_ids"}
    for name, own, other in (
        ("forward", "forward_rnn", "backward_rnn"),
        ("backward", "backward_rnn", "forward_rnn"),
    ):
        gradients = parameters.flatten(jax.grad(score)(trained, name))
        moved = {path for path, gradient in gradients.items() if np.abs(gradient).max() > 0}
        assert {path.split("/")[0] for path in moved} == {"embedding", "heads", own}
        assert not any(path.startswith(other) for path in moved)


def test_a_sample_is_drawn_in_training_only():
    sampled = built(replace(CONFIG, softmax=SampledSoftmax(num_samples=5)))
    batch = batch_of(TOKENS)
    trained, evaluated = sampled(batch, dropout_key=jax.random.key(0)), sampled(batch)
    assert isinstance(trained.logits.forward, SampledLogits)
    assert isinstance(trained.logits.backward, SampledLogits)
    assert not np.array_equal(
        *(jax.random.key_data(each.key) for each in (trained.logits.forward, trained.logits.backward))
    )
    assert trained.logits.forward.of_candidates(batch.encoder_input_tokens).shape == (2, LENGTH, 6)
    full = built(CONFIG)(batch)
    np.testing.assert_allclose(evaluated.logits.forward, full.logits.forward, **CLOSE)
    np.testing.assert_allclose(
        trained.logits.forward.whole(), evaluated.logits.forward[..., :VOCAB], **CLOSE
    )  # no dropout here


def test_an_adaptive_softmax_gives_log_probabilities():
    clustered = built(replace(CONFIG, softmax=ClusteredSoftmax(cutoffs=(10, 20), div_val=2)))
    result = call(clustered, batch_of(TOKENS))
    for logits in (result.logits.forward, result.logits.backward):
        np.testing.assert_allclose(np.exp(logits).sum(-1), 1.0, rtol=1e-4)


@pytest.mark.slow
def test_dropout_changes_both_directions_by_draws_of_their_own():
    dropped = built(replace(CONFIG, dropout_rate=0.5))
    batch = batch_of(TOKENS)
    plain, one = call(dropped, batch), call(dropped, batch, jax.random.key(0))
    other = call(dropped, batch, jax.random.key(1))
    for part in ("forward", "backward"):
        assert not np.allclose(getattr(plain.logits, part), getattr(one.logits, part), atol=1e-3)
        assert not np.allclose(getattr(other.logits, part), getattr(one.logits, part), atol=1e-3)
    words = [hidden_states(dropped, batch, key)["encoder"][0] for key in (None, jax.random.key(0))]
    np.testing.assert_array_equal(*words)  # features are not dropped


@pytest.mark.parametrize("task", ["base", "sequence_classification", "token_classification"])
def test_other_tasks_have_their_heads_and_no_softmax(task):
    model = replace(CONFIG, task=task).build(jax.random.key(0))
    result = call(model, batch_of(TOKENS))
    assert (result.logits, model.heads.softmax) == (None, None)
    assert model.measured == ()
    shapes = {
        "base": {},
        "sequence_classification": {task: (2, 2)},
        "token_classification": {task: (2, LENGTH, 2)},
    }
    assert {name: each.shape for name, each in result.heads.items()} == shapes[task]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "causal_lm"}, "ELMo has no head for the task 'causal_lm'"),
        (
            {"softmax": SampledSoftmax(num_samples=41)},
            "num_samples is 41, and there are 40 words; sample fewer",
        ),
        ({"softmax": ClusteredSoftmax(cutoffs=(50,))}, r"cutoffs are \(50,\)"),
        ({"cell_clip": 0.0}, "cell_clip is 0.0; give a positive number, or None for no limit"),
        ({"projection_clip": -1.0}, "projection_clip is -1.0"),
        ({"remat": "full"}, "remat='full', and recurrent layers keep all activations"),
    ],
)
def test_what_it_lacks_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)


def test_parts_that_do_not_fit_are_refused():
    parts = CONFIG.parts
    with pytest.raises(ValueError, match="give a stack that reads 'forward'"):
        replace(parts, stack=replace(parts.stack, direction="both"))
    with pytest.raises(ValueError, match=r"have the widths \[5, 6\]; give all one width"):
        replace(parts, characters=replace(parts.characters, output_dim=5))
    assert parts.softmax == FullSoftmax()
