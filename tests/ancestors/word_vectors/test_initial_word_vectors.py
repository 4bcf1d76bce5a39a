"""Models that begin with the word vectors of a file: which rows are theirs, frozen or trained, and bad files."""

import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from t5x_like.ancestors.word_vectors.initial_table import (
    MatchedVectors,
    match_vectors,
    with_vectors,
    word_table,
)
from t5x_like.ancestors.word_vectors.vector_files import write_vectors
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.ancestors.zoo.awd_lstm import AWDLSTMConfig
from t5x_like.cli.preflight import preflight
from t5x_like.io.files import read_json, write_json
from t5x_like.model import parameters
from t5x_like.optimizers.optimizers import Adafactor
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.frozen_weights import fresh_params
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.training.experiment import Experiment
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.model.zoo.tiny_models import TINY
from tests.training.experiments import experiment_of

WORDS = ("one", "two", "three", "four", "five", "six")
DIM, TABLE = 8, "embedding/tokens/table"
MODEL = AWDLSTMConfig(vocab_size=128, model_dim=DIM, hidden_dim=DIM, num_layers=1, carries_state=False)
# Of the vocabulary's words, "two" and "five" are missing; "zebra" is in no text.
VECTORS = WordVectors(
    ("six", "zebra", "four", "three", "one"), np.arange(5 * DIM, dtype=np.float32).reshape(5, DIM) / 10
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("initial")
    (folder / "text.txt").write_text("\n".join(" ".join(WORDS[n:] + WORDS[:n]) for n in range(6)) + "\n")
    pieces = ["<pad>", "</s>", "<unk>", *WORDS]
    words = {"format": "t5x_like words", "lower_case": True, "punctuation_apart": True, "pieces": pieces}
    write_json(folder / "mine.json", words)
    write_vectors(folder / "vectors.bin", VECTORS)
    return folder


def experiment(folder: Path, **changes: Any) -> Experiment:
    text = str(folder / "text.txt")
    task = PretrainingTask(
        name="counting_words",
        vocabulary=str(folder / "mine.json"),
        files={"train": text},
        objective=CausalLM(),
    )
    settings: dict[str, Any] = {
        "model": MODEL,
        "train": LoaderConfig(mixture="counting_words", batch_size=8, inputs_length=8, targets_length=8),
        "tasks": (task,),
        "optimizer": Adafactor(learning_rate=0.1),
        "intervals": Intervals(log_every_steps=1, evaluate_every_steps=0, save_every_steps=0),
        "mesh": MeshConfig(),
        "model_dir": str(folder / "run"),
        "total_steps": 1,
        "word_vectors": str(folder / "vectors.bin"),
    }
    return experiment_of(**(settings | changes))


def expected_table(seed: int) -> np.ndarray:
    """Fresh embeddings with the vectors in the rows of their words, of which ids 3 to 8 are."""
    table = np.array(parameters.flatten(fresh_params(MODEL, mesh=None, seed=seed))[TABLE])
    for number, word in enumerate(WORDS, start=3):
        if word in VECTORS.words:
            table[number] = VECTORS.table[VECTORS.words.index(word)]
    return table


def test_a_run_with_a_frozen_table_begins_with_the_vectors_and_is_opened_with_them(folder, caplog):
    caplog.set_level(logging.WARNING)
    run_experiment = experiment(folder, trainable=("heads/*", "rnn/*"), seed=3)
    findings = preflight(run_experiment)
    note = "vectors.bin has vectors for 4 of the vocabulary's 6 words; the other 2 keep fresh ones"
    assert findings.problems == []
    assert any(note in each for each in findings.notes)
    train(run_experiment)
    assert note in caplog.text
    run, vectors = folder / "run", folder / "vectors.bin"
    assert (run / "words.json").exists()  # whatever the name of the vocabulary was
    table = parameters.flatten(open_checkpoint(run).params)[TABLE]
    np.testing.assert_array_equal(table, expected_table(3))
    record = read_json(run / "frozen.json")
    assert (record["start_from"], record["inputs"]["word_vectors"]) == (None, str(vectors))

    kept = vectors.read_bytes()
    write_vectors(vectors, WordVectors(VECTORS.words, VECTORS.table + 1))
    with pytest.raises(
        ValueError, match=r"fresh weights drawn from seed 3 with the word vectors of .* have changed"
    ):
        open_checkpoint(run)
    vectors.unlink()
    with pytest.raises(
        ValueError, match=r"which can't be opened: .*give the path of a copy as word_vectors in"
    ):
        open_checkpoint(run)
    vectors.write_bytes(kept)
    open_checkpoint(run)


def test_a_sharded_table_keeps_its_place():
    mesh = MeshConfig(data=1, fsdp=2, model=2).build(jax.devices()[:4])
    params = fresh_params(MODEL, mesh=mesh, seed=0)
    before = parameters.flatten(params)
    ids, rows = np.array([5, 100], np.int32), np.full((2, DIM), 0.25, np.float32)
    matched = MatchedVectors(TABLE, ids, rows, "")
    after = parameters.flatten(with_vectors(params, matched))
    assert after[TABLE].sharding == before[TABLE].sharding
    assert not after[TABLE].sharding.is_fully_replicated
    np.testing.assert_array_equal(np.asarray(after[TABLE])[ids], rows)
    others = np.setdiff1d(np.arange(128), ids)
    np.testing.assert_array_equal(np.asarray(after[TABLE])[others], np.asarray(before[TABLE])[others])
    assert all(after[path] is before[path] for path in before if path != TABLE)


def test_vectors_that_do_not_fit_are_refused_before_training(folder, tmp_path):
    wide, others, empty = (str(tmp_path / f"{name}.txt") for name in ("wide", "others", "empty"))
    write_vectors(wide, WordVectors(("one",), np.ones((1, 9), np.float32)))
    write_vectors(others, WordVectors(("One",), np.ones((1, DIM), np.float32)))
    Path(empty).touch()
    for file, message in {
        wide: "has vectors of 9 dimensions, and the model's word embeddings have 8; take a model of that width",
        others: "has a vector for none of the 6 words of the vocabulary; are its words in lower case",
        empty: "is empty",
        str(tmp_path / "nowhere.txt"): "does not exist",
    }.items():
        (problem,) = preflight(
            experiment(folder, word_vectors=file, model_dir=str(tmp_path / "run"))
        ).problems
        assert file in problem
        assert message in problem
    with pytest.raises(ValueError, match="has vectors of 9 dimensions"):
        train(experiment(folder, word_vectors=wide, model_dir=str(tmp_path / "run")))
    assert not (tmp_path / "run/config.json").exists()
    with pytest.raises(
        ValueError,
        match=r"PretrainedInputs\(word_vectors='v\.txt'.*fills in fresh weights, and start_from='run'",
    ):
        experiment(folder, word_vectors="v.txt", start_from="run")


def test_only_whole_words_have_vectors(folder):
    with pytest.raises(
        ValueError, match="'bytes' is of the kind bytes; word vectors and models that read characters need"
    ):
        match_vectors(MODEL, folder / "vectors.bin", open_tokenizer("bytes"))


@pytest.mark.parametrize("name", ["albert", "gpt2", "llama", "t5_1_0", "transfo_xl", "xlnet"])
def test_a_model_has_one_table_of_words_but_those_that_divide_it(name):
    if name == "transfo_xl":
        with pytest.raises(
            ValueError, match="need a model with one table of word embeddings, and a TransfoXL"
        ):
            word_table(TINY[name])
        return
    assert word_table(TINY[name]) in (TABLE, "embedding/table")
