"""Losses against a teacher's predictions, next to the same sums written in numpy."""

import itertools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model.families.family import Predictions
from t5x_like.text.objectives.objective import LabelLoss
from t5x_like.training.losses import LossConfig, normalize, with_targets
from t5x_like.training.losses.soft_targets import (
    binary_divergence,
    divergence,
    kept_outputs,
    predictions_of,
    top_divergence,
)
from t5x_like.training.methods.distillation import Distillation
from t5x_like.training.methods.method import LossContext
from t5x_like.training.microbatches import Microbatch

RNG = np.random.default_rng(0)
SEGMENTS = np.array([[1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 0, 0]], np.int32)
REAL = SEGMENTS > 0


def drawn(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def distillation(**options: Any) -> Distillation:
    return Distillation(
        teacher="none",
        **{"soft_targets_weight": 0.0, "hidden_states_weight": 0.0, "own_loss_weight": 0.0, **options},
    )


def loss_of(
    student: Predictions,
    teacher: Predictions,
    batch: Batch,
    config: Distillation,
    label_loss: LabelLoss | None = None,
    **options: Any,
):
    batch, settings = with_targets(batch, LossConfig()), LossConfig(z_loss=0.0, **options)
    weights, normalizers = normalize(batch, settings, label_loss)
    config = replace(config, loss=settings)
    microbatch = Microbatch(batch, weights, {})
    context = LossContext(normalizers, 1, jax.random.key(0), {}, label_loss)
    taught = config.with_teacher(student, teacher, microbatch, context)
    return config.total(taught, microbatch, context, label_weight=config.own_loss_weight)


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def kl(student: np.ndarray, teacher: np.ndarray, temperature: float) -> np.ndarray:
    """KL(teacher || student) of softened distributions, times T squared, summed word by word."""
    teacher_probs, student_probs = softmax(teacher / temperature), softmax(student / temperature)
    words = range(teacher_probs.shape[-1])
    return (
        sum(teacher_probs[..., k] * np.log(teacher_probs[..., k] / student_probs[..., k]) for k in words)
        * temperature**2
    )


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("...d,...d->...", a, b) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def tokens(**options: Any) -> Batch:
    targets = RNG.integers(0, 7, SEGMENTS.shape).astype(np.int32)
    weights = (REAL * np.array([[1, 0, 1, 1, 0, 0], [0, 0, 1, 1, 0, 0]])).astype(np.float32)
    return Batch(
        encoder_input_tokens=targets,
        encoder_segment_ids=SEGMENTS,
        target_tokens=targets,
        loss_weights=weights,
        **options,
    )


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
def test_soft_targets_are_the_mean_divergence_over_real_tokens(temperature: float) -> None:
    student, teacher = drawn(2, 6, 7), drawn(2, 6, 7)
    config = distillation(soft_targets_weight=3.0, temperature=temperature)
    result, _ = loss_of(Predictions(logits=student), Predictions(logits=teacher), tokens(), config)
    assert float(result) == pytest.approx(3 * kl(student, teacher, temperature)[REAL].mean(), rel=1e-5)


@pytest.mark.parametrize("normalize_by", ["target_tokens", "sum", "sequences"])
def test_soft_targets_of_targets_have_the_weights_of_the_own_loss(normalize_by: Any) -> None:
    student, teacher, batch = drawn(2, 6, 7), drawn(2, 6, 7), tokens()
    config = distillation(soft_targets_weight=3.0, temperature=2.0, soft_target_tokens="targets")
    options = {"normalize_by": normalize_by}
    result, totals = loss_of(
        Predictions(logits=student), Predictions(logits=teacher), batch, config, **options
    )
    losses = kl(student, teacher, 2.0)
    is_target = batch.loss_weights > 0
    wanted = {
        "target_tokens": losses[is_target].mean(),
        "sum": losses[is_target].sum(),
        # Each of the three examples has its own mean.
        "sequences": np.mean([losses[is_target & (k == SEGMENTS) & row].mean() for k, row in _examples()]),
    }[normalize_by]
    assert float(result) == pytest.approx(3 * wanted, rel=1e-5)
    logged = totals.measures["soft_target_loss"]
    mean = wanted if normalize_by != "sum" else losses[is_target].mean()
    assert float(logged.total / logged.count) == pytest.approx(mean, rel=1e-5)


def _examples() -> list[tuple[int, np.ndarray]]:
    first = np.array([[True], [False]])
    return [(1, first), (2, first), (1, ~first)]


def test_padded_vocabularies_of_different_sizes_are_compared_where_both_have_words() -> None:
    student_logits, teacher_logits = drawn(2, 6, 7), drawn(2, 6, 7)
    wanted = kl(student_logits, teacher_logits, 2.0)
    pads = {"constant_values": -1e10}
    wide = (
        np.pad(student_logits, ((0, 0), (0, 0), (0, 5)), **pads),
        np.pad(teacher_logits, ((0, 0), (0, 0), (0, 2)), **pads),
    )
    for student, teacher in (wide, (wide[0], teacher_logits), (student_logits, wide[1]), (wide[1], wide[0])):
        swapped = student is wide[1]
        expected = kl(teacher_logits, student_logits, 2.0) if swapped else wanted
        np.testing.assert_allclose(divergence(student, teacher, 2.0), expected, rtol=1e-5)
    # Ids that only the student has get none of the teacher's probability, but take some of the student's.
    more = np.concatenate([student_logits, drawn(2, 6, 3)], -1)
    padded = np.concatenate([teacher_logits, np.full((2, 6, 3), -50.0, np.float32)], -1)
    np.testing.assert_allclose(divergence(more, teacher_logits, 2.0), kl(more, padded, 2.0), rtol=1e-4)


def test_the_most_likely_tokens_give_a_lower_bound_that_is_exact_with_all_of_them() -> None:
    student, teacher, batch = drawn(2, 6, 7), 3 * drawn(2, 6, 7), tokens()
    exact, bounds = kl(student, teacher, 2.0), []
    for kept in (1, 3, 6, 7, 100):
        padded = np.pad(teacher, ((0, 0), (0, 0), (0, 5)), constant_values=-1e10)
        outputs = kept_outputs(
            Predictions(logits=padded), batch, temperature=2.0, num_logits=kept, vocab_size=7
        )
        top = predictions_of(outputs).logits
        bounds.append(np.asarray(top_divergence(student, top, 2.0)))
        # The others as one word, written out.
        order = np.argsort(-teacher, axis=-1)[..., :kept]
        p, q = softmax(teacher / 2.0), softmax(student / 2.0)
        p_kept, q_kept = (np.take_along_axis(each, order, -1) for each in (p, q))
        p_rest, q_rest = 1 - p_kept.sum(-1), 1 - q_kept.sum(-1)
        wanted = (p_kept * np.log(p_kept / q_kept)).sum(-1)
        if kept < 7:
            wanted = wanted + p_rest * np.log(p_rest / q_rest)
        np.testing.assert_allclose(bounds[-1], 4 * wanted, rtol=1e-3, atol=1e-4)
    for smaller, larger in itertools.pairwise(bounds):
        assert (smaller <= larger + 1e-4).all()
    np.testing.assert_allclose(bounds[-1], exact, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        bounds[-3], exact, rtol=1e-3, atol=1e-4
    )  # without one word, the rest is that word
    assert np.mean(bounds[0]) < np.mean(exact) - 0.01


def test_hidden_states_count_by_their_angle_at_real_tokens() -> None:
    student, teacher = drawn(2, 6, 5), drawn(2, 6, 5)
    config = distillation(hidden_states_weight=4.0)
    result, totals = loss_of(
        Predictions(encoder_output=student, logits=drawn(2, 6, 7)),
        Predictions(encoder_output=7 * teacher),
        tokens(),
        config,
    )
    assert float(result) == pytest.approx(4 * (1 - cosine(student, teacher)[REAL]).mean(), rel=1e-5)
    assert float(totals.measures["encoder_cosine_loss"].count) == REAL.sum()
    assert float(totals.measures["decoder_cosine_loss"].count) == 0


def test_both_stacks_of_an_encoder_decoder_count_over_their_own_tokens() -> None:
    shorter = SEGMENTS[:, :4]
    batch = tokens()._replace(
        encoder_input_tokens=shorter,
        encoder_segment_ids=shorter,
        decoder_input_tokens=SEGMENTS,
        decoder_segment_ids=SEGMENTS,
    )
    outputs = {name: (drawn(2, 4, 5), drawn(2, 4, 5)) for name in ("encoder_output",)}
    outputs["decoder_output"] = (drawn(2, 6, 5), drawn(2, 6, 5))
    student, teacher = (
        Predictions(**{name: pair[side] for name, pair in outputs.items()}) for side in (0, 1)
    )
    result, _ = loss_of(
        student._replace(logits=drawn(2, 6, 7)), teacher, batch, distillation(hidden_states_weight=1.0)
    )
    wanted = (1 - cosine(*outputs["encoder_output"])[shorter > 0]).mean()
    wanted += (1 - cosine(*outputs["decoder_output"])[REAL]).mean()
    assert float(result) == pytest.approx(wanted, rel=1e-5)


def test_heads_are_compared_on_labeled_sequences() -> None:
    config = distillation(soft_targets_weight=2.0, temperature=2.0)
    batch = Batch(encoder_input_tokens=SEGMENTS, encoder_segment_ids=SEGMENTS)

    def result(
        name: str, student: np.ndarray, teacher: np.ndarray, batch: Batch, label_loss: LabelLoss | None
    ) -> float:
        heads = (Predictions(heads={name: jnp.asarray(scores)}) for scores in (student, teacher))
        return float(loss_of(*heads, batch, config, label_loss)[0])

    student, teacher = drawn(2, 3), drawn(2, 3)
    labels = batch._replace(sequence_labels=np.array([1, -1], np.int32))
    both = batch._replace(sequence_labels=np.array([1, 0], np.int32))
    assert result("sequence_classification", student, teacher, labels, "classification") == pytest.approx(
        2 * kl(student, teacher, 2.0)[0], rel=1e-5
    )
    assert result("sequence_classification", student, teacher, both, "classification") == pytest.approx(
        2 * kl(student, teacher, 2.0).mean(), rel=1e-5
    )
    values = batch._replace(sequence_values=np.array([np.nan, 2.0], np.float32))
    errors = (student[1, 0] - teacher[1, 0]) ** 2
    assert result(
        "sequence_classification", student[:, :1], teacher[:, :1], values, "regression"
    ) == pytest.approx(2 * errors, rel=1e-5)
    student, teacher = drawn(2, 6, 2), drawn(2, 6, 2)
    spans = batch._replace(sequence_spans=np.array([[0, 1], [-1, -1]], np.int32))
    of_ends = [kl(student[0, :5, end], teacher[0, :5, end], 2.0) for end in (0, 1)]
    assert result("question_answering", student, teacher, spans, "question_answering") == pytest.approx(
        2 * np.mean(of_ends), rel=1e-5
    )
    choices = Batch(
        encoder_input_tokens=np.ones((2, 3, 4), np.int32), sequence_labels=np.array([0, 2], np.int32)
    )
    student, teacher = drawn(6, 1), drawn(6, 1)
    wanted = kl(student.reshape(2, 3), teacher.reshape(2, 3), 2.0).mean()
    assert result("multiple_choice", student, teacher, choices, "multiple_choice") == pytest.approx(
        2 * wanted, rel=1e-5
    )
    tags = tokens()
    student, teacher = drawn(2, 6, 4), drawn(2, 6, 4)
    assert result("token_classification", student, teacher, tags, None) == pytest.approx(
        2 * kl(student, teacher, 2.0)[REAL].mean(), rel=1e-5
    )


def test_the_three_parts_are_weighed_and_added() -> None:
    batch = tokens()
    pair = [Predictions(logits=drawn(2, 6, 7), encoder_output=drawn(2, 6, 5)) for _ in range(2)]
    names = ("soft_targets_weight", "hidden_states_weight", "own_loss_weight")
    alone = []
    for name in names:
        # Without any loss of the teacher there is no distillation, so the own loss comes from the others' difference.
        config = distillation(**{name: 1.0, "hidden_states_weight": 1.0})
        alone.append(float(loss_of(*pair, batch, config)[0]))
    alone = [alone[0] - alone[1], alone[1], alone[2] - alone[1]]
    assert min(alone) > 0.01
    config = distillation(soft_targets_weight=5.0, hidden_states_weight=1.5, own_loss_weight=2.0)
    wanted = 5 * alone[0] + 1.5 * alone[1] + 2 * alone[2]
    assert float(loss_of(*pair, batch, config)[0]) == pytest.approx(wanted, rel=1e-4)
    probabilities = softmax(np.asarray(pair[0].logits))
    picked = -np.log(np.take_along_axis(probabilities, batch.target_tokens[..., None], -1)[..., 0])
    assert alone[2] == pytest.approx(picked[batch.loss_weights > 0].mean(), rel=1e-4)


def test_no_gradient_reaches_the_teacher_and_none_pulls_on_a_student_that_equals_it() -> None:
    logits, states = drawn(2, 6, 7), drawn(2, 6, 5)
    config = distillation(soft_targets_weight=1.0, hidden_states_weight=1.0)

    def loss(student: Any, teacher: Any) -> jax.Array:
        return loss_of(Predictions(*student), Predictions(*teacher), tokens(), config)[0]

    other = (drawn(2, 6, 7), drawn(2, 6, 5))
    own, of_teacher = jax.grad(loss, argnums=(0, 1))((logits, states), other)
    assert all(np.any(leaf) for leaf in own)
    assert not any(np.any(leaf) for leaf in of_teacher)
    assert float(loss((logits, states), (logits, states))) == pytest.approx(0, abs=1e-5)
    for leaf in jax.grad(loss)((logits, states), (logits, states)):
        np.testing.assert_allclose(leaf, 0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature is 0.0; give a positive number"),
        ({"soft_targets_weight": -1.0}, "soft_targets_weight is -1.0; give 0 or more"),
        ({"num_logits": 0}, "num_logits is 0; give at least 1"),
        ({"logits_dir": "logits"}, "logits_dir keeps no hidden states; set hidden_states_weight=0"),
        ({"soft_targets_weight": 0.0, "hidden_states_weight": 0.0}, "nothing is learned from the teacher"),
    ],
)
def test_weights_that_make_no_distillation_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Distillation(teacher="none", **options)


