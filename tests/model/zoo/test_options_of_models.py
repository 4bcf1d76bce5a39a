"""Options of models that a combination would ignore: each field changes the model, or is refused."""

import dataclasses
import typing
from typing import Any, Literal

import pytest

from t5x_like.ancestors.families.pretrained_features import FeaturesConfig
from t5x_like.ancestors.zoo.awd_lstm import ConcatPooling
from t5x_like.ancestors.zoo.bilstm import BiLSTMConfig
from t5x_like.ancestors.zoo.elmo import ClusteredSoftmax
from t5x_like.model.layers.rotary import LinearScaling
from t5x_like.model.zoo.albert import AlbertConfig
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.common_config import CommonConfig
from t5x_like.model.zoo.distilbert import DistilBertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.gpt_neo import GPTNeoConfig
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.model.zoo.qwen2 import Qwen2Config
from t5x_like.model.zoo.qwen3 import Qwen3Config
from t5x_like.model.zoo.spanbert import SpanBertConfig
from t5x_like.model.zoo.t5_lm import T5LanguageModelConfig
from t5x_like.training.start.start import HEAD_OPTIONS, refuse_head_options
from t5x_like.value_types import parameter_types
from tests.model.zoo.tiny_models import TINY

# One of each class that is a single model.
MODELS = {type(config): config for config in TINY.values()}
MODELS[T5LanguageModelConfig] = T5LanguageModelConfig(
    vocab_size=61, model_dim=32, mlp_dim=48, num_heads=4, head_dim=6, num_layers=2
)

# Used when the model is built or run, and never ignored: recurrent models refuse them.
COMPUTATION = (
    "adapter",
    "attention_implementation",
    "compute_dtype",
    "float32_gradients",
    "quantization",
    "remat",
    "scan_layers",
)
# Fields whose other value isn't a number, a name or a switch.
OTHERS: dict[str, Any] = {
    "rope_scaling": LinearScaling(factor=2.0),
    "classifier": ConcatPooling(),
    "features": FeaturesConfig(
        model=BiLSTMConfig(vocab_size=61, model_dim=8, hidden_dim=8, num_layers=1, task="base")
    ),
    "softmax": ClusteredSoftmax(cutoffs=(20,)),
    "cutoffs": (20,),
    "tie_projections": (True,),
    "maxout_dims": (8, 8),
    "filters": ((1, 8), (2, 4)),
    "attention_pattern": ("local", "local"),
    "mlp_only_layers": (1,),
    "layer_types": ("full_attention", "sliding_attention"),
    "rotated_layers": (False, True),
    "pos_att_type": ("c2p",),
}


def other_values(config, field):
    """Return values that the field may have instead; one that is accepted must change the model."""
    value, annotation = getattr(config, field.name), parameter_types(type(config))[field.name]
    kinds = (annotation, *typing.get_args(annotation))
    if field.name in OTHERS and value != OTHERS[field.name]:
        return [OTHERS[field.name]]
    if isinstance(value, bool):
        return [not value]
    choices = [each for kind in kinds if typing.get_origin(kind) is Literal for each in typing.get_args(kind)]
    if choices:
        return [each for each in choices if each != value]
    if isinstance(value, float):
        return [0.37 if field.name.endswith("rate") else value / 2 or 0.1]
    if isinstance(value, int):
        return [value * 2 or 1, value * 3, value + 1]
    if value is None:
        return [0.3] if float in kinds else [2] if int in kinds else [True, False]
    return [None] if type(None) in kinds else []


def changed(config, **values):
    """Return the configuration with other values, or ``None`` if they are refused."""
    try:
        return dataclasses.replace(config, **values)
    except ValueError:
        return None


def switches_of(config):
    """Yield values of fields under which others may have no effect."""
    yield {}
    for field in dataclasses.fields(config):
        if field.name in (*COMPUTATION, *HEAD_OPTIONS, "task", "activation"):
            continue
        value = getattr(config, field.name)
        if isinstance(value, bool | str) or value is None or field.name in OTHERS:
            yield {field.name: other_values(config, field)[0]}
        elif field.name in ("global_attn_every_n_layers", "sparse_step"):
            yield {field.name: 1}


def is_exported_only(config, name):
    documented = any("no limit here" in str(owner.__doc__) for owner in type(config).__mro__)
    return name == "max_position_embeddings" and documented


@pytest.mark.parametrize("name", sorted(owner.__name__ for owner in MODELS))
def test_each_field_of_a_model_changes_it_or_is_refused(name):
    config = next(each for owner, each in MODELS.items() if owner.__name__ == name)
    common = {field.name for field in dataclasses.fields(CommonConfig)} - {"dropout_rate"}
    silent = []
    for switch in switches_of(config):
        base = changed(config, **switch)
        if base is None:
            continue
        parts = base.parts
        for field in dataclasses.fields(base):
            if field.name in (*switch, *COMPUTATION, *HEAD_OPTIONS) or is_exported_only(base, field.name):
                continue
            if switch and field.name in common:
                continue
            others = [changed(base, **{field.name: each}) for each in other_values(base, field)[:3]]
            accepted = [other for other in others if other is not None and other != base]
            if accepted and all(other.parts == parts for other in accepted):
                silent.append((field.name, switch))
    assert silent == []


SIZES: dict[str, Any] = {"vocab_size": 61, "model_dim": 32, "mlp_dim": 48, "num_heads": 4, "num_layers": 2}


@pytest.mark.parametrize(
    ("model", "unused", "values"),
    [
        (AlbertConfig, "num_hidden_groups", {"sharing": "none", "num_hidden_groups": 2}),
        (GPTNeoConfig, "window_size", {"attention_pattern": ("global",), "window_size": 4}),
        (ModernBertConfig, "local_attention", {"global_attn_every_n_layers": 1, "local_attention": 4}),
        (Qwen2Config, "max_window_layers", {"max_window_layers": 1}),
        (Qwen3Config, "sliding_window", {"sliding_window": 4, "max_window_layers": 2}),
    ],
)
def test_an_option_of_layers_that_a_model_lacks_is_refused(model, unused, values):
    with pytest.raises(ValueError, match=f"{unused}=.* has no effect"):
        model(**SIZES | values)


@pytest.mark.parametrize(
    ("model", "unused", "task"),
    [
        (BertConfig, {"classifier_dropout_rate": 0.3}, "sequence_classification"),
        (BertConfig, {"num_labels": 7}, "token_classification"),
        (BertConfig, {"problem_type": "multi_label"}, "sequence_classification"),
        (DistilBertConfig, {"qa_dropout_rate": 0.3}, "question_answering"),
        (GPT2Config, {"keep_lm_head": True}, "multiple_choice"),
        (ModernBertConfig, {"classifier_pooling": "mean"}, "sequence_classification"),
        (SpanBertConfig, {"max_span_length": 7}, "pretraining"),
    ],
)
def test_an_option_of_another_head_than_the_models_is_refused_in_a_recipe(model, unused, task):
    without = "pretraining" if model is BertConfig else model(**SIZES).task
    if model is SpanBertConfig:
        without, task = "question_answering", "masked_lm"
    message = f"{next(iter(unused))}=.* has no effect: the model is for the task '{without}'"
    with pytest.raises(ValueError, match=message):
        refuse_head_options(model(**SIZES, **unused, task=without))
    refuse_head_options(model(**SIZES, **unused, task=task))
