"""The model that mteb is given encodes its batches, with the prompts of their kind."""

from types import SimpleNamespace

import numpy as np
import pytest

from t5x_like.retrieval.mteb_model import MtebModel
from t5x_like.retrieval.text_embedder import EmbeddingSettings
from tests.retrieval.tiny_embedder import write_model

BATCHES = [{"text": ["whales are mammals", "rust"]}, {"text": ["paris"]}]
TEXTS = ["whales are mammals", "rust", "paris"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = write_model(tmp_path_factory.mktemp("models") / "bert")
    settings = EmbeddingSettings(query_prompt="query: ", document_prompt="passage: ")
    return MtebModel(str(directory), settings=settings)


@pytest.mark.parametrize(
    ("prompt_type", "role"),
    [(None, "query"), ("query", "query"), (SimpleNamespace(value="document"), "document")],
)
def test_batches_are_encoded_with_the_prompt_of_their_kind(model, prompt_type, role):
    vectors = model.encode(BATCHES, hf_split="test", prompt_type=prompt_type, batch_size=2)
    np.testing.assert_allclose(vectors, model.embedder.embed(TEXTS, role), atol=1e-6)
    np.testing.assert_array_equal(vectors, model.encode(TEXTS, prompt_type=prompt_type))


def test_similarities_are_cosines(model):
    vectors = np.array([[3.0, 4.0], [0.0, 2.0]])
    np.testing.assert_allclose(model.similarity(vectors, vectors), [[1, 0.8], [0.8, 1]], rtol=1e-6)
    np.testing.assert_allclose(model.similarity_pairwise(vectors, vectors[::-1]), [0.8, 0.8], rtol=1e-6)
