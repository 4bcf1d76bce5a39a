"""Runs from a model of another vocabulary: from bytes to pieces, of a Hugging Face directory and of a run."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from t5x_like.io.files import read_json
from t5x_like.model import parameters
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.training.start.pretrained_weights import PretrainedWeights
from t5x_like.training.start.starts import start_from
from t5x_like.training.start.vocabulary_transfer import VocabularyTransfer
from t5x_like.training.train import train
from tests.integration import tiny_run
from tests.references import ROOT

SPIECE = str(ROOT / "data/vocabulary/spiece.model")
OLD = LlamaConfig(vocab_size=384, model_dim=32, mlp_dim=64, num_heads=2, num_kv_heads=2, num_layers=2)
MODEL = replace(OLD, vocab_size=4224)


@pytest.fixture(scope="module")
def folder(directory):
    path = directory / "transfer"
    path.mkdir()
    write_hugging_face(OLD, parameters.split(OLD.build(jax.random.key(1)))[1], path / "bytes")
    return path


def experiment(folder, name, *, vocabulary=SPIECE, **changes):
    transfer = VocabularyTransfer(from_vocabulary="bytes")
    settings = {
        "model": MODEL,
        "start": PretrainedWeights(start_from=str(folder / "bytes"), vocabulary_transfer=transfer),
        "trainable": ("decoder/*",),
        "tasks": (
            PretrainingTask(
                name=f"causal_{name}",
                vocabulary=vocabulary,
                files={"train": str(folder.parent / "corpus.txt")},
                objective=CausalLM(),
            ),
        ),
        "train": LoaderConfig(
            mixture=f"causal_{name}", batch_size=8, inputs_length=32, targets_length=32, seed=3
        ),
        "evaluations": (),
        "validations": (),
    }
    return tiny_run.experiment(
        folder.parent, model_dir=str(folder / name), total_steps=2, **settings | changes
    )


def weights(run):
    return {path: np.asarray(each) for path, each in parameters.flatten(open_checkpoint(run).params).items()}


def test_pieces_begin_with_the_mean_of_their_bytes_and_the_run_opens_again(folder, caplog):
    train(experiment(folder, "pieces"))
    assert "are copied, " in caplog.text
    own, old = weights(folder / "pieces"), weights(folder / "bytes")
    piece = open_tokenizer(SPIECE).encode("the")[0]
    of_bytes = open_tokenizer("bytes").encode(" the")
    for path, axis in (("embedding/tokens/table", 0), ("heads/lm_head/projection/kernel", 1)):
        mean = np.take(old[path], of_bytes, axis).mean(axis)
        np.testing.assert_allclose(np.take(own[path], piece, axis), mean, atol=1e-6)
    record = read_json(folder / "pieces/frozen.json")["inputs"]
    assert record["checkpoint"] == str(folder / "bytes")
    assert record["is"] == "t5x_like.training.start.vocabulary_transfer:RecordedTransfer"


def test_a_run_brings_its_own_vocabulary(folder):
    start = PretrainedWeights(start_from=str(folder / "pieces"), vocabulary_transfer=VocabularyTransfer())
    tokenizer = open_tokenizer("bytes")
    (note,) = start.check_weights(OLD, tokenizer)
    assert "pieces: of 359 ids " in note
    with pytest.raises(ValueError, match="of another library; give the tasks a vocabulary by its path"):
        start.check_weights(OLD, None)


def test_a_folder_without_a_vocabulary_asks_for_it(folder):
    start = PretrainedWeights(start_from=str(folder / "bytes"), vocabulary_transfer=VocabularyTransfer())
    with pytest.raises(ValueError, match="bytes has no vocabulary next to its weights; name the one"):
        start.check_weights(MODEL, open_tokenizer(SPIECE))


def test_another_vocabulary_needs_a_checkpoint():
    with pytest.raises(ValueError, match="vocabulary_transfer makes embeddings from those of a checkpoint"):
        start_from(vocabulary_transfer=VocabularyTransfer())
