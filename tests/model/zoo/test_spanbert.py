"""SpanBERT: words of a masked span from the tokens at its ends, against a slow loop over spans."""

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import t5x_like
from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.span_boundary import spans_of
from t5x_like.model.zoo.bert import BERT
from t5x_like.model.zoo.spanbert import SPANBERT, SpanBertConfig

CONFIG = SpanBertConfig(
    vocab_size=11,
    model_dim=8,
    mlp_dim=12,
    num_heads=2,
    num_layers=1,
    max_position_embeddings=12,
    max_span_length=3,
    span_position_dim=5,
    norm_epsilon=1e-6,
)
# Spans of several lengths, one of them longer than the table; two that meet between examples; one at a row's end.
SEGMENTS = np.array([[1] * 12, [1] * 5 + [2] * 5 + [0, 0]])
TARGETS = np.array([[0, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1], [0, 0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0]])


def loop_over_spans() -> list[tuple[int, int, int]]:
    """Row, first and last place of every span."""
    spans = []
    for row, (targets, segments) in enumerate(zip(TARGETS, SEGMENTS, strict=True)):
        for place, target in enumerate(targets):
            last = spans[-1] if spans else (-1, -1, -1)
            if target and last[0] == row and last[2] == place - 1 and segments[place - 1] == segments[place]:
                spans[-1] = (row, last[1], place)
            elif target:
                spans.append((row, place, place))
    return spans


def test_spans_are_runs_of_targets_inside_a_segment() -> None:
    starts, ends = map(np.asarray, spans_of(jnp.asarray(TARGETS > 0), jnp.asarray(SEGMENTS)))
    spans = loop_over_spans()
    assert spans == [(0, 1, 2), (0, 4, 8), (0, 11, 11), (1, 4, 4), (1, 5, 5), (1, 7, 8)]
    for row, start, end in spans:
        assert (starts[row, start : end + 1] == start).all()
        assert (ends[row, start : end + 1] == end).all()


def test_scores_are_those_of_the_papers_formula() -> None:
    ids = np.random.default_rng(0).integers(1, 11, TARGETS.shape)
    batch = Batch(
        encoder_input_tokens=jnp.asarray(ids),
        encoder_segment_ids=jnp.asarray(SEGMENTS),
        loss_weights=jnp.asarray(TARGETS, jnp.float32),
    )
    graphdef, params = parameters.split(CONFIG.build(jax.random.key(0)))
    # Fresh norms and biases would hide a confusion of them.
    flat = {
        path: array + 0.3 * jax.random.normal(jax.random.fold_in(jax.random.key(1), index), array.shape)
        for index, (path, array) in enumerate(parameters.flatten(params).items())
    }
    predictions = jax.jit(lambda params: parameters.merge(graphdef, params)(batch))(
        parameters.unflatten(flat)
    )
    assert predictions.heads is not None
    scores = np.asarray(predictions.heads["span_boundary"])[..., :11]
    x = np.asarray(predictions.encoder_output)
    weights = {path: np.asarray(array) for path, array in flat.items()}
    for row, start, end in loop_over_spans():
        for place in range(start, end + 1):
            left, right = x[row, start - 1], x[row, min(end + 1, x.shape[1] - 1)]
            inside = weights["span_boundary/positions/table"][min(place - start, 2)]
            h = layer(np.concatenate([left, right, inside]), weights, "span_boundary/first")
            h = layer(h, weights, "span_boundary/words/transform")
            wanted = weights["embedding/tokens/table"][:11] @ h + weights["span_boundary/words/bias"][:11]
            np.testing.assert_allclose(scores[row, place], wanted, atol=1e-4)


def layer(x: np.ndarray, weights: dict[str, np.ndarray], path: str) -> np.ndarray:
    """LayerNorm(GELU(W x))."""
    x = x @ weights[f"{path}/dense/kernel"] + weights[f"{path}/dense/bias"]
    x = np.array([value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x])
    x = (x - x.mean()) / np.sqrt(x.var() + CONFIG.norm_epsilon)
    return x * weights[f"{path}/norm/scale"] + weights[f"{path}/norm/bias"]


def test_without_targets_or_after_pretraining_it_is_a_bert() -> None:
    batch = Batch(encoder_input_tokens=jnp.ones((1, 3), jnp.int32))
    assert CONFIG.build(jax.random.key(0))(batch).heads == {}
    fine_tuned = replace(CONFIG, task="question_answering")
    assert fine_tuned.encoder == fine_tuned.bert.encoder


def test_export_leaves_the_head_behind_and_says_so(tmp_path: Any) -> None:
    model = CONFIG.build(jax.random.key(0))
    with pytest.warns(UserWarning, match="without the span-boundary head"):
        t5x_like.export_hugging_face(model, tmp_path / "out", config=CONFIG)
    read = t5x_like.from_pretrained(tmp_path / "out")
    assert read.config == CONFIG.bert
    ids = np.array([[1, 2, 3]])
    wanted = model(Batch(encoder_input_tokens=jnp.asarray(ids))).logits
    assert wanted is not None
    np.testing.assert_allclose(read(input_ids=ids).logits, wanted[..., :11], rtol=1e-5, atol=1e-5)


def test_what_is_exported_is_all_of_bert() -> None:
    names = [row.hf_name for row in SPANBERT.hugging_face_weights(CONFIG)]
    assert names == [row.hf_name for row in BERT.hugging_face_weights(CONFIG.bert)]
    fine_tuned = replace(CONFIG, task="question_answering")
    assert SPANBERT.to_hugging_face(fine_tuned)["architectures"] == ["BertForQuestionAnswering"]
