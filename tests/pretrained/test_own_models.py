"""``model.json`` of models and adapters that a user's module defines."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest
from flax import nnx

from t5x_like.config_class import config_class
from t5x_like.io.files import read_json
from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.model.layers.attention import AttentionConfig, QKNormConfig
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.zoo.architectures import architecture_of
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.pretrained.model_config import read_model_config, write_model_config

SIZES: Any = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 8, "num_heads": 2, "num_layers": 1}


@config_class
class NormedLlamaConfig(LlamaConfig):
    """A Llama whose heads normalize queries and keys."""

    qk_norm: QKNormConfig = QKNormConfig(norm=RMSNormConfig(epsilon=1e-6))

    def attention(self, layer: int) -> AttentionConfig:
        return replace(super().attention(layer), qk_norm=self.qk_norm)


@config_class
class TwoHeadedLlamaConfig(LlamaConfig):
    """A Llama whose record has heads of its own."""

    second: HeadsConfig = HeadsConfig(lm_head=LMHeadConfig(tie_word_embeddings=True))


@config_class
class NothingNew:
    """An adapter that adds nothing."""

    trainable: tuple[str, ...] = ("*",)

    def attach(self, model: nnx.Module, key: jax.Array) -> nnx.Module:
        return model


@pytest.mark.parametrize(
    "config",
    [
        NormedLlamaConfig(**SIZES),
        NormedLlamaConfig(**SIZES, qk_norm=QKNormConfig(norm=RMSNormConfig(epsilon=0.1))),
        NormedLlamaConfig(**SIZES, adapter=NothingNew(trainable=("*/query/*",))),
        LlamaConfig(**SIZES, adapter=NothingNew()),
    ],
)
def test_a_model_of_a_users_own_comes_back(config: LlamaConfig, tmp_path: Path) -> None:
    write_model_config(tmp_path, config)
    restored = read_model_config(tmp_path)
    assert (type(restored), restored) == (type(config), config)


def test_heads_are_read_by_the_output_layers_earlier_name(tmp_path: Path) -> None:
    config = TwoHeadedLlamaConfig(
        **SIZES, second=HeadsConfig(lm_head=LMHeadConfig(tie_word_embeddings=False))
    )
    write_model_config(tmp_path, config)
    fields = read_json(tmp_path / "model.json", dict)
    fields["second"]["words"] = fields["second"].pop("lm_head")
    (tmp_path / "model.json").write_text(json.dumps(fields))
    assert read_model_config(tmp_path) == config


def test_a_model_is_recorded_by_the_name_of_its_class(tmp_path: Path) -> None:
    write_model_config(tmp_path, NormedLlamaConfig(**SIZES))
    fields = read_json(tmp_path / "model.json", dict)
    assert fields["$class"].endswith("test_own_models:NormedLlamaConfig")
    assert "model_type" not in fields


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_models:MyConfig", "give module=my_models"),
        ("os:system", "os:system is not a part of a configuration"),
        ("t5x_like.io.files:write_json", "is not a part of a configuration"),
        ("t5x_like.text.registry:register", "is not a part of a configuration"),
        ("t5x_like.gin_config.configuration:load", "is not a part of a configuration"),
    ],
)
def test_a_model_of_a_module_that_is_not_imported_is_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps({"$class": name, "vocab_size": 8}))
    with pytest.raises(ValueError, match=message):
        read_model_config(tmp_path)


def test_an_adapter_whose_class_is_inside_a_function_is_refused(tmp_path: Path) -> None:
    @config_class
    class Hidden(NothingNew):
        """An adapter that no other process finds."""

    with pytest.raises(ValueError, match=r"the configuration .*Hidden can't be recorded"):
        write_model_config(tmp_path, LlamaConfig(**SIZES, adapter=Hidden()))
    assert not list(tmp_path.iterdir())


def test_other_libraries_have_no_form_of_it() -> None:
    architecture = architecture_of(NormedLlamaConfig(**SIZES))
    with pytest.raises(ValueError, match="NormedLlamaConfig: other libraries have no form"):
        architecture.to_hugging_face(NormedLlamaConfig(**SIZES))
