"""What checks and starts ask of a configuration, for the models that differ from most."""

from dataclasses import replace

import pytest

from t5x_like.ancestors.families.pretrained_features import FeaturesConfig
from t5x_like.config_class import config_class
from t5x_like.model import parameters
from t5x_like.model.families.ensemble import EnsembleConfig
from t5x_like.model.model_traits import ModelTraits, learned_positions, traits_of
from tests.model.zoo.tiny_models import TINY


def test_a_configuration_of_another_base_is_like_most_models() -> None:
    traits = traits_of(EnsembleConfig(members=(TINY["bert"], TINY["bert"])))
    assert type(traits) is ModelTraits
    assert traits.can_pack
    assert not traits.hides_targets
    assert traits.trained_by_default(["a/kernel"]) == ("*",)
    assert (traits.carried_memory, traits.unlabeled_loss, traits.vocabulary_weights) == (None, None, ())


@pytest.mark.parametrize("name", TINY)
def test_weights_of_the_vocabulary_are_weights_of_the_model(name: str) -> None:
    paths = traits_of(TINY[name]).vocabulary_weights
    assert set(paths) <= parameters.flatten(parameters.abstract(TINY[name])[1]).keys()
    assert bool(paths) == (name == "elmo")


def test_features_of_a_model_bring_its_weights_of_the_vocabulary() -> None:
    elmo = replace(TINY["elmo"], task="base")
    model = replace(TINY["bcn"], features=FeaturesConfig(model=elmo))
    (path,) = model.vocabulary_weights
    assert path == "features/model/embedding/character_ids"
    flat = parameters.flatten(parameters.abstract(model)[1])
    assert path in flat
    patterns = model.trained_by_default(flat)
    assert "rnn/*" in patterns
    assert not any(pattern.startswith("features/model") for pattern in patterns)


def test_a_model_with_a_memory_names_its_setting() -> None:
    named = {name for name, config in TINY.items() if traits_of(config).carried_memory is not None}
    assert {"transfo_xl", "awd_lstm"} <= named
    assert "gpt2" not in named
    assert traits_of(replace(TINY["awd_lstm"], carries_state=False)).carried_memory is None
    assert traits_of(replace(TINY["awd_lstm"], direction="backward")).carried_memory.is_backward


def test_a_value_of_most_models_is_no_default_of_a_field_without_one() -> None:
    @config_class
    class WithExperts(ModelTraits):
        num_experts: int

    with pytest.raises(TypeError, match="num_experts"):
        WithExperts()
    assert WithExperts(num_experts=2).num_experts == 2
    assert traits_of(TINY["gpt_neox"]).num_experts == 0


def test_fields_of_another_base_are_read_by_their_names() -> None:
    traits = traits_of(EnsembleConfig(members=(TINY["roberta"], TINY["roberta"])))
    assert traits.task == TINY["roberta"].task
    assert traits.pad_token_id == TINY["roberta"].pad_token_id
    assert learned_positions(TINY["roberta"]) == TINY["roberta"].embeddings.positions.max_position_embeddings
    assert learned_positions(TINY["gpt_neox"]) is None
