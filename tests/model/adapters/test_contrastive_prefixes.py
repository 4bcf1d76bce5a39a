"""Contrastive prefixes: each row's own prefix, the discriminative loss, and what they refuse."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.adapters import ContrastivePrefixes
from t5x_like.model.adapters.adapter_weights import merge_adapter
from t5x_like.model.families.family import predict
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config

ADAPTER = ContrastivePrefixes(attributes=("sad", "calm", "glad"), length=3, hidden_dim=5)
BASE = GPT2Config(
    vocab_size=40,
    model_dim=16,
    num_heads=2,
    num_layers=2,
    mlp_dim=32,
    max_position_embeddings=16,
    dropout_rate=0.0,
)
OWN = (0, 1, 2, 1)


def batch_of(rows: slice = slice(None)) -> Batch:
    """Four rows of the tasks in ``OWN``; the second is padded."""
    tokens = np.random.default_rng(0).integers(3, 40, (4, 7)).astype(np.int32)
    weights = np.ones((4, 7), np.float32)
    weights[1, 5:] = 0
    tasks = np.broadcast_to(np.array(OWN, np.int32)[:, None], tokens.shape) * (weights > 0)
    arrays = {
        "decoder_input_tokens": tokens,
        "decoder_segment_ids": (weights > 0).astype(np.int32),
        "target_tokens": np.roll(tokens, -1, axis=1),
        "loss_weights": weights,
        "task_ids": tasks.astype(np.int32),
    }
    return Batch(**{name: jnp.asarray(array[rows]) for name, array in arrays.items()})


@pytest.fixture(scope="module")
def weights():
    """Weights of a model with three prefixes, far from each other."""
    flat = parameters.flatten(parameters.split(replace(BASE, adapter=ADAPTER).build(jax.random.key(1)))[1])
    return parameters.unflatten(
        {path: leaf * 3 if path.endswith("vectors") else leaf for path, leaf in flat.items()}
    )


def contrasted(weights, batch):
    graphdef = parameters.abstract(replace(BASE, adapter=ADAPTER))[0]
    return jax.jit(lambda weights: predict(parameters.merge(graphdef, weights), batch))(weights)


def test_each_row_reads_its_own_prefix_and_the_loss_compares_all(weights) -> None:
    batch = batch_of()
    result = contrasted(weights, batch)
    likelihoods = []
    for index, name in enumerate(ADAPTER.attributes):
        prefix, own = ADAPTER.take(name, weights)
        model = parameters.merge(parameters.abstract(replace(BASE, adapter=prefix))[0], own)
        logits = np.asarray(model(batch).logits)
        of_it = [row for row, attribute in enumerate(OWN) if attribute == index]
        np.testing.assert_allclose(np.asarray(result.logits)[of_it], logits[of_it], atol=1e-6)
        scores = np.asarray(jax.nn.log_softmax(logits, axis=-1))
        chosen = np.take_along_axis(scores, np.asarray(batch.target_tokens)[..., None], axis=-1)[..., 0]
        likelihoods.append((chosen * np.asarray(batch.loss_weights)).sum(-1))
    evidence = np.asarray(jax.nn.log_softmax(np.stack(likelihoods), axis=0))
    expected = -sum(evidence[attribute, row] for row, attribute in enumerate(OWN))
    loss = result.extra_losses["discriminative_loss"]
    np.testing.assert_allclose(loss.total, expected, rtol=1e-5)
    assert float(loss.weight) == 0.25
    right = sum(np.stack(likelihoods).argmax(0)[row] == attribute for row, attribute in enumerate(OWN))
    measured = result.measures["attribute_accuracy"]
    assert (int(measured.total), int(measured.count)) == (right, 4)


def test_the_loss_of_rows_does_not_depend_on_others(weights) -> None:
    whole = contrasted(weights, batch_of())
    parts = [contrasted(weights, batch_of(rows)) for rows in (slice(0, 2), slice(2, 4))]
    np.testing.assert_allclose(np.concatenate([part.logits for part in parts]), whole.logits, atol=1e-6)
    total = sum(part.extra_losses["discriminative_loss"].total for part in parts)
    np.testing.assert_allclose(total, whole.extra_losses["discriminative_loss"].total, rtol=1e-6)


def test_rows_without_targets_have_no_loss(weights) -> None:
    batch = batch_of()
    empty = batch._replace(loss_weights=batch.loss_weights.at[2:].set(0.0))
    half = contrasted(weights, batch_of(slice(0, 2)))
    result = contrasted(weights, empty)
    np.testing.assert_allclose(
        result.extra_losses["discriminative_loss"].total,
        half.extra_losses["discriminative_loss"].total,
        rtol=1e-6,
    )
    assert int(result.measures["attribute_accuracy"].count) == 2


def test_the_discriminative_loss_reaches_all_prefixes(weights) -> None:
    graphdef = parameters.abstract(replace(BASE, adapter=ADAPTER))[0]
    batch = batch_of(slice(0, 1))  # of the first attribute alone

    def loss(weights):
        return parameters.merge(graphdef, weights)(batch).extra_losses["discriminative_loss"].total

    gradient = parameters.flatten(jax.grad(loss)(weights))
    vectors = gradient["decoder/layers/0/self_attention/prefix/each/vectors"]
    assert (jnp.abs(vectors).max(axis=(0, 2, 3)) > 0).all()


def test_a_text_is_written_with_one_of_them(weights) -> None:
    model = parameters.merge(parameters.abstract(replace(BASE, adapter=ADAPTER))[0], weights)
    with pytest.raises(ValueError, match="convert --attribute NAME"):
        model.start_cache(jnp.ones((2, 3), jnp.int32), max_new_tokens=2)
    with pytest.raises(ValueError, match="convert --attribute NAME"):
        model(Batch(decoder_input_tokens=jnp.ones((2, 3), jnp.int32)))
    with pytest.raises(ValueError, match="no attribute 'bored'; there are sad, calm, glad"):
        ADAPTER.take("bored", weights)
    with pytest.raises(ValueError, match=r"ContrastivePrefixes adds .* can't be merged.*LoRA or IA3"):
        merge_adapter(replace(BASE, adapter=ADAPTER), weights)


def test_what_can_not_be_steered_is_refused() -> None:
    with pytest.raises(ValueError, match="names of two tasks or more, each once"):
        ContrastivePrefixes(attributes=("sad", "sad"))
    with pytest.raises(ValueError, match="discriminative_weight is -1"):
        ContrastivePrefixes(attributes=("sad", "glad"), discriminative_weight=-1.0)
    encoder = BertConfig(vocab_size=40, model_dim=16, num_heads=2, num_layers=1, mlp_dim=32, adapter=ADAPTER)
    with pytest.raises(ValueError, match="Encoder models take PrefixTuning"):
        encoder.build(jax.random.key(0))
