"""Curves are read as they were logged and drawn so that each can be distinguished."""

import math

import pytest

from t5x_like.io.files import write_jsonl
from t5x_like.reports.curves import Curve, draw_loss_curves, read_curves


def test_curves_are_distinguished_by_task_and_side(tmp_path):
    lines = [
        {
            "step": 10,
            "split": "train",
            "loss": 3.1,
            "cross_entropy": 3.0,
            "cross_entropy/a": 2.0,
            "cross_entropy/b": 4.0,
        },
        {"step": 10, "split": "validation/a", "loss": 2.6, "cross_entropy": 2.5},
        {"step": 10, "split": "evaluation/a", "accuracy": 50.0},
        {"step": 20, "split": "train", "loss": 1.1, "cross_entropy": 1.0, "cross_entropy/a": 1.0},
    ]
    write_jsonl(tmp_path / "metrics.jsonl", lines)
    assert read_curves(tmp_path) == [
        Curve("a", False, [10, 20], [2.0, 1.0]),
        Curve("b", False, [10], [4.0]),
        Curve("a", True, [10], [2.5]),
    ]


def test_losses_of_averaged_weights_are_curves_of_their_own(tmp_path):
    lines = [
        {"step": 10, "split": f"validation/mixture{suffix}", "cross_entropy/a": loss, "cross_entropy/b": 1.0}
        for suffix, loss in (("", 2.0), ("@average", 3.0))
    ]
    write_jsonl(tmp_path / "metrics.jsonl", lines)
    assert [(curve.task, curve.losses) for curve in read_curves(tmp_path)] == [
        ("a", [2.0]),
        ("a@average", [3.0]),
        ("b", [1.0]),
        ("b@average", [1.0]),
    ]


def test_the_loss_is_taken_where_no_cross_entropy_was_logged(tmp_path):
    write_jsonl(tmp_path / "metrics.jsonl", [{"step": 1, "split": "train", "loss": 3.5}])
    assert read_curves(tmp_path) == [Curve("", False, [1], [3.5], is_cross_entropy=False)]


def test_a_log_without_losses_is_refused_by_name(tmp_path):
    write_jsonl(tmp_path / "metrics.jsonl", [{"step": 1, "split": "evaluation/a", "accuracy": 3.5}])
    with pytest.raises(ValueError, match=r"metrics\.jsonl has no line of the split 'train'"):
        read_curves(tmp_path)


def test_a_figure_labels_every_curve_with_its_last_value():
    curves = [
        Curve("", False, [1, 2], [3.0, 2.0]),
        Curve("psalms", True, [1, 2], [3.5, 2.25]),
    ]
    svg = draw_loss_curves(curves, title="run", unigram_entropy=5.5)
    assert svg.startswith("<svg")
    for label in ("training  2.00", "validation  2.25", "unigram entropy  5.50"):
        assert label in svg


def test_a_diverged_run_is_drawn_and_says_nan():
    svg = draw_loss_curves([Curve("", False, [1, 2], [3.0, math.nan])], title="run")
    assert "training  nan" in svg


def test_the_same_curves_give_the_same_bytes():
    curves = [Curve("", False, [1, 2], [3.0, 2.0])]
    assert draw_loss_curves(curves, title="run") == draw_loss_curves(curves, title="run")
