"""Tiny models with their vocabularies, in Hugging Face's layout, and a small benchmark's files."""

import shutil
from pathlib import Path

import jax
import pytest

from t5x_like.io.files import shipped_directory
from t5x_like.model import parameters
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.pretrained.hugging_face_export import write_hugging_face

VOCABULARY = shipped_directory("data") / "vocabulary" / "spiece.model"


def write_model(directory: Path, config) -> str:
    """Drawn weights, which know nothing."""
    _, params = parameters.split(config.build(jax.random.key(0)))
    write_hugging_face(config, params, directory)
    shutil.copyfile(VOCABULARY, directory / "spiece.model")
    return str(directory)


@pytest.fixture(scope="session")
def t5(tmp_path_factory) -> str:
    """An encoder-decoder."""
    sizes = {"vocab_size": 4224, "model_dim": 16, "mlp_dim": 32, "num_heads": 2, "head_dim": 8}
    config = T5Config(**sizes, num_encoder_layers=1, num_decoder_layers=1)
    return write_model(tmp_path_factory.mktemp("t5"), config)


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory) -> str:
    """A decoder of 128 positions."""
    config = GPT2Config(
        vocab_size=4224, model_dim=16, mlp_dim=32, num_heads=2, num_layers=1, max_position_embeddings=128
    )
    return write_model(tmp_path_factory.mktemp("gpt2"), config)


@pytest.fixture
def data(tmp_path) -> str:
    """CoLA and RTE as their zip files have them: CoLA's test split has no labels."""
    cola, rte = tmp_path / "data/glue/CoLA", tmp_path / "data/glue/RTE"
    cola.mkdir(parents=True)
    rte.mkdir(parents=True)
    rows = [(f"Sentence number {index} is here{' again' * (index % 5)}.", index % 2) for index in range(24)]
    for split, start in (("train", 0), ("dev", 4)):
        lines = [f"gj04\t{label}\t\t{text}\n" for text, label in rows[start:]]
        (cola / f"{split}.tsv").write_text("".join(lines))
    (cola / "test.tsv").write_text(
        "index\tsentence\n" + "".join(f"{index}\t{text}\n" for index, (text, _) in enumerate(rows))
    )
    for split in ("train", "dev"):
        lines = [
            f"{n}\t{text}\tIt is {n}.\t{('entailment', 'not_entailment')[n % 2]}\n"
            for n, (text, _) in enumerate(rows)
        ]
        (rte / f"{split}.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(lines))
    return str(tmp_path / "data")
