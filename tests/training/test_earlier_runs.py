"""Names that earlier versions recorded are found where they are now."""

import importlib

import pytest

from t5x_like.model.heads import HeadsConfig, LMHeadConfig
from t5x_like.training.earlier_runs import current_name, moved_class, moved_field
from t5x_like.training.run_record import from_data, to_data


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("model.zoo.awd_lstm:AWDLSTMConfig", "ancestors.zoo.awd_lstm:AWDLSTMConfig"),
        ("model.layers.sampled_softmax:SampledSoftmax", "ancestors.layers.sampled_softmax:SampledSoftmax"),
        (
            "model.families.pretrained_features:FeatureMix",
            "ancestors.families.pretrained_features:FeatureMix",
        ),
        ("pretrained.initial_features:CheckpointFeatures", "ancestors.initial_features:CheckpointFeatures"),
        ("training.start.pretrained_inputs:PretrainedInputs", "ancestors.pretrained_inputs:PretrainedInputs"),
        ("text.objectives.bidirectional_lm:BidirectionalLM", "ancestors.bidirectional_lm:BidirectionalLM"),
        ("training.experiment:Intervals", "training.run_config:Intervals"),
        ("model.zoo.bert:BertConfig", "model.zoo.bert:BertConfig"),
    ],
)
def test_a_class_of_an_earlier_version_is_found_in_its_present_module(before: str, now: str) -> None:
    assert current_name(f"t5x_like.{before}") == f"t5x_like.{now}"
    module, name = f"t5x_like.{now}".split(":")
    assert getattr(importlib.import_module(module), name).__module__ == module
    if before != now:
        assert moved_class(f"t5x_like.{before}".split(":")[0], name) == module


def test_a_recorded_output_layer_is_read_by_its_earlier_name() -> None:
    heads = HeadsConfig(lm_head=LMHeadConfig(tie_word_embeddings=True))
    record = to_data(heads)
    earlier = {"words" if name == "lm_head" else name: value for name, value in record.items()}
    assert from_data(earlier) == from_data(record) == heads
    assert moved_field(HeadsConfig, "words") == "heads.HeadsConfig.lm_head"
    assert moved_field(HeadsConfig, "scores") is None
