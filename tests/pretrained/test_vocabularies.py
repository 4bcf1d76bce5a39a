"""A model and its vocabulary go together."""

import jax
import pytest

import t5x_like
from t5x_like.io.files import as_path
from t5x_like.model import parameters
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.transformers_api.pretrained_model import from_pretrained
from tests.model.zoo.tiny_models import TINY

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "in", "the", "begin", "##ning"]


@pytest.fixture
def directory(tmp_path):
    config = TINY["bert"]
    params = parameters.split(config.build(jax.random.key(0)))[1]
    write_hugging_face(config, params, tmp_path / "bert")
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path / "bert"


def test_a_bert_reads_with_its_word_pieces(directory):
    pretrained = from_pretrained(directory)
    assert pretrained.vocabulary is not None
    ids = pretrained.vocabulary.encode("In the beginning [MASK]")
    assert [WORDS[token_id] for token_id in ids[:4]] == ["in", "the", "begin", "##ning"]
    assert pretrained(input_ids=[ids[:4]]).last_hidden_state.shape == (1, 4, 32)


def test_an_export_takes_the_vocabulary_along(directory, tmp_path):
    t5x_like.export_hugging_face(from_pretrained(directory), tmp_path / "export")
    assert (tmp_path / "export" / "vocab.txt").read_text() == (directory / "vocab.txt").read_text()
    assert from_pretrained(tmp_path / "export").vocabulary == from_pretrained(directory).vocabulary


def test_a_vocabulary_larger_than_the_model_is_refused(directory):
    (directory / "vocab.txt").write_text("\n".join([*WORDS, *(f"word{n}" for n in range(60))]) + "\n")
    with pytest.raises(ValueError, match="has 69 ids, its model embeddings for 61"):
        _ = from_pretrained(directory).vocabulary


def test_without_one_there_is_none(directory):
    as_path(directory / "vocab.txt").unlink()
    assert from_pretrained(directory).vocabulary is None
