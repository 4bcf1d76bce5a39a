"""Activations by name: the same in a loop over layers or not, edited in place, and free when nothing is recorded."""

from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import named_activations, parameters
from t5x_like.model.named_activations import AffineEdit, Edits, record
from tests.model.tiny_t5 import TINY, graphdef_of, random_batch, weights_of
from tests.model.zoo.tiny_models import TINY as ARCHITECTURES
from tests.training.test_every_architecture import batch_for

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
BATCH = jax.tree.map(jnp.asarray, random_batch())
FEED_FORWARD = "*/feed_forward/activations"
PROBABILITIES = "*/probabilities"


def run(
    config: Any, weights: Any, batch: Any, capture: tuple[str, ...] = (), edits: Edits | None = None
) -> Any:
    """Return the predictions and the captured activations."""
    graphdef = parameters.abstract(config)[0]

    @jax.jit
    def call(weights: Any, batch: Any, edits: Edits) -> Any:
        with record(capture, edits) as captured:
            predictions = parameters.merge(graphdef, weights)(batch)
        return predictions._replace(extra_losses=None, measures=None), captured

    return call(weights, batch, named_activations.as_arguments(edits or {}))


@pytest.fixture(scope="module")
def whole() -> Any:
    return run(TINY, weights_of(TINY), BATCH, ("*",))


def test_every_activation_has_a_name_and_layers(whole):
    shapes = {name: array.shape for name, array in whole[1].items()}
    assert shapes == {
        "encoder/hidden_states": (3, 2, 11, 16),
        "encoder/layer_outputs": (2, 2, 11, 16),
        "encoder/feed_forward/inputs": (2, 2, 11, 16),
        "encoder/feed_forward/activations": (2, 2, 11, 24),
        "encoder/self_attention/probabilities": (2, 2, 2, 11, 11),
        "decoder/hidden_states": (3, 2, 9, 16),
        "decoder/layer_outputs": (2, 2, 9, 16),
        "decoder/feed_forward/inputs": (2, 2, 9, 16),
        "decoder/feed_forward/activations": (2, 2, 9, 24),
        "decoder/self_attention/probabilities": (2, 2, 2, 9, 9),
        "decoder/cross_attention/probabilities": (2, 2, 2, 9, 11),
    }


def test_activations_belong_together(whole):
    predictions, captured = whole
    np.testing.assert_array_equal(captured["decoder/hidden_states"][-1], predictions.decoder_output)
    np.testing.assert_array_equal(captured["decoder/hidden_states"][1], captured["decoder/layer_outputs"][0])
    for name, array in captured.items():
        if name.endswith("probabilities"):
            np.testing.assert_allclose(array.sum(-1), 1.0, rtol=1e-5)
    assert not np.triu(captured["decoder/self_attention/probabilities"], 1).any()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("modernbert", {"num_layers": 7}, marks=pytest.mark.slow),  # slots take turns
        ("xlnet", {}),  # two streams
        pytest.param("switch", {"num_encoder_layers": 4}, marks=pytest.mark.slow),
        pytest.param("albert", {"num_layers": 4}, marks=pytest.mark.slow),
        pytest.param("transfo_xl", {}, marks=pytest.mark.slow),
    ],
)
def test_layers_one_after_another_and_rematerialized_name_what_a_loop_does(name, options):
    config = replace(ARCHITECTURES[name], **options)
    weights = parameters.split(jax.jit(config.build)(jax.random.key(0)))[1]
    batch = jax.tree.map(jnp.asarray, batch_for(config, 0))
    loop = run(config, weights, batch, ("*",))[1]
    no_loop = run(replace(config, scan_layers=False, remat="full"), weights, batch, ("*",))[1]
    assert loop.keys() == no_loop.keys()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), loop, no_loop)
    assert all(np.abs(np.diff(array, axis=0)).max() > 1e-3 for array in loop.values())


def test_an_edit_by_arrays_changes_the_layer_that_it_names_and_those_after_it(whole):
    factors = np.ones((2, 24), np.float32)
    factors[1, :5] = 0.0
    name = "encoder/feed_forward/activations"
    predictions, captured = run(TINY, weights_of(TINY), BATCH, ("encoder/*",), {name: AffineEdit(factors)})
    np.testing.assert_allclose(captured[name], whole[1][name] * factors[:, None, None], **CLOSE)
    before, after = whole[1]["encoder/hidden_states"], captured["encoder/hidden_states"]
    np.testing.assert_allclose(after[:2], before[:2], **CLOSE)
    assert np.abs(after[2] - before[2]).max() > 1e-3
    assert np.abs(predictions.logits - whole[0].logits).max() > 1e-4


def test_hidden_states_of_one_text_patched_into_another_give_its_answer(whole):
    other = random_batch(seed=7)
    donor, captured = run(TINY, weights_of(TINY), other, ("encoder/hidden_states",))

    def patch(x: jax.Array, layer: jax.Array | int) -> jax.Array:
        return jnp.where(layer == 1, captured["encoder/hidden_states"][1], x)

    batch = other._replace(encoder_input_tokens=BATCH.encoder_input_tokens)
    plain = run(TINY, weights_of(TINY), batch)[0].logits
    patched = run(TINY, weights_of(TINY), batch, edits={"encoder/hidden_states": patch})[0].logits
    np.testing.assert_allclose(patched, donor.logits, **CLOSE)
    assert np.abs(plain - donor.logits).max() > 1e-3


