"""Sums become means per target token, for the whole and for each task."""

import jax.numpy as jnp
import pytest

from t5x_like.training.metrics import add, summarize, zero_totals


def some_totals(scale: float):
    return zero_totals(2)._replace(
        loss=jnp.float32(6 * scale),
        cross_entropy=jnp.float32(4 * scale),
        correct=jnp.float32(scale),
        target_tokens=jnp.float32(2 * scale),
        gradient_norm=jnp.float32(3),
        steps=jnp.float32(1),
        task_loss=jnp.asarray([1.0, 3.0]) * scale,
        task_tokens=jnp.asarray([1.0, 1.0]) * scale,
    )


def test_batches_weigh_by_their_tokens_and_not_by_their_number():
    summary = summarize(add(some_totals(1.0), some_totals(3.0)), ("words", "glosses"))
    assert summary["loss"] == pytest.approx(3.0)
    assert summary["accuracy"] == pytest.approx(0.5)
    assert summary["gradient_norm"] == pytest.approx(3.0)
    assert summary["cross_entropy/words"] == pytest.approx(1.0)
    assert summary["cross_entropy/glosses"] == pytest.approx(3.0)


def test_a_task_without_a_token_has_no_loss_rather_than_a_zero():
    totals = some_totals(1.0)._replace(task_tokens=jnp.asarray([2.0, 0.0]))
    assert "cross_entropy/glosses" not in summarize(totals, ("words", "glosses"))
