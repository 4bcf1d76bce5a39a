"""Word embeddings from characters: parts against numpy, and refused sizes. ``test_bilm_files`` has PyTorch's values."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.layers.character_cnn import CharacterCNN, CharacterCNNConfig, CharacterEmbedding
from t5x_like.model import parameters

CONFIG = CharacterCNNConfig(output_dim=5, character_dim=3, filters=((1, 2), (3, 4)), num_highway_layers=1)
IDS = np.random.default_rng(0).integers(0, 262, (2, 7)).astype(np.int32)
FLOAT32 = jnp.dtype("float32")
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def built(config: CharacterCNNConfig) -> CharacterCNN:
    """A network whose highway layers and biases are no fresh ones."""
    graphdef, params = parameters.split(CharacterCNN(config, key=jax.random.key(0)))
    keys = iter(jax.random.split(jax.random.key(1), 100))
    drawn = jax.tree.map(lambda leaf: jax.random.normal(next(keys), leaf.shape), params)
    return parameters.merge(graphdef, drawn)


def expected(model: CharacterCNN, ids: np.ndarray) -> np.ndarray:
    weights = {
        name: np.asarray(leaf, np.float64)
        for name, leaf in parameters.flatten(parameters.split(model)[1]).items()
    }
    rows = []
    for word in ids:
        characters = weights["characters/table"][word]
        results = []
        for index, (width, _) in enumerate(model.config.filters):
            kernel, bias = (weights[f"convolutions/{index}/{name}"] for name in ("kernel", "bias"))
            places = [
                characters[start : start + width].ravel() @ kernel for start in range(len(word) - width + 1)
            ]
            results.append(np.maximum(np.max(places, axis=0) + bias, 0.0))
        x = np.concatenate(results)
        for index in range(model.config.num_highway_layers):
            transform, carry = (
                x @ weights[f"highways/{index}/{name}/kernel"] + weights[f"highways/{index}/{name}/bias"]
                for name in ("transform", "carry")
            )
            gate = 1.0 / (1.0 + np.exp(-carry))
            x = gate * np.maximum(transform, 0.0) + (1.0 - gate) * x
        rows.append(x @ weights["projection/kernel"] + weights["projection/bias"])
    return np.array(rows)


@pytest.mark.parametrize("num_highway_layers", [0, 1, 2])
def test_a_word_is_convolved_pooled_and_projected(num_highway_layers):
    model = built(replace(CONFIG, num_highway_layers=num_highway_layers))
    np.testing.assert_allclose(model(jnp.asarray(IDS), FLOAT32), expected(model, IDS), **CLOSE)


def test_rows_of_words_keep_their_shape():
    model = built(CONFIG)
    result = model(jnp.asarray(IDS).reshape(1, 2, 7), FLOAT32)
    np.testing.assert_allclose(result, expected(model, IDS)[None], **CLOSE)


def test_fresh_highways_pass_most_of_their_input():
    model = CharacterCNN(CONFIG, key=jax.random.key(0))
    np.testing.assert_array_equal(model.highways["0"].carry.bias[...], -2.0)


def test_tokens_have_the_characters_of_their_rows():
    model = CharacterEmbedding(CONFIG, 4, key=jax.random.key(0))
    table = np.random.default_rng(1).integers(0, 262, (4, 50)).astype(np.int32)
    model.character_ids[...] = jnp.asarray(table)
    tokens = jnp.asarray([[2, 0, 2]])
    result = model(tokens, FLOAT32)
    np.testing.assert_allclose(result[0], expected(model.cnn, table[[2, 0, 2]]), rtol=1e-4, atol=1e-5)
    outside = model(jnp.asarray([[4, -1, 3]]), FLOAT32)[0]
    assert np.isnan(outside[:2]).all()
    assert np.isfinite(outside[2]).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"filters": ()}, r"filters are \(\); give pairs"),
        ({"filters": ((51, 1),)}, r"a width of at most 50 characters"),
        ({"filters": ((1, 0),)}, "filters are"),
        ({"character_dim": 0}, "character_dim is 0; give a positive number"),
        ({"num_highway_layers": -1}, "num_highway_layers is -1"),
    ],
)
def test_sizes_that_are_none_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)
