"""ELMo's published weights: hidden states of a restatement in PyTorch, runs made of them, and refusals."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import t5x_like
from t5x_like.ancestors.bilm_files import FORMAT
from t5x_like.ancestors.word_vectors.character_table import CHARACTER_TABLE
from t5x_like.ancestors.zoo.elmo import ElmoConfig, bilm_weights
from t5x_like.batch import Batch
from t5x_like.cli.main import main
from t5x_like.io.files import read_json, write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.weights import write_weights
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.pretrained.weight_sources import read_config
from t5x_like.text.vocabularies.vocabulary_ids import ids_of
from tests.model.hidden_states import hidden_states
from tests.references import FIXTURES, read_arrays

h5py = pytest.importorskip("h5py")

FOLDER = FIXTURES / "elmo"
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SENTENCES: list[list[str]] = json.loads((FOLDER / "sentences.json").read_text())
OUTPUTS = read_arrays(FOLDER / "outputs.npz")


@pytest.fixture(scope="module")
def elmo(tmp_path_factory) -> Path:
    """The published files with a vocabulary of their words next to them."""
    folder = tmp_path_factory.mktemp("bilm") / "elmo"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("outputs.npz", "sentences.json"))
    pieces = ["<pad>", "</s>", "<unk>", *dict.fromkeys(word for each in SENTENCES for word in each)]
    words = {"format": "t5x_like words", "lower_case": False, "punctuation_apart": False, "pieces": pieces}
    write_json(folder / "words.json", words)
    return folder


def batch_of(checkpoint: Any) -> Batch:
    ids = ids_of(checkpoint.tokenizer)
    rows = [[ids.cls, *checkpoint.tokenizer.encode(" ".join(each)), ids.sep] for each in SENTENCES]
    tokens = np.zeros(OUTPUTS["mask"].shape, np.int32)
    for row, each in zip(tokens, rows, strict=True):
        row[: len(each)] = each
    return Batch(
        encoder_input_tokens=jnp.asarray(tokens), encoder_segment_ids=jnp.asarray(tokens > 0, jnp.int32)
    )


def test_hidden_states_equal_the_restatement(elmo):
    assert FORMAT.is_in(elmo)
    checkpoint = open_checkpoint(elmo)
    batch = batch_of(checkpoint)
    table = np.asarray(parameters.flatten(checkpoint.params)["embedding/character_ids"])
    mask = OUTPUTS["mask"]
    np.testing.assert_array_equal(
        table[np.asarray(batch.encoder_input_tokens)][mask], OUTPUTS["character_ids"][mask]
    )
    result = np.asarray(hidden_states(checkpoint.model, batch)["encoder"])
    np.testing.assert_allclose(result[:, mask], OUTPUTS["hidden"][:, mask], **CLOSE)


@pytest.mark.parametrize(
    "changes",
    [{"cell_clip": None}, {"projection_clip": None}],
    ids=lambda changes: next(iter(changes)),
)
def test_each_limit_matters(elmo, changes):
    checkpoint = open_checkpoint(elmo)
    changed = replace(checkpoint.config, **changes)
    model = parameters.merge(parameters.abstract(changed)[0], checkpoint.params)
    result = np.asarray(hidden_states(model, batch_of(checkpoint))["encoder"])
    mask = OUTPUTS["mask"]
    assert np.abs(result[:, mask] - OUTPUTS["hidden"][:, mask]).max() > 0.01


def test_the_table_writes_what_it_reads(elmo):
    checkpoint = open_checkpoint(elmo)
    flat = parameters.flatten(checkpoint.params)
    flat.pop(CHARACTER_TABLE)
    with h5py.File(elmo / "weights.hdf5") as file:
        for name, array in write_weights(bilm_weights(checkpoint.config), parameters.unflatten(flat)):
            np.testing.assert_allclose(array, file[name][()], rtol=1e-6, atol=1e-6)


def test_a_run_of_them_embeds_and_keeps_its_words(elmo, tmp_path):
    bare, words = tmp_path / "bare", tmp_path / "mine.json"
    shutil.copytree(elmo, bare, ignore=shutil.ignore_patterns("words.json"))
    shutil.copyfile(elmo / "words.json", words)
    command = ["convert", "--from", str(bare), "--to", str(tmp_path / "run"), "--vocabulary", str(words)]
    assert main(command) == 0
    run = open_checkpoint(tmp_path / "run")
    assert (tmp_path / "run/words.json").exists()
    assert run.config == open_checkpoint(elmo).config
    mask = OUTPUTS["mask"]
    result = np.asarray(hidden_states(run.model, batch_of(run))["encoder"])
    np.testing.assert_allclose(result[:, mask], OUTPUTS["hidden"][:, mask], **CLOSE)
    vector = t5x_like.from_pretrained(str(tmp_path / "run")).embed(" ".join(SENTENCES[2]), normalized=False)
    np.testing.assert_allclose(vector, OUTPUTS["hidden"][-1, 2, :6].mean(axis=0), **CLOSE)


def with_options(folder: Path, target: Path, section: str, **changes: Any) -> Path:
    shutil.copytree(folder, target)
    options = read_json(target / "options.json")
    options[section] |= changes
    write_json(target / "options.json", options)
    return target


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        (
            "lstm",
            {"use_skip_connections": False},
            "use_skip_connections of lstm is False, and this model has True",
        ),
        ("char_cnn", {"activation": "tanh"}, "activation of char_cnn is 'tanh', and this model has 'relu'"),
        ("char_cnn", {"max_characters_per_token": 40}, "max_characters_per_token of char_cnn is 40"),
        ("char_cnn", {"filters": [[1, 4]]}, "CNN_proj/W_proj has shape"),
        ("lstm", {"n_layers": 1}, "Cell1/LSTMCell/W_0 .* is not known"),
    ],
)
def test_other_models_are_refused(elmo, tmp_path, section, changes, message):
    with pytest.raises(ValueError, match=message):
        open_checkpoint(with_options(elmo, tmp_path / "other", section, **changes))


def test_what_is_missing_is_said(elmo, tmp_path):
    bare = tmp_path / "bare"
    shutil.copytree(elmo, bare, ignore=shutil.ignore_patterns("words.json"))
    with pytest.raises(
        ValueError, match="has no vocabulary: ELMo's weights read the characters of any words"
    ):
        open_checkpoint(bare)
    with pytest.raises(ValueError, match="'bytes' is of the kind bytes"):
        open_checkpoint(bare, vocabulary="bytes")
    with pytest.raises(
        ValueError, match=r"make a run of both first: t5x-like convert --from .*bare --to DIR"
    ):
        read_config(bare)
    shutil.copyfile(elmo / "weights.hdf5", bare / "second.hdf5")
    with pytest.raises(ValueError, match=r"has 2 files \*\.hdf5; give a directory with one"):
        open_checkpoint(bare, vocabulary=str(elmo / "words.json"))
    (bare / "second.hdf5").unlink()
    (bare / "weights.hdf5").write_bytes((elmo / "weights.hdf5").read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"weights\.hdf5 can't be read as an HDF5 file"):
        open_checkpoint(bare, vocabulary=str(elmo / "words.json"))


@pytest.mark.parametrize(
    ("published", "model_dim", "hidden_dim", "num_highway_layers"),
    [(93.6, 512, 4096, 2), (28.0, 256, 2048, 1), (13.6, 128, 1024, 1)],
)
def test_published_sizes_have_the_published_millions_of_parameters(
    published, model_dim, hidden_dim, num_highway_layers
):
    """Original, medium and small weights: https://allenai.org/allennlp/software/elmo."""
    config = ElmoConfig(
        vocab_size=1,
        model_dim=model_dim,
        hidden_dim=hidden_dim,
        num_highway_layers=num_highway_layers,
        task="base",
    )
    assert round(parameters.count(parameters.abstract(config)[1]) / 1e6, 1) == published
