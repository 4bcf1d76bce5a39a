"""A run in two stages from a pretrained encoder, as SixT: its decoder trains first, then everything."""

import json
import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest

from t5x_like.io.files import read_json
from t5x_like.model import parameters
from t5x_like.model.zoo.bart import BartConfig
from t5x_like.model.zoo.roberta import RobertaConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.training.start.pretrained_encoder import PretrainedEncoder
from t5x_like.training.start.pretrained_weights import PretrainedWeights
from t5x_like.training.train import train
from tests.integration import tiny_run

ENCODER = RobertaConfig(
    vocab_size=384,
    model_dim=32,
    mlp_dim=64,
    num_heads=2,
    num_layers=2,
    max_position_embeddings=64,
    pad_token_id=0,
    task="masked_lm",
)
MODEL = BartConfig(
    vocab_size=384,
    model_dim=32,
    encoder_mlp_dim=64,
    decoder_mlp_dim=64,
    num_encoder_heads=2,
    num_decoder_heads=2,
    num_encoder_layers=2,
    num_decoder_layers=1,
    max_position_embeddings=64,
)
FROZEN = ("embedding", "encoder")


@pytest.fixture(scope="module")
def folder(directory):
    """The encoder and the runs, next to the data that all modules share."""
    path = directory / "two_stages"
    path.mkdir()
    params = parameters.split(ENCODER.build(jax.random.key(1)))[1]
    write_hugging_face(ENCODER, params, path / "encoder")
    return path


def experiment(folder, name, steps, **changes):
    settings = {
        "model": MODEL,
        "start": PretrainedEncoder(encoder=str(folder / "encoder")),
        "trainable": ("decoder/*", "decoder_embedding/*", "heads/*"),
        "evaluations": (),
        "validations": (),
    }
    return tiny_run.experiment(
        folder.parent, model_dir=str(folder / name), total_steps=steps, **settings | changes
    )


@pytest.fixture(scope="module")
def first_stage(folder):
    train(experiment(folder, "first", 3))
    return folder / "first"


def weights(run):
    return {path: np.asarray(each) for path, each in parameters.flatten(open_checkpoint(run).params).items()}


def part_of(path):
    return path.split("/")[0]


def test_a_frozen_encoder_stays_bit_equal_while_the_decoder_learns(folder, first_stage):
    own, encoder = weights(first_stage), weights(folder / "encoder")
    layers = [path for path in own if path.startswith(("encoder/", "embedding/norm/"))]
    assert len(layers) > 10
    for path in layers:
        np.testing.assert_array_equal(own[path], encoder[path])
    np.testing.assert_array_equal(own["embedding/tokens/table"], encoder["embedding/tokens/table"])
    saved = {path.split("/")[1] for path in read_json(first_stage / "3/leaves.json") if path[:7] == "params/"}
    assert saved == {"decoder", "decoder_embedding", "heads"}


def test_a_run_with_a_frozen_encoder_continues_to_the_same_weights(folder, first_stage):
    train(experiment(folder, "whole", 6))
    train(experiment(folder, "first", 6))
    whole, halves = weights(folder / "whole"), weights(folder / "first")
    for path, array in whole.items():
        np.testing.assert_array_equal(halves[path], array)
    assert read_json(first_stage / "frozen.json")["inputs"] == {
        "is": "t5x_like.training.start.pretrained_encoder:RecordedEncoder",
        "encoder": str(folder / "encoder"),
        "encoder_step": None,
        "decoder_layers": "fresh",
    }


def test_the_second_stage_changes_the_encoder(folder, first_stage):
    before = weights(first_stage)
    train(
        experiment(
            folder, "second", 2, start=PretrainedWeights(start_from=str(first_stage)), trainable=("*",)
        )
    )
    after = weights(folder / "second")
    changed = {part_of(path) for path in after if not np.array_equal(before[path], after[path])}
    assert changed >= {"decoder", *FROZEN}


def test_an_encoder_that_has_gone_is_named(folder, first_stage):
    shutil.copytree(first_stage, folder / "moved")
    record = read_json(folder / "moved/frozen.json")
    record["inputs"]["encoder"] = str(folder / "nowhere")
    (folder / "moved/frozen.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"nowhere, which can't be opened.*the path of a copy as encoder in"):
        open_checkpoint(folder / "moved")


def test_an_encoder_that_does_not_fit_stops_a_run_before_it_begins(folder):
    wider = replace(MODEL, model_dim=64)
    with pytest.raises(ValueError, match="its width is 32, the model's 64"):
        train(experiment(folder, "never", 3, model=wider))
    assert not (folder / "never").exists()
