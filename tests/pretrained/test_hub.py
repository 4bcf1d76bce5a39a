"""Names of the Hugging Face Hub are found in its cache, without a network."""

import shutil

import pytest

import t5x_like
from t5x_like.pretrained.hub import local_directory
from tests.pretrained.test_pretrained_model import GPT2, write

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path):
    """A cache as ``huggingface_hub`` lays it out, with one model."""
    home = tmp_path / "hub/models--tests--tiny-gpt2"
    write(GPT2, tmp_path / "made")
    (home / "refs").mkdir(parents=True)
    (home / "refs/main").write_text(COMMIT)
    shutil.copytree(tmp_path / "made", home / f"snapshots/{COMMIT}")
    return tmp_path / "hub"


@pytest.mark.filterwarnings("ignore")  # of huggingface_hub itself
def test_a_model_in_the_cache_is_opened_by_its_name(cache):
    pretrained = t5x_like.from_pretrained("tests/tiny-gpt2", cache_dir=cache)
    assert pretrained.config == GPT2
    assert COMMIT in repr(pretrained)
    assert t5x_like.from_pretrained("tests/tiny-gpt2", cache_dir=cache, revision=COMMIT).config == GPT2


@pytest.mark.filterwarnings("ignore")  # of huggingface_hub itself
def test_a_name_that_is_nowhere_says_where_it_was_looked_for(cache, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"no directory tests/other, and the Hugging Face Hub gave no model"):
        t5x_like.from_pretrained("tests/other", cache_dir=cache)


def test_paths_are_left_alone(tmp_path, monkeypatch):
    (tmp_path / "runs/x").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert local_directory("runs/x") == "runs/x"
    assert local_directory(tmp_path) == tmp_path
    assert local_directory("/no/such/path") == "/no/such/path"
    with pytest.raises(ValueError, match="leave revision out"):
        local_directory("runs/x", revision="main")


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match=r"pip install 't5x-like\[hub\]'"):
        local_directory("tests/tiny-gpt2")
