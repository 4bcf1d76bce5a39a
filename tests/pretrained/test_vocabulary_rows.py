"""Embeddings and output layers for another vocabulary."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.model.zoo.transfo_xl import TransfoXLConfig
from t5x_like.pretrained.vocabulary_rows import with_vocabulary
from t5x_like.text.vocabularies.piece_sources import PieceSources
from tests.pretrained.test_encoder_weights import drawn

SIZES = {"model_dim": 16, "mlp_dim": 24, "num_heads": 2, "num_layers": 2}
SOURCES = PieceSources(ids=((3,), (), (1, 4), (7, 7, 2)), num_copied=1, num_composed=2, num_old=9)


def expected(rows):
    """Vectors of the four new ids, by numpy."""
    known = np.asarray(rows)
    return np.stack([known[3], known[:9].mean(0), (known[1] + known[4]) / 2, (2 * known[7] + known[2]) / 3])


def moved(config):
    old, new = replace(config, vocab_size=12), replace(config, vocab_size=6)
    params = drawn(old, 1)
    return [
        parameters.flatten(each)
        for each in (params, with_vocabulary(params, new, SOURCES, seed=4, mesh=None), drawn_by_seed(new, 4))
    ]


def drawn_by_seed(config, seed):
    return parameters.split(config.build(jax.random.key(seed)))[1]


def test_tables_and_output_layers_have_the_old_vectors_and_their_means():
    before, after, fresh = moved(LlamaConfig(vocab_size=12, **SIZES))
    table, kernel = "embedding/tokens/table", "heads/lm_head/projection/kernel"
    np.testing.assert_allclose(after[table][:4], expected(before[table]), atol=1e-6)
    np.testing.assert_allclose(after[kernel].T[:4], expected(before[kernel].T), atol=1e-6)
    np.testing.assert_allclose(after[table][4:], fresh[table][4:], atol=1e-6)
    for path in before.keys() - {table, kernel}:
        np.testing.assert_array_equal(after[path], before[path])


def test_biases_of_words_move_too():
    before, after, _ = moved(ModernBertConfig(vocab_size=12, **SIZES))
    path = "heads/lm_head/bias"
    np.testing.assert_allclose(after[path][:4], expected(before[path]), atol=1e-6)


def test_a_vocabulary_in_several_tables_is_refused():
    config = TransfoXLConfig(
        vocab_size=12, embed_dim=16, cutoffs=(4, 8), head_dim=8, memory_length=4, **SIZES
    )
    with pytest.raises(ValueError, match="divides its vocabulary among several tables"):
        with_vocabulary(drawn(config, 1), config, SOURCES, seed=0, mesh=None)
