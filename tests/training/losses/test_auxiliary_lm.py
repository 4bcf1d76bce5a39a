"""GPT's auxiliary language-model loss next to a head's, and both orders of a pair added before the linear layer."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.family import predict
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.pretrained.initial_weights import check_head, with_lm_head
from t5x_like.training import losses
from t5x_like.training.losses import LossConfig
from t5x_like.training.losses.sequences import measure_sequences

GPT = GPT2Config(
    vocab_size=19,
    model_dim=16,
    mlp_dim=32,
    num_heads=2,
    num_layers=1,
    max_position_embeddings=8,
    task="sequence_classification",
    num_labels=3,
    keep_lm_head=True,
)
WEIGHTED = LossConfig(z_loss=0.0, auxiliary_lm_weight=0.5)


def batch_of(*shape: int, num_labels: int = 3) -> Batch:
    """Rows of 5, 8, 5, 8 … real tokens."""
    rng = np.random.default_rng(1)
    real = np.broadcast_to(np.arange(8) < np.array([5, 8])[np.arange(shape[0]) % 2][:, None], (shape[0], 8))
    real = np.broadcast_to(real.reshape(shape[0], *[1] * (len(shape) - 1), 8), (*shape, 8)).astype(np.int32)
    tokens = (rng.integers(1, 19, real.shape) * real).astype(np.int32)
    labels = rng.integers(0, num_labels, shape[0]).astype(np.int32)
    batch = Batch(
        encoder_input_tokens=tokens,
        encoder_segment_ids=real,
        encoder_positions=np.broadcast_to(np.arange(8, dtype=np.int32), real.shape),
        target_tokens=np.zeros(real.shape, np.int32),
        loss_weights=np.zeros(real.shape, np.float32),
        task_ids=np.zeros(real.shape, np.int32),
        sequence_labels=labels,
    )
    return jax.tree.map(jnp.asarray, batch)


def total_of(config, batch, loss, label_loss="classification"):
    model = config.build(jax.random.key(0))
    batch = losses.with_targets(batch, loss)
    weights, normalizers = losses.normalize(batch, loss, label_loss)
    predictions = predict(model, batch)
    options = {"weights": weights, "normalizers": normalizers, "num_tasks": 1, "label_loss": label_loss}
    return float(losses.total(predictions, batch, loss, **options)[0]), predictions


def lm_loss_by_hand(logits, tokens, real, *, per_sequence):
    """Mean over the tokens after the first, which each is predicted from those before it."""
    log_probs = np.asarray(jax.nn.log_softmax(logits, axis=-1))
    of_rows = [
        [-log_probs[row, place, tokens[row, place + 1]] for place in range(int(real[row].sum()) - 1)]
        for row in range(len(tokens))
    ]
    means = [np.mean(row) for row in of_rows]
    return np.mean(means) if per_sequence else np.mean([cost for row in of_rows for cost in row])


@pytest.mark.parametrize("per_sequence", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_total_is_the_heads_loss_and_half_the_language_models(per_sequence):
    batch = batch_of(4)
    loss = replace(WEIGHTED, normalize_by="sequences" if per_sequence else "target_tokens")
    total, predictions = total_of(GPT, batch, loss)
    log_probs = jax.nn.log_softmax(predictions.heads["sequence_classification"], axis=-1)
    of_head = -np.mean([log_probs[row, label] for row, label in enumerate(batch.sequence_labels)])
    of_text = lm_loss_by_hand(
        predictions.logits, batch.encoder_input_tokens, batch.encoder_segment_ids, per_sequence=per_sequence
    )
    assert total == pytest.approx(of_head + 0.5 * of_text, rel=1e-5)
    without, _ = total_of(GPT, batch, LossConfig(z_loss=0.0))
    assert without == pytest.approx(of_head, rel=1e-5)


def test_every_choice_is_text_to_predict():
    config = replace(GPT, task="multiple_choice")
    batch = batch_of(4, 2, num_labels=2)
    total, predictions = total_of(config, batch, WEIGHTED, "multiple_choice")
    scores = jax.nn.log_softmax(predictions.heads["multiple_choice"].reshape(4, 2), axis=-1)
    of_head = -np.mean([scores[row, label] for row, label in enumerate(batch.sequence_labels)])
    flat = [stream.reshape(8, 8) for stream in (batch.encoder_input_tokens, batch.encoder_segment_ids)]
    of_text = lm_loss_by_hand(predictions.logits, *flat, per_sequence=False)
    assert total == pytest.approx(of_head + 0.5 * of_text, rel=1e-5)


def test_both_orders_are_added_before_the_linear_layer():
    batch = batch_of(3, 2)
    model = replace(GPT, keep_lm_head=False).build(jax.random.key(0))
    predictions = predict(model, batch)
    pooled = np.asarray(predictions.pooled).reshape(3, 2, -1).sum(1)
    kernel = np.asarray(model.heads.scores["sequence_classification"].projection.kernel[...])
    log_probs = jax.nn.log_softmax(jnp.asarray(pooled @ kernel), axis=-1)
    measured = measure_sequences(batch, predictions.heads, "classification")
    assert measured is not None
    expected = [-log_probs[row, label] for row, label in enumerate(batch.sequence_labels)]
    np.testing.assert_allclose(measured.losses, expected, rtol=1e-5)


def test_both_orders_of_a_number_are_added():
    batch = batch_of(3, 2)._replace(
        sequence_labels=None, sequence_values=np.array([1.0, 2.0, 3.0], np.float32)
    )
    scores = jnp.arange(6.0).reshape(6, 1)
    measured = measure_sequences(batch, {"sequence_classification": scores}, "regression")
    assert measured is not None
    np.testing.assert_allclose(measured.losses, [(1 - 1) ** 2, (5 - 2) ** 2, (9 - 3) ** 2])


def test_the_output_layer_is_kept_next_to_the_head():
    config = with_lm_head(replace(GPT, keep_lm_head=False), ("sequence_classification", 3, None))
    assert config == GPT
    untied = replace(GPT, tie_word_embeddings=False)
    paths = parameters.flatten(parameters.abstract(untied)[1])
    assert {
        "heads/lm_head/projection/kernel",
        "heads/scores/sequence_classification/projection/kernel",
    } <= set(paths)


def test_what_cannot_have_an_auxiliary_loss_is_refused():
    bert = BertConfig(
        vocab_size=16,
        model_dim=8,
        mlp_dim=8,
        num_heads=2,
        num_layers=1,
        task="sequence_classification",
    )
    with pytest.raises(ValueError, match=r"auxiliary_lm_weight needs a decoder.* a BertConfig is none"):
        with_lm_head(bert, ("sequence_classification", 2, None))
    with pytest.raises(ValueError, match=r"this run trains no head\. Leave auxiliary_lm_weight out"):
        with_lm_head(GPT, None)
    with pytest.raises(ValueError, match="a head for the classes of tokens, which are its targets"):
        with_lm_head(GPT, ("token_classification", 2, None))
    with pytest.raises(ValueError, match=r"auxiliary_lm_weight is 0\.0; give a positive number, or None"):
        LossConfig(auxiliary_lm_weight=0)
    with pytest.raises(
        ValueError, match=r"'pairs' reads pairs in both orders .*a BertConfig has another head"
    ):
        check_head(bert, ("sequence_classification", 2, None), what="mixture 'pairs'", adds_rows=True)
