"""Recurrent encoders: heads on both layers, and the loss of cross-view training against its formula."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.families.rnn_encoder import CROSS_VIEW_LOSS
from t5x_like.ancestors.zoo.bilstm import BiLSTMConfig
from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.training.losses import LossConfig, normalize, total
from tests.model.hidden_states import hidden_states

CONFIG = BiLSTMConfig(
    vocab_size=30, model_dim=8, hidden_dim=6, head_dim=5, num_labels=4, pad_vocab_to_multiple_of=1
)
CROSS = replace(CONFIG, cross_view_weight=0.5)
call = jax.jit(lambda model, batch, key=None: model(batch, dropout_key=key))
TOKENS = np.random.default_rng(0).integers(1, 30, (3, 5)).astype(np.int32)
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def batch_of(tokens, weights=None) -> Batch:
    return Batch(
        encoder_input_tokens=jnp.asarray(tokens),
        encoder_segment_ids=jnp.asarray(tokens > 0, jnp.int32),
        loss_weights=None if weights is None else jnp.asarray(weights, jnp.float32),
    )


@pytest.fixture(scope="module")
def model():
    return CROSS.build(jax.random.key(0))


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_views_are_compared_with_the_whole_on_rows_without_labels(model):
    tokens = TOKENS.copy()
    tokens[1, 3:] = 0  # padding
    weights = np.zeros((3, 5))
    weights[0, 2] = 1.0  # the first row has a label
    batch = batch_of(tokens, weights)
    result = call(model, batch)
    whole = log_softmax(np.asarray(result.heads["token_classification"], np.float64))
    first = np.asarray(hidden_states(model, batch)["encoder"][1], np.float64)
    forward, backward = first[..., :6], first[..., 6:12]
    nothing = np.zeros((3, 1, 6))
    inputs = {
        "forward": forward,
        "backward": backward,
        "future": np.concatenate([nothing, forward[:, :-1]], axis=1),
        "past": np.concatenate([backward[:, 1:], nothing], axis=1),
    }
    total = 0.0
    for name, read in inputs.items():
        head = model.views.scores[name]
        dense, projection = head.transform.dense, head.projection
        hidden = np.maximum(read @ np.asarray(dense.kernel[...]) + np.asarray(dense.bias[...]), 0)
        scores = hidden @ np.asarray(projection.kernel[...]) + np.asarray(projection.bias[...])
        divergence = (np.exp(whole) * (whole - log_softmax(scores))).sum(-1)
        total += divergence[1, :3].sum() + divergence[2].sum()
    loss = result.extra_losses[CROSS_VIEW_LOSS]
    assert loss.weight == 0.5
    np.testing.assert_allclose(loss.total, total, **CLOSE)
    assert total > 0.01
    assert model.measured == (CROSS_VIEW_LOSS,)


def test_the_loss_of_views_is_a_mean_over_tokens_of_rows_without_labels(model):
    """Its weight doesn't change with the labeled rows of a batch, nor with the parts that it is cut into."""
    tokens = np.tile(TOKENS, (2, 1))
    tokens[1, 3:] = 0  # padding
    weights = np.zeros((6, 5))
    weights[[0, 3, 4, 5]] = 1.0
    batch = batch_of(tokens, weights)._replace(target_tokens=jnp.zeros((6, 5), jnp.int32))

    @jax.jit
    def loss_of(part, whole):
        normalizers = normalize(whole, LossConfig())[1]
        settings = {"weights": part.loss_weights, "normalizers": normalizers, "num_tasks": 1}
        result = model(part)
        plain = total(result._replace(extra_losses=None), part, LossConfig(), **settings)[0]
        loss, totals = total(result, part, LossConfig(), **settings)
        return loss - plain, totals.measures[CROSS_VIEW_LOSS]

    def rows(*numbers):
        return jax.tree.map(lambda stream: stream[np.array(numbers)], batch)

    whole, measure = loss_of(batch, batch)
    assert measure.count == 8  # 3 of the second row and 5 of the third
    np.testing.assert_allclose(whole, 0.5 * measure.total / 8, rtol=1e-5)
    np.testing.assert_allclose(loss_of(rows(1, 2), rows(1, 2))[0], whole, rtol=1e-5)
    np.testing.assert_allclose(
        loss_of(rows(0, 1, 3), batch)[0] + loss_of(rows(2, 4, 5), batch)[0], whole, rtol=1e-5
    )
    assert loss_of(rows(0, 3), rows(0, 3))[0] == 0


def largest(tree) -> float:
    return max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(tree))


def test_views_learn_and_the_whole_does_not(model):
    """Gradients of the loss reach the views' heads and the layer below them, not the heads of the whole."""
    batch = batch_of(TOKENS)
    graphdef, params = parameters.split(model)

    def loss(params):
        model = parameters.merge(graphdef, params)
        return model(batch, dropout_key=jax.random.key(0)).extra_losses[CROSS_VIEW_LOSS].total

    result = jax.jit(jax.grad(loss))(params)
    for name in ("forward", "backward", "future", "past"):
        assert largest(result["views"]["scores"][name]) > 0
    assert largest(result["rnn"]["layers"]["0"]) > 0
    assert largest(result["rnn"]["layers"]["1"]) == 0
    assert largest(result["heads"]) == 0


@pytest.mark.slow
def test_views_with_dropout_learn_from_the_whole_without():
    dropped = replace(CROSS, dropout_rate=0.5).build(jax.random.key(0))
    batch, key = batch_of(TOKENS), jax.random.key(1)
    result = call(dropped, batch, key)
    whole = log_softmax(np.asarray(call(dropped, batch).heads["token_classification"], np.float64))
    views = dropped.views(hidden_states(dropped, batch, key)["encoder"][1])
    divergences = [
        np.exp(whole) * (whole - log_softmax(np.asarray(scores, np.float64))) for scores in views.values()
    ]
    np.testing.assert_allclose(result.extra_losses[CROSS_VIEW_LOSS].total, np.sum(divergences), rtol=1e-4)
    assert (
        np.abs(result.heads["token_classification"] - dropped(batch).heads["token_classification"]).max()
        > 1e-3
    )


def test_padding_changes_nothing(model):
    padded = np.pad(TOKENS, ((0, 0), (0, 2)))
    scores = call(model, batch_of(padded)).heads["token_classification"]
    np.testing.assert_allclose(
        scores[:, :5], call(model, batch_of(TOKENS)).heads["token_classification"], **CLOSE
    )


def test_texts_are_classified_by_the_mean_of_both_layers():
    config = replace(CONFIG, task="sequence_classification")
    result = call(config.build(jax.random.key(0)), batch_of(TOKENS))
    assert result.heads["sequence_classification"].shape == (3, 4)
    np.testing.assert_allclose(result.pooled, result.encoder_output.mean(axis=1), **CLOSE)
    assert result.encoder_output.shape == (3, 5, 2 * 2 * 6)


def test_impossible_configurations_are_refused():
    for wrong, message in (
        ({"task": "masked_lm"}, "BiLSTM has no head for the task 'masked_lm'"),
        ({"cross_view_weight": -1.0}, "cross_view_weight is -1.0; give 0 or a positive number"),
        (
            {"cross_view_weight": 1.0, "task": "sequence_classification"},
            "cross_view_weight=1 compares predictions for each token; set task='token_classification'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            replace(CONFIG, **wrong)
    with pytest.raises(ValueError, match="views of cross-view training are layers of both directions"):
        replace(CROSS.parts, stack=replace(CROSS.parts.stack, direction="forward"))
