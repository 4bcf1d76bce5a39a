"""Prediction of tokens beyond the next one: shifts, packed rows, gradients, and what the model is without it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.family import Predictions
from t5x_like.model.layers.masks import AttentionMask
from t5x_like.model.layers.self_attention import AttentionContext
from t5x_like.model.zoo.deepseek_v3 import DeepseekV3Config
from t5x_like.training.losses import LossConfig, measure, normalize, total

MODEL = DeepseekV3Config(
    vocab_size=24,
    model_dim=16,
    num_layers=2,
    num_heads=2,
    mlp_dim=16,
    moe_mlp_dim=8,
    num_experts=4,
    num_experts_per_token=2,
    first_k_dense_replace=1,
    n_group=1,
    topk_group=1,
    q_lora_rank=None,
    kv_lora_rank=8,
    qk_nope_head_dim=4,
    qk_rope_head_dim=4,
    v_head_dim=4,
    num_nextn_predict_layers=2,
    mtp_loss_weight=0.5,
)
NAMES = ("further_token_1_cross_entropy", "further_token_2_cross_entropy")


@pytest.fixture(scope="module")
def model() -> Any:
    return MODEL.build(jax.random.key(0))


@pytest.fixture(scope="module")
def predict(model: Any) -> Callable[[Batch], Predictions]:
    return jax.jit(model)


def rows(*lengths: int, seed: int = 0) -> Batch:
    """Return one row of packed examples, each beginning with id 0, and two places of padding."""
    rng = np.random.default_rng(seed)
    examples = [rng.integers(1, 24, length + 1) for length in lengths]
    inputs = np.concatenate([[0, *each[:-2]] for each in examples] + [[0, 0]])
    targets = np.concatenate([each[:-1] for each in examples] + [[0, 0]])
    segments = np.repeat(np.arange(1, len(lengths) + 2), [*lengths, 2]) % (len(lengths) + 1)
    positions = np.concatenate([np.arange(length) for length in (*lengths, 2)])
    return Batch(
        decoder_input_tokens=jnp.asarray(inputs[None], jnp.int32),
        decoder_segment_ids=jnp.asarray(segments[None], jnp.int32),
        decoder_positions=jnp.asarray(positions[None], jnp.int32),
        target_tokens=jnp.asarray(targets[None], jnp.int32),
        loss_weights=jnp.asarray(segments[None] > 0, jnp.float32),
    )


def example(batch: Batch, number: int) -> Batch:
    """Return an example of a packed row, alone in a row of the same length."""
    is_own = np.asarray(batch.decoder_segment_ids)[0] == number
    padding = ((0, 0), (0, int(np.sum(~is_own))))
    alone = jax.tree.map(lambda array: jnp.pad(array[:, is_own], padding), batch)
    return alone._replace(decoder_segment_ids=(alone.loss_weights > 0).astype(jnp.int32))


def losses(predictions: Predictions) -> list[tuple[float, float]]:
    extra = predictions.extra_losses or {}
    return [(float(extra[name].total), float(extra[name].count)) for name in NAMES]


def test_a_position_joins_its_state_with_the_token_before_the_one_that_it_predicts(
    model: Any, predict: Callable[[Batch], Predictions]
) -> None:
    batch = rows(9)
    predictions = predict(batch)
    inputs, targets = (np.asarray(each)[0, :9] for each in (batch.decoder_input_tokens, batch.target_tokens))
    hidden, table = predictions.decoder_output[:, :9], np.asarray(model.embedding.tokens.table[...])
    for distance, (loss, count) in enumerate(losses(predictions), start=1):
        module, num = model.multi_token.modules[str(distance)], 9 - distance
        read = jnp.asarray(table[inputs[distance : distance + num]])[None]
        joined = jnp.concatenate([module.hidden_norm(hidden[:, :num]), module.embedding_norm(read)], axis=-1)
        segments = jnp.ones((1, num), jnp.int32)
        mask = AttentionMask(query_segment_ids=segments, key_segment_ids=segments, causal=True)
        hidden = module.stack(module.join(joined), AttentionContext(mask=mask, real=segments > 0)).output
        scores = np.asarray(jax.nn.log_softmax(model.heads.lm_head.logits(hidden, None)))[0]
        expected = -scores[np.arange(num), targets[distance : distance + num]].sum()
        assert (loss, count) == (pytest.approx(expected, rel=1e-5), num)


def test_a_packed_row_has_the_losses_of_its_examples(predict: Callable[[Batch], Predictions]) -> None:
    batch = rows(2, 1, 6)
    alone = np.sum([losses(predict(example(batch, number))) for number in (1, 2, 3)], axis=0)
    np.testing.assert_allclose(losses(predict(batch)), alone, rtol=1e-5)
    assert alone[:, 1].tolist() == [1 + 0 + 5, 0 + 0 + 4]


def test_targets_count_by_their_own_weights(predict: Callable[[Batch], Predictions]) -> None:
    batch = rows(9)
    answer = batch._replace(loss_weights=batch.loss_weights * (jnp.arange(11) >= 6)[None])
    assert [count for _, count in losses(predict(answer))] == [3, 3]


def test_scores_of_the_next_token_are_those_of_a_model_without_further_ones(
    predict: Callable[[Batch], Predictions],
) -> None:
    other = replace(MODEL, num_nextn_predict_layers=0, mtp_loss_weight=0.3).build(jax.random.key(0))
    batch = rows(9)
    expected = jax.jit(other)(batch)
    np.testing.assert_allclose(predict(batch).logits, expected.logits, rtol=1e-5, atol=1e-6)
    assert expected.extra_losses is None


def test_the_losses_are_learned_and_logged(model: Any) -> None:
    graphdef, params = parameters.split(model)
    batch = rows(9)
    weights, normalizers = normalize(batch, LossConfig())

    def loss(params: Any) -> tuple[jax.Array, Any]:
        predictions = parameters.merge(graphdef, params)(batch)
        options = {"weights": weights, "normalizers": normalizers, "num_tasks": 1}
        value, totals = total(predictions, batch, LossConfig(), **options)
        return value, (totals, predictions)

    (value, (totals, predictions)), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    of_next = float(totals.loss) / 9 + float(predictions.routing.loss)
    further = sum(each for each, _ in losses(predictions)) / 9
    assert float(value) == pytest.approx(of_next + 0.5 / 2 * further, rel=1e-5)
    assert set(NAMES) <= set(measure(predictions, batch, LossConfig(), 1).measures)
    assert model.measured == NAMES
    flat = parameters.flatten(gradients["multi_token"])
    assert all(np.abs(leaf).max() > 0 for path, leaf in flat.items() if "correction_bias" not in path)


def test_options_that_can_have_no_effect_are_refused() -> None:
    with pytest.raises(ValueError, match="mtp_loss_weight"):
        replace(MODEL, num_nextn_predict_layers=0)
    with pytest.raises(ValueError, match="the task is sequence_classification; give 0"):
        replace(MODEL, task="sequence_classification", num_labels=2)
    with pytest.raises(ValueError, match="weight of further tokens is 0; give a positive number"):
        replace(MODEL, mtp_loss_weight=0.0).build(jax.random.key(0))
