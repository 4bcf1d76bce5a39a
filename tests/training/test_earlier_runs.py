"""Names that earlier versions recorded are found where they are now."""

import importlib

import pytest

from t5x_like.training.earlier_runs import current_name, moved_class


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
