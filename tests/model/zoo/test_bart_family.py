"""mBART, PEGASUS and M2M-100: BART's relatives with norms before their layers."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import t5x_like
from t5x_like.model import parameters
from t5x_like.model.layers.embedding import LearnedPositions, SinusoidalPositions, sinusoids
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.zoo.architecture import Architecture
from t5x_like.model.zoo.m2m_100 import M2M_100, M2M100Config
from t5x_like.model.zoo.mbart import MBART, MBartConfig
from t5x_like.model.zoo.pegasus import PEGASUS, PegasusConfig
from t5x_like.pretrained.tokenizer_files import special_ids_of
from tests.model.zoo.golden_encoder_decoders import (
    batch_of,
    stepwise_difference,
    with_blocks,
    worst_difference,
)
from tests.model.zoo.golden_models import GoldenModel, fields_of, read_golden
from tests.model.zoo.test_bart import FIELDS, with_embeddings
from tests.references import FIXTURES

MODELS = {"mbart": MBART, "pegasus": PEGASUS, "m2m_100": M2M_100}


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def model(name: str) -> GoldenModel:
    return read_golden(FIXTURES / "models" / name, MODELS[name], lambda config: config.encoder_decoder)


def test_unchanged_traits_give_the_recorded_scores(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 5e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_embeddings(family, scale=1.0),
        lambda family: with_blocks(
            family,
            lambda block: dataclasses.replace(block, norm=dataclasses.replace(block.norm, epsilon=0.1)),
        ),
        lambda family: dataclasses.replace(
            family, encoder=dataclasses.replace(family.encoder, final_norm=LayerNormConfig(epsilon=0.1))
        ),
        lambda family: dataclasses.replace(
            family, decoder=dataclasses.replace(family.decoder, final_norm=LayerNormConfig(epsilon=0.1))
        ),
    ],
    ids=["unscaled words", "epsilon", "epsilon after the encoder", "epsilon after the decoder"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 5e-4


@pytest.mark.parametrize(
    "positions", [SinusoidalPositions(offset=2), SinusoidalPositions(wavelengths="tensor2tensor")]
)
def test_offset_and_wavelengths_of_m2m_100_matter(positions: SinusoidalPositions) -> None:
    m2m = read_golden(FIXTURES / "models/m2m_100", M2M_100, lambda config: config.encoder_decoder)
    assert worst_difference(m2m, with_embeddings(m2m.family, sinusoidal_positions=positions)) > 5e-4


def test_wavelengths_grow_to_the_last_one() -> None:
    positions = jnp.array([[1]])
    paper = sinusoids(positions, 6, SinusoidalPositions())[0, 0, :3]
    other = sinusoids(positions, 6, SinusoidalPositions(wavelengths="tensor2tensor"))[0, 0, :3]
    np.testing.assert_allclose(paper, np.sin([1, 10_000 ** (-1 / 3), 10_000 ** (-2 / 3)]), atol=1e-6)
    np.testing.assert_allclose(other, np.sin([1, 0.01, 0.0001]), atol=1e-6)


def test_one_token_at_a_time_is_all_at_once(name: str, model: GoldenModel) -> None:
    config = MODELS[name].from_hugging_face(fields_of(FIXTURES / "models" / name))
    assert stepwise_difference(config, model.params, batch_of(model)) < 1e-5


def test_a_fresh_pegasus_begins_with_sinusoids_that_get_no_gradient() -> None:
    config = PEGASUS.from_hugging_face(fields_of(FIXTURES / "models/pegasus"))
    graphdef, params = parameters.split(config.build(jax.random.key(0)))
    table = parameters.flatten(params)["decoder_embedding/positions/table"]
    expected = sinusoids(jnp.arange(len(table))[None], table.shape[1], SinusoidalPositions())[0]
    np.testing.assert_array_equal(table, expected)
    batch = batch_of(read_golden(FIXTURES / "models/pegasus", PEGASUS, lambda config: config.encoder_decoder))

    def total(params: Any) -> jax.Array:
        return jnp.sum(jnp.square(parameters.merge(graphdef, params)(batch).logits))

    gradients = parameters.flatten(jax.grad(total)(params))
    zero = {path for path, gradient in gradients.items() if not np.any(gradient)}
    assert zero == {"embedding/positions/table", "decoder_embedding/positions/table"}


def test_an_offset_moves_the_sinusoids_of_a_table() -> None:
    config = PegasusConfig(**{**_SIZE, "max_position_embeddings": 4})
    positions = LearnedPositions(max_position_embeddings=4, offset=2, sinusoidal=True)
    family = with_embeddings(config.encoder_decoder, positions=positions)
    table = parameters.flatten(parameters.split(family.build(jax.random.key(0)))[1])[
        "embedding/positions/table"
    ]
    np.testing.assert_allclose(table[2], [0, 0, 0, 0, 1, 1, 1, 1], atol=1e-6)  # position 0


_SIZE: dict[str, Any] = {
    "vocab_size": 8,
    "model_dim": 8,
    "encoder_mlp_dim": 16,
    "decoder_mlp_dim": 12,
    "num_encoder_heads": 2,
    "num_decoder_heads": 4,
    "num_encoder_layers": 1,
    "num_decoder_layers": 2,
}


@pytest.mark.parametrize(
    ("architecture", "expected"),
    [(MBART, MBartConfig(**_SIZE)), (PEGASUS, PegasusConfig(**_SIZE)), (M2M_100, M2M100Config(**_SIZE))],
    ids=list(MODELS),
)
def test_absent_fields_have_the_defaults_of_transformers(architecture: Architecture, expected: Any) -> None:
    config = architecture.from_hugging_face(FIELDS)
    assert dataclasses.replace(config, num_labels=expected.num_labels, dropout_rate=0.0) == expected
    assert architecture.from_hugging_face(architecture.to_hugging_face(config)) == config
    named = {path for row in architecture.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))


def test_an_mbart_without_a_start_begins_with_the_begin_of_sequence() -> None:
    fields = {"model_type": "mbart", "is_encoder_decoder": True, "bos_token_id": 0, "pad_token_id": 1}
    assert special_ids_of(fields).decoder_start == 0


def test_the_decoder_of_mbart_reads_the_last_label_first() -> None:
    mbart = t5x_like.from_pretrained(FIXTURES / "models/mbart")
    ids, labels = np.array([[5, 6, 2, 90]]), np.array([[7, 8, 2, 91, -100]])
    before = np.array([[91, 7, 8, 2, 91]])
    by_labels = mbart(input_ids=ids, labels=labels)
    np.testing.assert_array_equal(
        by_labels.logits[:, :4], mbart(input_ids=ids, decoder_input_ids=before).logits[:, :4]
    )


@pytest.mark.parametrize(
    ("architecture", "wrong", "message"),
    [
        (MBART, {"normalize_before": False}, "normalize_before is False"),
        (MBART, {"architectures": ["MBartForCausalLM"]}, "no head for MBartForCausalLM"),
        (PEGASUS, {"static_position_embeddings": False}, "static_position_embeddings is False"),
        (M2M_100, {"pad_token_id": 0}, "pad_token_id is 0"),
    ],
)
def test_what_we_cant_express_is_named(
    architecture: Architecture, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        architecture.from_hugging_face({**FIELDS, **wrong})
