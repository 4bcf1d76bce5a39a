"""The catalogue: each architecture is found by its configuration, its name and its Hugging Face model type."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import t5x_like.ancestors.zoo as ancestors_zoo
import t5x_like.model.zoo as model_zoo
from t5x_like.ancestors.zoo import recurrent_architectures as ancestors
from t5x_like.model.parameters import ModelConfig
from t5x_like.model.zoo.architectures import (
    ARCHITECTURES,
    architecture_for,
    architecture_named,
    architecture_of,
    by_model_type,
)
from tests.model.zoo.tiny_models import TINY


def test_every_record_is_listed() -> None:
    makers = "published|replace|unpublished|llama_like|bert_like|in_pretraining"
    record = re.compile(rf"^[A-Z0-9_]+ = ({makers})\(", re.MULTILINE)
    for zoo, listed in ((model_zoo, ARCHITECTURES), (ancestors_zoo, ancestors.ARCHITECTURES)):
        (home,) = zoo.__path__
        files = {path.stem for path in Path(home).glob("*.py") if record.search(path.read_text())}
        assert {architecture.name for architecture in listed} == files


@pytest.mark.parametrize("name", TINY)
def test_a_configuration_has_its_architecture(name: str) -> None:
    architecture = architecture_of(TINY[name])
    assert isinstance(TINY[name], architecture.config_class)
    assert architecture_named(architecture.name) is architecture


def test_model_types_are_those_of_one_architecture_each() -> None:
    model_types = [name for architecture in ARCHITECTURES for name in architecture.model_types]
    assert sorted(model_types) == list(by_model_type())
    assert architecture_for({"model_type": "mt5"}, "x").name == "t5"


def test_others_are_refused() -> None:
    @dataclass(frozen=True)
    class OwnConfig:
        vocab_size: int = 3

        def build(self, key) -> None:
            """Builds nothing."""

    assert isinstance(OwnConfig(), ModelConfig)
    with pytest.raises(ValueError, match="OwnConfig is not the configuration of an architecture"):
        architecture_of(OwnConfig())
    with pytest.raises(
        ValueError, match=re.escape("here/config.json: model_type 'mamba' is not one of albert, ")
    ):
        architecture_for({"model_type": "mamba"}, "here")
    assert architecture_named("mamba") is None
