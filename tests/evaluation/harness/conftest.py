"""Tiny models whose log-likelihoods can be computed by hand."""

import shutil
from pathlib import Path

import jax
import pytest

from t5x_like.io.files import shipped_directory
from t5x_like.model import parameters
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.pretrained.hugging_face_export import write_hugging_face

SIZES = {"vocab_size": 4224, "model_dim": 16, "mlp_dim": 32, "num_heads": 2}


def write_model(directory: Path, config) -> str:
    """Random weights with the shipped vocabulary, in Hugging Face's layout."""
    _, params = parameters.split(config.build(jax.random.key(0)))
    params = jax.tree.map(lambda leaf: leaf * 4, params)  # opinions worth comparing
    write_hugging_face(config, params, directory)
    shutil.copyfile(shipped_directory("data") / "vocabulary" / "spiece.model", directory / "spiece.model")
    return str(directory)


@pytest.fixture(scope="session")
def decoder(tmp_path_factory) -> str:
    """A decoder of 32 positions."""
    config = GPT2Config(**SIZES, num_layers=1, max_position_embeddings=32)
    return write_model(tmp_path_factory.mktemp("gpt2"), config)


@pytest.fixture(scope="session")
def encoder_decoder(tmp_path_factory) -> str:
    """A T5."""
    config = T5Config(**SIZES, head_dim=8, num_encoder_layers=1, num_decoder_layers=1)
    return write_model(tmp_path_factory.mktemp("t5"), config)
