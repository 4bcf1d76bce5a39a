"""``model.json`` gives back the configuration that it was written from."""

from pathlib import Path
from typing import Any

import pytest

from t5x_like.model.layers.rotary import LinearScaling, Llama3Scaling, YarnScaling
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.pretrained.model_config import read_model_config, write_model_config

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
