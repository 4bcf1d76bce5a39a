"""A table to a model, its scores, predictions, export and cache, without seqio and TensorFlow."""

import json
from pathlib import Path

import pytest

from tests.without_seqio import run_without_seqio

SETTINGS = (
    "--set",
    "TRAIN_STEPS=2",
    "--set",
    "BATCH_SIZE=4",
    "--set",
    "INPUTS_LENGTH=16",
    "--set",
    "WARMUP_STEPS=1",
)

VERBS = """
import json
from t5x_like.cli.main import main

for arguments in json.loads(sys.argv[1]):
    print("$", *arguments)
    code = main(arguments)
    if code:
        sys.exit(code)
sys.stdout.flush()
import os
os._exit(0)  # threads of JAX and of checkpoints
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without_seqio")
    rows = "".join(f"{word} {index},{word}\n" for index in range(8) for word in ("animal", "plant"))
    (folder / "rows.csv").write_text(f"text,label\n{rows}")
    return folder


@pytest.mark.slow
def test_a_table_becomes_a_model_that_answers(folder: Path):
    done = run_without_seqio(
        VERBS,
        json.dumps(
            [
                ["new", "words", "--task", "classify"],
                [
                    *("train", "--gin_file=words/recipe.gin", "--model_dir=run", *SETTINGS),
                    *("--set", "TRAIN_FILES=rows.csv", "--set", "VALIDATION_FILES=rows.csv"),
                    *("--set", "LABELS=('animal', 'plant')", "--set", "NUM_LABELS=2"),
                ],
                ["evaluate", "--checkpoint=run"],
                ["predict", "--checkpoint=run", "--task=words", "--input=animal 3"],
                ["convert", "--from=run", "--to=exported", "--export=hf"],
                ["runs", "show", "run"],
            ]
        ),
        folder=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "run/2").is_dir()
    assert (folder / "exported/model.safetensors").is_file()
    assert "accuracy" in done.stdout


def test_tokens_are_cached(folder: Path):
    verbs = [["cache", "wordnet_definitions", "--output=caches", "--split=validation", "--num_processes=1"]]
    done = run_without_seqio(VERBS, json.dumps(verbs), folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1,500 examples" in done.stdout
