"""Decoders that are trained further with other rotary positions, for longer texts."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.layers.rotary import YarnScaling
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.causal_lm import CausalLM
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.training.start.pretrained_weights import PretrainedWeights
from t5x_like.training.start.starts import start_from
from t5x_like.training.train import train
from tests.integration import tiny_run

SHORT = LlamaConfig(
    vocab_size=384,
    model_dim=32,
    mlp_dim=64,
    num_heads=2,
    num_kv_heads=2,
    num_layers=2,
    max_position_embeddings=64,
)
YARN = YarnScaling(factor=4.0, original_max_position_embeddings=64)
LONG = replace(SHORT, rope_theta=1.5e6, rope_scaling=YARN, max_position_embeddings=256)


@pytest.fixture(scope="module")
def folder(directory):
    path = directory / "longer"
    path.mkdir()
    write_hugging_face(SHORT, parameters.split(SHORT.build(jax.random.key(1)))[1], path / "short")
    return path


def experiment(folder, name, **changes):
    settings = {
        "model": LONG,
        "start": PretrainedWeights(start_from=str(folder / "short"), new_positions=True),
        "trainable": ("heads/*", "decoder/layers/*/feed_forward/*"),
        "tasks": (
            PretrainingTask(
                name=f"long_{name}",
                vocabulary="bytes",
                files={"train": str(folder.parent / "corpus.txt")},
                objective=CausalLM(),
            ),
        ),
        "train": LoaderConfig(
            mixture=f"long_{name}", batch_size=8, inputs_length=256, targets_length=256, seed=3
        ),
        "evaluations": (),
        "validations": (),
    }
    return tiny_run.experiment(
        folder.parent, model_dir=str(folder / name), total_steps=2, **settings | changes
    )


def test_a_decoder_learns_longer_rows_with_yarn_and_opens_with_its_frozen_weights(folder, caplog):
    train(experiment(folder, "long"))
    assert "rope_theta is 10000.0 there and 1500000.0 here, so the model learns new positions" in caplog.text
    opened = open_checkpoint(folder / "long")
    assert (opened.config.rope_theta, opened.config.rope_scaling) == (1.5e6, YARN)
    own, short = (parameters.flatten(each.params) for each in (opened, open_checkpoint(folder / "short")))
    query = "decoder/layers/0/self_attention/query/kernel"
    np.testing.assert_array_equal(own[query], short[query])
    up = "decoder/layers/0/feed_forward/up/kernel"
    assert not np.array_equal(own[up], short[up])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            LONG,
            r"trained with other positions:\n  rope_theta: 10000.0 there, .*\n.*\n.*\n.* give PretrainedWeights",
        ),
        (replace(LONG, mlp_dim=32), r"are of another model:\n  mlp_dim: 64 there, 32 here"),
    ],
)
def test_other_positions_of_a_published_model_must_be_allowed(folder, model, message):
    start = PretrainedWeights(start_from=str(folder / "short"))
    with pytest.raises(ValueError, match=message):
        start.check_weights(model, None)


def test_sizes_must_be_the_same_with_new_positions_too(folder):
    start = PretrainedWeights(start_from=str(folder / "short"), new_positions=True)
    with pytest.raises(ValueError, match=r"are of another model:\n  mlp_dim: 64 there, 32 here"):
        start.check_weights(replace(LONG, mlp_dim=32), None)


def test_the_model_of_a_checkpoint_may_have_other_positions(folder):
    changes = {"rope_theta": 1.5e6, "rope_scaling": YARN, "max_position_embeddings": 256}
    start = PretrainedWeights(start_from=str(folder / "short"), new_positions=True)
    model = start.resolve(CheckpointModel(**changes), None)
    assert replace(model, compute_dtype=LONG.compute_dtype) == LONG
    (theta, scaling) = start.check_weights(model, None)
    assert theta.startswith(f"{folder / 'short'}: rope_theta is 10000.0 there")
    assert "rope_scaling is None there and YarnScaling(" in scaling


def test_a_model_without_rotary_positions_has_none_to_change(folder):
    gpt = GPT2Config(
        vocab_size=384, model_dim=32, mlp_dim=64, num_heads=2, num_layers=2, max_position_embeddings=64
    )
    write_hugging_face(gpt, parameters.split(gpt.build(jax.random.key(1)))[1], folder / "gpt")
    start = PretrainedWeights(start_from=str(folder / "gpt"), new_positions=True)
    with pytest.raises(
        ValueError, match=r"rope_theta=5.0 has no effect: .*gpt is a GPT2Config, which has none"
    ):
        start.resolve(CheckpointModel(rope_theta=5.0), None)


def test_new_positions_need_a_checkpoint():
    with pytest.raises(ValueError, match="new_positions is for a model that was trained with others"):
        start_from(new_positions=True)
