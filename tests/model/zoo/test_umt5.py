"""UMT5: each layer has relative positions of its own."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo.t5 import T5
from tests.model.zoo.golden_encoder_decoders import (
    batch_of,
    stepwise_difference,
    with_stacks,
    worst_difference,
)
from tests.model.zoo.golden_models import GoldenModel, fields_of, read_golden
from tests.model.zoo.test_t5 import FIELDS


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/umt5", T5, lambda config: config.encoder_decoder)


def test_one_table_for_all_layers_is_another_model(model: GoldenModel) -> None:
    """Every layer with the first layer's table."""
    assert worst_difference(model, model.family) < 2e-5
    flat = parameters.flatten(model.params)
    for stack in ("encoder", "decoder"):
        path = f"{stack}/layers/0/relative_bias/table"
        flat[path] = flat[path].at[1:].set(flat[path][0])
    shared = model._replace(params=parameters.unflatten(flat))
    assert worst_difference(shared, shared.family) > 1e-3


def test_tables_matter(model: GoldenModel) -> None:
    def change(stack: Any) -> Any:
        attention = dataclasses.replace(stack.blocks[0].attention, positions=None)
        block = dataclasses.replace(stack.blocks[0], attention=attention)
        return dataclasses.replace(stack, blocks=(block,) * len(stack.blocks))

    flat = parameters.flatten(model.params)
    params = parameters.unflatten({path: leaf for path, leaf in flat.items() if "relative" not in path})
    without = model._replace(params=params)
    assert worst_difference(without, with_stacks(model.family, change)) > 1e-2


def test_one_token_at_a_time_is_all_at_once(golden: Path, model: GoldenModel) -> None:
    config = T5.from_hugging_face(fields_of(golden / "models/umt5"))
    assert stepwise_difference(config, model.params, batch_of(model)) < 1e-5


def test_what_is_read_is_written() -> None:
    config = T5.from_hugging_face({**FIELDS, "model_type": "umt5", "scalable_attention": True})
    assert (config.relative_tables, config.feed_forward, config.tie_word_embeddings) == (
        "per_layer",
        "gated_gelu",
        True,
    )
    assert T5.from_hugging_face(T5.to_hugging_face(config)) == config
    assert T5.to_hugging_face(config)["architectures"] == ["UMT5ForConditionalGeneration"]
