"""Scores of late interaction, by the formula, and their tokens by the rules of the paper."""

import jax.numpy as jnp
import numpy as np

from t5x_like.retrieval.max_sim import augment_queries, counted_tokens, max_sim, punctuation_ids, unit_vectors
from t5x_like.text.vocabularies.opening import open_tokenizer


def test_a_score_sums_the_best_cosine_of_each_token_that_counts():
    generator = np.random.default_rng(0)
    queries, documents = generator.normal(size=(2, 3, 4)), generator.normal(size=(3, 5, 4))
    of_queries, of_documents = generator.random((2, 3)) < 0.7, generator.random((3, 5)) < 0.7
    of_queries[:, 0] = of_documents[:, 0] = True
    units = [jnp.asarray(each, jnp.float32) for each in (queries, documents)]
    scores = max_sim(unit_vectors(units[0]), of_queries, unit_vectors(units[1]), of_documents)
    for query in range(2):
        for document in range(3):
            expected = sum(
                max(
                    float(q @ d / np.linalg.norm(q) / np.linalg.norm(d))
                    for d in documents[document][of_documents[document]]
                )
                for q in queries[query][of_queries[query]]
            )
            np.testing.assert_allclose(scores[query, document], expected, rtol=1e-5)


def test_queries_are_filled_up_with_mask_tokens_and_longer_ones_stay():
    tokens = jnp.array([[2, 7, 3, 0, 0, 0], [2, 7, 8, 9, 6, 3]])
    filled, counted = augment_queries(tokens, tokens > 0, length=5, mask_id=4)
    assert filled.tolist() == [[2, 7, 3, 4, 4, 0], [2, 7, 8, 9, 6, 3]]
    assert counted.tolist() == [[True] * 5 + [False], [True] * 6]


def test_punctuation_of_documents_is_left_out():
    tokenizer = open_tokenizer("bytes")
    ids = jnp.asarray([tokenizer.encode("a, b!")])
    counted = counted_tokens(ids, jnp.ones(ids.shape, bool), punctuation_ids(tokenizer))
    assert counted.tolist() == [[True, False, True, True, False]]
