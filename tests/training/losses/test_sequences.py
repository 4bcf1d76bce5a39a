"""Losses of encoder heads: each against its formula, and multiple choice in any microbatches."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.shard import place
from t5x_like.training.losses import LossConfig, normalize, with_targets
from t5x_like.training.losses.sequences import measure_sequences
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.metrics import summarize
from t5x_like.training.state import new_state, plan_state, shardings_of
from t5x_like.training.step import train_step

RNG = np.random.default_rng(0)
VOCAB = 16


def log_softmax(scores):
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def batch_of(**labels):
    return Batch(encoder_input_tokens=np.ones((4, 6), np.int32), **labels)


def num_labeled(batch, label_loss):
    return normalize(with_targets(batch, LossConfig()), LossConfig(), label_loss)[1].sequences


def test_a_class_costs_its_log_probability():
    scores = RNG.normal(size=(4, 3)).astype(np.float32)
    labels = np.array([0, 2, -1, 1], np.int32)
    measured = measure_sequences(
        batch_of(sequence_labels=labels), {"sequence_classification": jnp.asarray(scores)}, "classification"
    )
    assert measured is not None
    expected = [-log_softmax(scores)[row, label] if label >= 0 else 0.0 for row, label in enumerate(labels)]
    np.testing.assert_allclose(measured.losses, expected, rtol=1e-5)
    np.testing.assert_array_equal(measured.correct, scores.argmax(-1) == labels)
    assert measured.labeled.tolist() == [1, 1, 0, 1]


def test_one_output_and_class_labels_are_refused_as_their_loss_is_constant():
    batch = batch_of(sequence_labels=np.zeros(4, np.int32))
    with pytest.raises(ValueError, match="has one output, whose cross entropy is 0"):
        measure_sequences(batch, {"sequence_classification": jnp.ones((4, 1))}, "classification")


def test_a_number_costs_its_squared_error():
    values = np.array([1.0, 2.5, np.nan, 4.0], np.float32)
    batch = batch_of(sequence_values=values)
    measured = measure_sequences(
        batch, {"sequence_classification": jnp.array([[1.25], [4.0], [9.0], [4.0]])}, "regression"
    )
    assert measured is not None
    np.testing.assert_allclose(measured.losses, [0.0625, 2.25, 0.0, 0.0])
    assert measured.correct.tolist() == [1, 0, 0, 1]
    assert float(num_labeled(batch, "regression")) == 3


def test_a_missing_number_gives_no_gradient():
    def loss(scores):
        measured = measure_sequences(
            batch_of(sequence_values=jnp.array([np.nan, 1.0, 1.0, 1.0])),
            {"sequence_classification": scores},
            "regression",
        )
        assert measured is not None
        return measured.losses.sum()

    gradient = jax.grad(loss)(jnp.full((4, 1), 3.0))
    np.testing.assert_allclose(gradient[:, 0], [0, 4, 4, 4])


def test_several_classes_cost_the_mean_of_their_binary_cross_entropies():
    scores = np.array([[2.0, -1.0, 0.5], [-90.0, 90.0, 3.0], [1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]], np.float32)
    labels = np.array([[1, 0, 0], [0, 1, 1], [-1, -1, -1], [0, 0, 0]], np.int32)
    batch = batch_of(sequence_classes=labels)
    measured = measure_sequences(batch, {"sequence_classification": jnp.asarray(scores)}, "multi_label")
    assert measured is not None
    # torch.nn.functional.binary_cross_entropy_with_logits(…, reduction="none").mean(-1)
    np.testing.assert_allclose(measured.losses, [0.4714222, 0.0161958, 0.0, 0.3132617], rtol=1e-5)
    assert measured.correct.tolist() == [0, 1, 0, 1]
    assert measured.labeled.tolist() == [1, 1, 0, 1]
    assert float(num_labeled(batch, "multi_label")) == 3


def test_an_answer_costs_the_mean_of_both_ends_among_real_tokens():
    scores = RNG.normal(size=(4, 6, 2)).astype(np.float32)
    real = np.array([[1, 1, 1, 1, 0, 0]] * 4, np.int32)
    spans = np.array([[1, 3], [0, 0], [-1, -1], [2, 2]], np.int32)
    batch = batch_of(encoder_segment_ids=real, sequence_spans=spans)
    measured = measure_sequences(batch, {"question_answering": jnp.asarray(scores)}, "question_answering")
    assert measured is not None
    for row, (first, last) in enumerate(spans):
        ends = log_softmax(scores[row, :4].T)
        expected = 0.0 if first < 0 else -(ends[0, first] + ends[1, last]) / 2
        np.testing.assert_allclose(measured.losses[row], expected, rtol=1e-5)
    assert float(num_labeled(batch, "question_answering")) == 3


def test_the_right_choice_is_predicted_among_those_of_its_question():
    scores = np.array([0.0, 1.0, 2.0, 3.0, 0.0, 0.0], np.float32)
    labels = np.array([2, 1], np.int32)
    measured = measure_sequences(
        batch_of(sequence_labels=labels), {"multiple_choice": jnp.asarray(scores)[:, None]}, "multiple_choice"
    )
    assert measured is not None
    np.testing.assert_allclose(
        measured.losses, [-log_softmax(scores[:3])[2], -log_softmax(scores[3:])[1]], rtol=1e-5
    )
    assert measured.correct.tolist() == [1, 0]


def test_labels_that_no_head_speaks_of_are_a_mistake():
    with pytest.raises(
        ValueError, match="no head that predicts them, 'question_answering'; it has sequence_classification"
    ):
        measure_sequences(
            batch_of(sequence_spans=np.zeros((4, 2), np.int32)),
            {"sequence_classification": jnp.zeros((4, 2))},
            "question_answering",
        )


def test_labels_of_sentence_pairs_need_a_head_too():
    with pytest.raises(
        ValueError, match=r"'next_sentence' or 'sentence_order'.* it has none. Give the model the task"
    ):
        measure_sequences(batch_of(sequence_labels=np.zeros(4, np.int32)), {}, "sentence_pairs")


def test_the_loss_is_the_named_one_whatever_labels_a_batch_has():
    batch = batch_of(
        sequence_labels=np.array([0, 1, 0, 1], np.int32), sequence_values=np.full(4, 2.0, np.float32)
    )
    heads = {"sequence_classification": jnp.ones((4, 1))}
    measured = measure_sequences(batch, heads, "regression")
    assert measured is not None
    np.testing.assert_allclose(measured.losses, 1.0)
    assert float(num_labeled(batch, "regression")) == 4
    with pytest.raises(ValueError, match="the loss reads sequence_classes, and the batch has none"):
        num_labeled(batch, "multi_label")


def test_labels_without_a_loss_are_refused():
    with pytest.raises(ValueError, match=r"has sequence_spans and no loss of labels; .* Loader\.label_loss"):
        measure_sequences(batch_of(sequence_spans=np.zeros((4, 2), np.int32)), {}, None)
    assert measure_sequences(batch_of(), {}, None) is None


def model_for(task, num_labels=2):
    return BertConfig(
        vocab_size=VOCAB,
        model_dim=16,
        mlp_dim=32,
        num_heads=2,
        num_layers=1,
        max_position_embeddings=16,
        task=task,
        num_labels=num_labels,
    )


def streams(*shape):
    tokens = RNG.integers(5, VOCAB, shape).astype(np.int32)
    zeros = np.zeros(shape, np.float32)
    return {
        "encoder_input_tokens": tokens,
        "encoder_segment_ids": np.ones(shape, np.int32),
        "target_tokens": np.zeros(shape, np.int32),
        "loss_weights": zeros,
        "task_ids": np.zeros(shape, np.int32),
        "token_types": np.zeros(shape, np.int32),
    }


def summary_after(config, batch, label_loss, *, steps, num_devices=1, num_microbatches=1, head=None):
    mesh = MeshConfig().build(jax.devices()[:num_devices])
    optimizer = AdamW(learning_rate=Constant(value=0.01))
    plan = plan_state(config, optimizer, mesh, num_tasks=1)
    step = train_step(
        plan,
        Supervised(loss=LossConfig(z_loss=0.0)),
        seed=0,
        num_microbatches=num_microbatches,
        label_loss=label_loss,
    )
    step = jax.jit(step, out_shardings=shardings_of(plan.abstract))
    state = new_state(plan, config, seed=0)
    with jax.set_mesh(mesh):
        for _ in range(steps - 1):
            state = step(state, place(batch, mesh))
        before = state["totals"]
        state = step(state, place(batch, mesh))
    last = jax.tree.map(lambda new, old: new - old, state["totals"], before)
    return summarize(last, head=head)


def examples_for(task):
    if task == "multiple_choice":
        tokens = streams(8, 3, 6)
        labels = RNG.integers(0, 3, 8).astype(np.int32)
        tokens["encoder_input_tokens"][np.arange(8), labels, 2] = 3  # only right choices have that token
        return tokens | {"sequence_labels": labels}
    tokens = streams(8, 6)
    inputs = tokens["encoder_input_tokens"]
    if task == "question_answering":
        spans = np.sort(RNG.integers(1, 6, (8, 2)), axis=1).astype(np.int32)
        inputs[np.arange(8), spans[:, 0]], inputs[np.arange(8), spans[:, 1]] = 3, 4
        return tokens | {"sequence_spans": spans}
    if task == "token_classification":
        return tokens | {"target_tokens": inputs % 3, "loss_weights": np.ones((8, 6), np.float32)}
    inputs[:, 0] = np.arange(8) % 2 + 3
    if task == "regression":
        return tokens | {"sequence_values": (np.arange(8) % 2 * 3 + 1).astype(np.float32)}
    if task == "multi_label":
        return tokens | {"sequence_classes": np.array([[1, 0, 1], [0, 0, 0]] * 4, np.int32)}
    return tokens | {"sequence_labels": (np.arange(8) % 2).astype(np.int32)}


@pytest.mark.parametrize(
    ("task", "num_labels", "label_loss"),
    [
        ("sequence_classification", 2, "classification"),
        ("regression", 1, "regression"),
        ("multi_label", 3, "multi_label"),
        pytest.param("multiple_choice", 2, "multiple_choice", marks=pytest.mark.slow),
        pytest.param("token_classification", 3, None, marks=pytest.mark.slow),
        ("question_answering", 2, "question_answering"),
    ],
)
def test_every_head_learns_its_examples_by_heart(task, num_labels, label_loss):
    is_of_sequences = task in ("regression", "multi_label")
    config = model_for("sequence_classification" if is_of_sequences else task, num_labels)
    config = replace(config, problem_type="multi_label" if task == "multi_label" else None)
    summary = summary_after(
        config,
        Batch(**examples_for(task)),
        label_loss,
        steps=100,
        head=(config.task, num_labels, config.problem_type),
    )
    assert summary["loss"] < 0.05
    if task == "regression":
        assert summary["share_within_0.5"] == 1.0
        assert summary["squared_error"] == summary["sequence_squared_error"] == summary["loss"]
        assert not [name for name in summary if "cross_entropy" in name or "accuracy" in name]
    else:
        assert summary["accuracy"] == 1.0


@pytest.mark.slow
def test_choices_stay_together_on_several_devices_and_in_microbatches():
    config, batch = model_for("multiple_choice"), Batch(**examples_for("multiple_choice"))
    whole = summary_after(config, batch, "multiple_choice", steps=4)
    for options in ({"num_devices": 4}, {"num_microbatches": 4}):
        cut = summary_after(config, batch, "multiple_choice", steps=4, **options)
        assert cut["loss"] == pytest.approx(whole["loss"], rel=1e-3)
        assert cut["gradient_norm"] == pytest.approx(whole["gradient_norm"], rel=1e-3)
