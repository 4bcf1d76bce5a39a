"""Tiny models of each kind with the shipped vocabulary, and clients of applications that serve them."""

import shutil

import pytest
from starlette.testclient import TestClient

import t5x_like
from t5x_like.io.files import shipped_directory
from t5x_like.serving.application import build_application
from t5x_like.serving.request_fields import Limits
from t5x_like.serving.served_model import ServedModel
from tests.model.zoo.tiny_models import TINY
from tests.pretrained.test_pretrained_model import GPT2, T5, WORDS, write

LIMITS = Limits(
    body_bytes=20_000, prompts=4, prompt_tokens=60, new_tokens=40, choices=3, waiting=1, seconds=60.0
)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Directories of a decoder, an encoder-decoder and an encoder."""
    folder = tmp_path_factory.mktemp("served")
    for name, config in {"t5": T5, "gpt2": GPT2}.items():
        write(config, folder / name)
        shutil.copy(shipped_directory("data") / "vocabulary/spiece.model", folder / name / "spiece.model")
    write(TINY["bert"], folder / "bert")
    (folder / "bert/vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def client_of(directory):
    served = ServedModel(t5x_like.from_pretrained(directory), directory.name, LIMITS)
    return TestClient(build_application(served), raise_server_exceptions=False)


@pytest.fixture(scope="module")
def gpt2(models):
    with client_of(models / "gpt2") as client:
        yield client


@pytest.fixture(scope="module")
def t5(models):
    with client_of(models / "t5") as client:
        yield client


@pytest.fixture(scope="module")
def bert(models):
    with client_of(models / "bert") as client:
        yield client