def test_gradients_reach_the_arrays_of_an_edit():
    graphdef, weights = graphdef_of(TINY), weights_of(TINY)

    @jax.jit
    def score(offsets: jax.Array) -> jax.Array:
        with record(edits={"decoder/feed_forward/activations": AffineEdit(offsets=offsets)}):
            return parameters.merge(graphdef, weights)(BATCH).logits[0, 3, 5]

    zeros = jnp.zeros((2, 2, 9, 24))
    gradient = jax.grad(score)(zeros)
    changed = zeros.at[0, 0, 2, 7].set(1e-2)
    slope = (score(changed) - score(-changed)) / 2e-2
    np.testing.assert_allclose(gradient[0, 0, 2, 7], slope, rtol=2e-2, atol=1e-5)
    assert np.abs(gradient[:, 0, :4]).max(axis=(1, 2)).min() > 0
    assert not np.asarray(gradient[:, 0, 4:]).any()  # later positions
    assert not np.asarray(gradient[:, 1]).any()  # another row


@contextmanager
def _no_layer(*_: Any) -> Any:
    yield {}


@pytest.mark.slow
def test_a_step_without_a_record_is_the_step_of_layers_without_names(monkeypatch):
    weights, graphdef = weights_of(TINY), graphdef_of(replace(TINY, remat="minimal"))

    def step(capture: tuple[str, ...] = ()) -> str:
        def loss(weights: Any) -> Any:
            with record(capture) as captured:
                predictions = parameters.merge(graphdef, weights)(BATCH, dropout_key=jax.random.key(0))
            return predictions.logits.sum(), captured

        return jax.jit(jax.grad(loss, has_aux=True)).lower(weights).as_text()

    named = step()
    assert step(("*/feed_forward/activations",)) != named
    monkeypatch.setattr(named_activations, "observe", lambda _, x: x)
    monkeypatch.setattr(named_activations, "observe_output", lambda x, _: x)
    monkeypatch.setattr(named_activations, "keep_layers", lambda *_: None)
    monkeypatch.setattr(named_activations, "layer", _no_layer)
    assert step() == named


@pytest.mark.parametrize("implementation", ["blockwise", "plain"])
def test_probabilities_are_computed_plainly_while_they_are_recorded(implementation, whole):
    config = replace(TINY, attention_implementation=implementation)
    predictions, captured = run(config, weights_of(TINY), BATCH, (PROBABILITIES,))
    for name, array in captured.items():
        np.testing.assert_allclose(array, whole[1][name], **CLOSE)
    np.testing.assert_allclose(predictions.logits, whole[0].logits, **CLOSE)


@pytest.mark.slow
def test_local_attention_has_probabilities_of_all_keys():
    config = ARCHITECTURES["longt5_local"]
    weights = parameters.split(jax.jit(config.build)(jax.random.key(0)))[1]
    batch = jax.tree.map(jnp.asarray, batch_for(config, 0))
    predictions, captured = run(config, weights, batch, ("encoder/self_attention/probabilities",))
    probabilities = np.asarray(captured["encoder/self_attention/probabilities"])
    length = batch.encoder_input_tokens.shape[1]
    far = np.abs(np.subtract.outer(np.arange(length), np.arange(length))) > 2
    assert probabilities.shape[-2:] == (length, length)
    assert not probabilities[..., far][:, np.asarray(batch.encoder_segment_ids[:, 0]) > 0].any()
    np.testing.assert_allclose(
        predictions.logits, run(config, weights, batch)[0].logits, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("capture", "edits", "message"),
    [
        (
            ("encoder/hidden",),
            {},
            r"capture: 'encoder/hidden' matches no activation; there are .*encoder/hidden_states",
        ),
        (
            (),
            {"encoder/*/neurons": AffineEdit()},
            r"edits: 'encoder/\*/neurons' matches no activation; there are",
        ),
        ("encoder/*", {}, "capture is the text 'encoder/.'; give a tuple of names"),
        (
            (),
            {FEED_FORWARD: AffineEdit(np.ones((3, 24)))},
            r"shape \(3, 24\); give one for each layer, which .* \(2, 2, 11, 24\)",
        ),
        (
            (),
            {FEED_FORWARD: AffineEdit(offsets=np.ones((2, 25)))},
            r"shape \(2, 25\); give one for each layer",
        ),
        (
            (),
            {FEED_FORWARD: lambda x, _: x[:1]},
            r"returns an array of shape \(1, 11, 24\) in place of \(2, 11, 24\)",
        ),
    ],
)
def test_what_matches_nothing_or_does_not_fit_is_refused(capture, edits, message):
    with pytest.raises(ValueError, match=message):
        run(TINY, weights_of(TINY), BATCH, capture, edits)


def test_probabilities_of_keys_that_are_summaries_are_refused():
    config = ARCHITECTURES["longt5_transient_global"]
    weights = parameters.split(jax.jit(config.build)(jax.random.key(0)))[1]
    with pytest.raises(ValueError, match="transient-global attention can't be captured"):
        run(config, weights, jax.tree.map(jnp.asarray, batch_for(config, 0)), (PROBABILITIES,))
