"""Exports of models whose output layer is no copy of the embeddings hold that layer."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import t5x_like
from t5x_like.model.zoo.gpt2 import GPT2Config

SIZES = {"vocab_size": 50, "model_dim": 16, "mlp_dim": 24, "num_heads": 2, "num_layers": 1, "num_labels": 1}
# What transformers' GPT2DoubleHeadsModel scores: the same rows, each of two choices.
ROWS: dict[str, Any] = {"input_ids": [[[5, 6, 7], [5, 8, 9]]], "attention_mask": [[[1, 1, 1], [1, 1, 1]]]}


def exported(home: Path, **options) -> tuple[dict, dict[str, np.ndarray]]:
    """Export a fresh model; returns its ``config.json`` and its arrays."""
    config = GPT2Config(**SIZES, **options)
    t5x_like.export_hugging_face(config.build(jax.random.key(0)), home, config=config)
    return json.loads((home / "config.json").read_text()), load_file(home / "model.safetensors")


@pytest.mark.parametrize("task", ["causal_lm", "multiple_choice"])
def test_an_output_layer_of_its_own_is_exported_and_read_back(tmp_path: Path, task) -> None:
    fields, arrays = exported(tmp_path / "first", task=task, tie_word_embeddings=False, keep_lm_head=True)
    assert fields["tie_word_embeddings"] is False
    assert arrays["lm_head.weight"].shape == (50, 16)
    assert not np.allclose(arrays["lm_head.weight"], arrays["transformer.wte.weight"])
    again = t5x_like.from_pretrained(tmp_path / "first")
    t5x_like.export_hugging_face(again, tmp_path / "second")
    for name, array in load_file(tmp_path / "second/model.safetensors").items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)


def test_choices_that_were_trained_without_an_output_layer_are_exported_as_tied(tmp_path: Path) -> None:
    fields, arrays = exported(tmp_path / "model", task="multiple_choice", tie_word_embeddings=False)
    assert fields["tie_word_embeddings"] is True
    assert "lm_head.weight" not in arrays
    assert t5x_like.from_pretrained(tmp_path / "model")(**ROWS).logits.shape == (1, 2)
