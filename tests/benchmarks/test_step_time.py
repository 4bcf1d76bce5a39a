"""A train step of any family is timed, and its FLOPs are those of the model."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

from benchmarks import step_time
from benchmarks.timed_step import random_batch, time_train_step
from t5x_like.batch import Batch
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.partitioning.mesh import MeshConfig
from tests.model.zoo.tiny_models import TINY


@pytest.mark.slow
def test_a_step_has_three_times_the_flops_of_a_forward_pass_by_hand():
    config = replace(
        TINY["gpt2"],
        model_dim=64,
        mlp_dim=128,
        num_heads=4,
        num_layers=3,
        vocab_size=128,
        max_position_embeddings=32,
    )
    row = np.zeros((1, 32), np.int32)
    streams = ("decoder_input_tokens", "decoder_segment_ids", "target_tokens")
    rows = Batch(**dict.fromkeys(streams, row), loss_weights=np.zeros((1, 32), np.float32))
    batch = random_batch(rows, batch_size=4, vocab_size=100)
    assert batch.decoder_input_tokens.min() >= 2
    assert batch.loss_weights.all()
    mesh = MeshConfig().build(jax.devices()[:1])
    result = time_train_step(config, AdamW(), batch, mesh, num_steps=1)
    tokens = 4 * 32
    layer = tokens * (4 * 64 * 64 + 2 * 64 * 128) + 2 * 4 * 32 * 32 * 64
    by_hand = 3 * 2 * (3 * layer + tokens * 64 * 128)
    assert result["model_flops"] == pytest.approx(by_hand, rel=0.02)
    assert result["compiled_flops_per_device"] == pytest.approx(by_hand, rel=0.05)
    assert result["tokens"] == tokens
    assert result["seconds_per_step"]["median"] > 0


@pytest.mark.slow
def test_a_recipe_of_an_encoder_is_timed(monkeypatch, capsys):
    flags = ["--gin_file=gin/recipes/objectives/masked_lm.gin", "--steps", "1", "--set", "MODEL_DIR=unused"]
    small = ["--set", "BATCH_SIZE=8", "--set", "INPUTS_LENGTH=16"]
    monkeypatch.setattr("sys.argv", ["step_time", *flags, *small])
    step_time.main()
    printed = json.loads(capsys.readouterr().out)
    assert (printed["rows"], printed["tokens"], printed["inputs_length"]) == (8, 8 * 16, 16)
