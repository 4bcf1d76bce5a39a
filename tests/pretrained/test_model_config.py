"""``model.json`` gives back the configuration that it was written from."""

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from t5x_like.io.files import read_json
from t5x_like.model.layers.rotary import LinearScaling, Llama3Scaling, YarnScaling
from t5x_like.model.zoo.albert import AlbertConfig
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.model.zoo.qwen3 import Qwen3Config
from t5x_like.pretrained.model_config import read_model_config, write_model_config

SIZES: Any = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 8, "num_heads": 2, "num_layers": 2}
SCALINGS = [
    None,
    LinearScaling(factor=2.0),
    Llama3Scaling(
        factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192
    ),
    YarnScaling(factor=4.0, original_max_position_embeddings=32),
]


@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: type(scaling).__name__)
def test_choices_are_told_apart(tmp_path: Path, scaling: Any) -> None:
    config = LlamaConfig(
        vocab_size=8, model_dim=8, mlp_dim=8, num_heads=2, num_layers=1, rope_scaling=scaling
    )
    write_model_config(tmp_path, config)
    assert read_model_config(tmp_path) == config


def test_another_versions_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"model_type": "swirl"}')
    with pytest.raises(ValueError, match="no model 'swirl'"):
        read_model_config(tmp_path)


@pytest.mark.parametrize(
    ("config", "ignored"),
    [
        (ModernBertConfig(**SIZES, global_attn_every_n_layers=1), {"local_attention": 4}),
        (Qwen3Config(**SIZES), {"sliding_window": 4, "max_window_layers": 2}),
        (AlbertConfig(**SIZES, sharing="none"), {"num_hidden_groups": 2}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_run_with_options_that_are_refused_today_is_read_without_them(
    tmp_path: Path, config: Any, ignored: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="has no effect"):
        replace(config, **ignored)
    write_model_config(tmp_path, config)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(read_json(path) | ignored))
    listed = ", ".join(f"{type(config).__name__}.{name}={value}" for name, value in ignored.items())
    message = f"{path} has options that had no effect, and are left out: {listed}"
    with pytest.warns(UserWarning, match=re.escape(message)):
        assert read_model_config(tmp_path) == config
    assert replace(read_without_warning(tmp_path), vocab_size=16).vocab_size == 16


def read_without_warning(directory: Path) -> Any:
    """Return the configuration of a record whose warning was seen before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_model_config(directory)
