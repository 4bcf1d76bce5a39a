"""The first GLM: prefixes, two positions for a token, and blanks written token by token."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.decoder import Decoder, DecoderConfig
from t5x_like.model.zoo import glm_orig
from t5x_like.model.zoo.glm_orig import GLM_ORIG
from tests.model.zoo.golden_models import (
    GoldenModel,
    fields_of,
    read_golden,
    with_attention,
    with_feed_forward,
)

FIELDS: dict[str, Any] = {"vocab_size": 8, "hidden_size": 8, "num_attention_heads": 2, "num_layers": 1}


@pytest.fixture(scope="module", params=["glm_orig", "glm_orig_1d"])
def either(request: pytest.FixtureRequest, golden: Path) -> GoldenModel:
    return read_golden(golden / "models" / request.param, GLM_ORIG, lambda config: config)


@pytest.fixture(scope="module")
def model(golden: Path) -> GoldenModel:
    return read_golden(golden / "models/glm_orig", GLM_ORIG, lambda config: config.decoder)


def decoder_of(family: DecoderConfig, params: Any) -> Decoder:
    graphdef, _ = parameters.split(jax.eval_shape(lambda key: Decoder(family, key=key), jax.random.key(0)))
    return parameters.merge(graphdef, params)


_logits_of = jax.jit(lambda decoder, batch: decoder(batch).logits)


def worst_difference(model: GoldenModel, family: DecoderConfig, **changed: Any) -> float:
    """How far logits lie from the recorded ones where there is something to be said."""
    recorded = model.recorded
    ids, positions = recorded["in_input_ids"], recorded["in_position_ids"]
    batch = Batch(
        decoder_input_tokens=ids,
        decoder_positions=positions[:, 0],
        block_positions=positions[:, 1],
        prefix=(np.arange(ids.shape[1]) < recorded["in_sep"][:, None]).astype(np.int32),
    )._replace(**changed)
    logits = _logits_of(decoder_of(family, model.params), batch)
    difference = np.abs(np.asarray(logits)[..., : family.embeddings.vocab_size] - recorded["out_logits"])
    return float(difference[recorded["in_loss_mask"] == 1].max())


def test_unchanged_traits_give_the_recorded_logits(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize("field", ["prefix", "decoder_positions", "block_positions"])
def test_prefixes_and_both_positions_matter(model: GoldenModel, field: str) -> None:
    assert worst_difference(model, model.family, **{field: None}) > 0.01


def test_the_activation_and_the_scale_matter(model: GoldenModel) -> None:
    for family in (
        with_feed_forward(model.family, activation="gelu"),
        with_attention(model.family, attention_scale=1.0),
    ):
        assert worst_difference(model, family) > 5e-4


def test_a_blank_is_written_as_recorded(either: GoldenModel) -> None:
    """One token behind the first text of the record, which is padded here on the left."""
    config, recorded = either.family, either.recorded
    text = recorded["in_input_ids"][:1, : recorded["in_sep"][0] + 1]
    mask = jnp.asarray(np.pad(np.ones_like(text), ((0, 0), (2, 0))))
    blank = jnp.asarray([6 + 2])  # where the record's first answer belongs
    settings = glm_orig.blank_settings(config, mask, blank, max_new_tokens=2)
    decoder = decoder_of(config.decoder, either.params)
    first, cache = decoder.start_cache(
        jnp.asarray(np.pad(text, ((0, 0), (2, 0)))), mask, max_new_tokens=2, **settings
    )
    assert first == text[0, -1]
    logits, _ = decoder.decode_step(first, cache)
    np.testing.assert_allclose(
        logits[:, : config.vocab_size], recorded["out_step_logits"][0], rtol=0, atol=2e-5
    )


def test_new_tokens_stand_where_the_blank_is_and_count_inside_it() -> None:
    config = GLM_ORIG.from_hugging_face(FIELDS)
    mask = jnp.asarray([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    settings = glm_orig.blank_settings(config, mask, jnp.asarray([1, 3]), max_new_tokens=2)
    np.testing.assert_array_equal(settings["prefix"], [[1, 1, 1, 1, 0], [0, 0, 1, 1, 0]])
    np.testing.assert_array_equal(settings["positions"], [[0, 1, 2, 3, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1]])
    np.testing.assert_array_equal(settings["block_positions"], [[0, 0, 0, 0, 1, 2, 3]] * 2)


def test_absent_fields_have_the_defaults_of_its_authors() -> None:
    config = GLM_ORIG.from_hugging_face(FIELDS)
    assert (config.task, config.mlp_dim, config.block_positions) == ("causal_lm", 32, True)
    positions = config.embeddings.positions
    assert positions is not None
    assert positions.max_position_embeddings == 513


def test_what_is_read_is_written(golden: Path) -> None:
    for name in ("glm_orig", "glm_orig_1d"):
        config = GLM_ORIG.from_hugging_face(fields_of(golden / "models" / name))
        assert GLM_ORIG.from_hugging_face(GLM_ORIG.to_hugging_face(config)) == config
    with pytest.raises(ValueError, match="mlp_dim=24 can't be written"):
        GLM_ORIG.to_hugging_face(dataclasses.replace(config, mlp_dim=24))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"surprise": 3}, "surprise = 3 is not known"),
        ({"relative_encoding": True}, "relative_encoding is True; only False"),
        ({"attention_scale": 8.0}, "attention_scale is 8.0; only 1.0"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"architectures": ["GLMForMultipleChoice"]}, "no head for GLMForMultipleChoice"),
    ],
)
def test_what_we_cant_express_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GLM_ORIG.from_hugging_face({**FIELDS, **wrong})