def test_any_number_of_classes_have_the_divergence_of_each_class() -> None:
    """The values are torch 2.13's: ``kl_divergence`` of ``Bernoulli(logits=…)``, averaged, times T squared."""
    student = np.array([[2.0, -1.0, 0.5], [30.0, -30.0, 0.0]], np.float32)
    teacher = np.array([[1.0, 0.0, -3.0], [-30.0, -20.0, 4.0]], np.float32)
    wanted = {1.0: [0.3207404427793011, 10.201017477112847], 2.0: [0.48555508878975706, 20.437314726336666]}
    for temperature, values in wanted.items():
        np.testing.assert_allclose(binary_divergence(student, teacher, temperature), values, rtol=1e-5)
    np.testing.assert_array_equal(binary_divergence(teacher, teacher, 2.0), [0.0, 0.0])
    labels = np.array([[1, 0, 0], [0, 0, 0], [-1, -1, -1]], np.int32)  # a class, none, unlabeled
    own, taught = (np.concatenate([each, drawn(1, 3)]) for each in (student, teacher))
    loss = loss_of(
        Predictions(heads={"sequence_classification": jnp.asarray(own)}),
        Predictions(heads={"sequence_classification": jnp.asarray(taught)}),
        Batch(
            encoder_input_tokens=np.ones((3, 4), np.int32),
            encoder_segment_ids=np.ones((3, 4), np.int32),
            sequence_classes=labels,
        ),
        distillation(soft_targets_weight=1.0, temperature=2.0),
        "multi_label",
    )[0]
    np.testing.assert_allclose(loss, np.mean(wanted[2.0]), rtol=1e-5)
