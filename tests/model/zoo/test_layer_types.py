"""OLMo 3, Gemma 3 and SmolLM3: layers of two types matter, and no field of a config.json is overlooked."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.rotary import LinearScaling, Rotary, YarnScaling
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.gemma3 import GEMMA3, Gemma3Config
from t5x_like.model.zoo.layer_types import FULL, SLIDING, period_of
from t5x_like.model.zoo.olmo3 import OLMO3, Olmo3Config
from t5x_like.model.zoo.smollm3 import SMOLLM3, SmolLM3Config
from tests.model.zoo.golden_models import (
    SMALL_FIELDS,
    GoldenModel,
    fields_of,
    read_golden,
    with_blocks,
    worst_difference,
)
from tests.references import FIXTURES

FIELDS = {**SMALL_FIELDS, "num_hidden_layers": 6, "num_attention_heads": 4}
MODELS = {"olmo3": OLMO3, "gemma3": GEMMA3, "smollm3": SMOLLM3}
SIZE: dict[str, Any] = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 16, "num_heads": 4, "num_layers": 6}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> GoldenModel:
    name = request.param
    return read_golden(FIXTURES / "models" / name, MODELS[name], lambda config: config.decoder)


def with_layers(family: Any, change: Callable[[Any], Any]) -> Any:
    """The same with the attention of every layer changed."""
    return with_blocks(family, lambda block: dataclasses.replace(block, attention=change(block.attention)))


def all_see_all(attention: Any) -> Any:
    return dataclasses.replace(attention, window=None)


def wider(attention: Any) -> Any:
    window = attention.window and SlidingWindow(left=attention.window.left + 1)
    return dataclasses.replace(attention, window=window)


def rotated_as_in_other_layers(attention: Any) -> Any:
    """Layers of both types get the positions that the other type has, and those without get some."""
    theta = 100.0 if attention.positions is None else attention.positions.rope_theta * 7
    return dataclasses.replace(
        attention, positions=Rotary(rotated_dim=attention.head_dim, rope_theta=theta, rope_scaling=None)
    )


def test_unchanged_traits_give_the_recorded_logits(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize("change", [all_see_all, wider, rotated_as_in_other_layers])
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, with_layers(model.family, change)) > 1e-3


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [
        (OLMO3, Olmo3Config(**SIZE, num_kv_heads=4, norm_epsilon=1e-5, max_position_embeddings=2048)),
        (GEMMA3, Gemma3Config(**SIZE, num_kv_heads=4, head_dim=256)),
        (SMOLLM3, SmolLM3Config(**SIZE, num_kv_heads=4)),
    ],
    ids=list(MODELS),
)
def test_absent_fields_have_the_defaults_of_transformers(architecture: Architecture, expected: Any) -> None:
    config = architecture.from_hugging_face(FIELDS)
    assert dataclasses.replace(config, task=expected.task) == expected
    assert architecture.from_hugging_face(architecture.to_hugging_face(config)) == config


@pytest.mark.parametrize("name", MODELS)
def test_every_field_of_the_recorded_model_is_written_and_read_again(name: str) -> None:
    fields = fields_of(FIXTURES / "models" / name)
    config = MODELS[name].from_hugging_face(fields)
    written = MODELS[name].to_hugging_face(config)
    assert MODELS[name].from_hugging_face(written) == config
    for field in ("layer_types", "sliding_window", "rope_parameters", "no_rope_layers"):
        if field in fields and (name, field) != ("smollm3", "rope_parameters"):
            assert written[field] == fields[field], field


def test_older_files_scale_layers_without_a_window_alone() -> None:
    rope = {"rope_theta": 2e6, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    config = GEMMA3.from_hugging_face({**FIELDS, **rope, "rope_local_base_freq": 3e4})
    positions = [config.attention(layer).rotary for layer in (0, 5)]
    assert positions == [
        Rotary(rotated_dim=256, rope_theta=3e4),
        Rotary(rotated_dim=256, rope_theta=2e6, rope_scaling=LinearScaling(factor=8.0)),
    ]


def test_yarn_of_olmo_3_is_read_from_both_forms() -> None:
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32}
    older = OLMO3.from_hugging_face({**FIELDS, "rope_scaling": yarn, "rope_theta": 5e5})
    newer = OLMO3.from_hugging_face({**FIELDS, "rope_parameters": {FULL: {**yarn, "rope_theta": 5e5}}})
    assert older == newer
    assert isinstance(older.rope_scaling, YarnScaling)


def test_a_pattern_of_one_number_says_how_often_a_layer_sees_all() -> None:
    config = GEMMA3.from_hugging_face({**FIELDS, "sliding_window_pattern": 3})
    assert [config.type_of(layer) for layer in range(6)] == [SLIDING, SLIDING, FULL] * 2


def test_values_are_cut_to_their_shortest_period() -> None:
    assert period_of([1, 1, 0, 1, 1, 0, 1]) == (1, 1, 0)
    assert period_of([1, 0, 0]) == (1, 0, 0)
    assert period_of([1, 1]) == (1,)


@pytest.mark.parametrize(
    ("architecture", "wrong", "message"),
    [
        (OLMO3, {"layer_types": [FULL]}, "is needed for each of 6 layers"),
        (OLMO3, {"layer_types": ["chunked_attention"] * 6}, "chunked_attention"),
        (OLMO3, {"rope_parameters": {"linear_attention": {}}}, "rope_parameters of linear_attention"),
        (OLMO3, {"rope_parameters": {SLIDING: {"rope_type": "linear", "factor": 2.0}}}, "are scaled"),
        (GEMMA3, {"sliding_window_pattern": 0}, "sliding_window_pattern is 0"),
        (GEMMA3, {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        (SMOLLM3, {"no_rope_layers": [1]}, "0 or 1 is needed for each of 6 layers"),
        (SMOLLM3, {"layer_types": [SLIDING] * 6}, "layer_types"),
    ],
)
def test_what_we_cant_express_is_named(
    architecture: Architecture, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        architecture.from_hugging_face({**FIELDS, **wrong})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Olmo3Config(**SIZE, layer_types=()), "layer_types is empty"),
        (lambda: SmolLM3Config(**SIZE, rotated_layers=()), "rotated_layers is empty"),
        (
            lambda: SmolLM3Config(**SIZE, rotated_layers=(True,), sliding_window=4),
            "sliding_window=4 has no effect",
        ),
    ],
)
def test_settings_without_a_layer_are_refused(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
