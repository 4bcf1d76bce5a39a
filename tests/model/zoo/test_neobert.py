"""NeoBERT: its traits matter, its classifier reads the first token, and no field of a config.json is overlooked."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.layers.norm import RMSNormConfig
from t5x_like.model.zoo.neobert import NEOBERT, NeoBertConfig
from t5x_like.model.zoo.weights import published_shapes
from tests.model.zoo.golden_models import (
    GoldenModel,
    read_golden,
    with_attention,
    with_blocks,
    with_feed_forward,
    with_rotation,
    worst_difference,
)
from tests.references import FIXTURES

SIZE: dict[str, Any] = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 16, "num_heads": 2, "num_layers": 1}

# As published at https://huggingface.co/chandar-lab/NeoBERT.
FIELDS: dict[str, Any] = {
    "architectures": ["NeoBERTLMHead"],
    "auto_map": {"AutoConfig": "model.NeoBERTConfig", "AutoModel": "model.NeoBERT"},
    "classifier_init_range": 0.02,
    "decoder_init_range": 0.02,
    "dim_head": 64,
    "embedding_init_range": 0.02,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "kwargs": {"classifier_init_range": 0.02, "trust_remote_code": True},
    "max_length": 4096,
    "model_type": "neobert",
    "norm_eps": 1e-05,
    "num_attention_heads": 12,
    "num_hidden_layers": 28,
    "pad_token_id": 0,
    "pretrained_model_name_or_path": "google-bert/bert-base-uncased",
    "trust_remote_code": True,
    "vocab_size": 30522,
}


@pytest.fixture(scope="module")
def model() -> GoldenModel:
    return read_golden(FIXTURES / "models/neobert", NEOBERT, lambda config: config.encoder)


def test_unchanged_traits_give_the_recorded_logits(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_rotation(family, interleaved=False),
        lambda family: with_rotation(family, rope_theta=100.0),
        lambda family: with_attention(family, attention_scale=1.0),
        lambda family: with_feed_forward(family, activation="gelu"),
        lambda family: with_blocks(family, lambda block: replace(block, norm=RMSNormConfig(epsilon=0.1))),
    ],
    ids=["halves", "theta", "scale", "GELU", "epsilon"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


def test_the_published_model_has_the_published_arrays() -> None:
    config = NEOBERT.from_hugging_face(FIELDS)
    assert (config.mlp_dim, config.norm_epsilon, config.max_position_embeddings) == (2048, 1e-5, 4096)
    like = parameters.abstract(config)[1]
    shapes = published_shapes(NEOBERT.hugging_face_weights(config), like)
    assert len(shapes) == 172
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == 245_136_954
    layer = "model.transformer_encoder.27."
    assert shapes[f"{layer}ffn.w12.weight"] == (4096, 768)
    assert shapes[f"{layer}qkv.weight"] == (2304, 768)


def test_sequences_are_classified_at_the_first_token_by_a_tanh() -> None:
    config = NeoBertConfig(**SIZE, task="sequence_classification", num_labels=3)
    model = config.build(jax.random.key(0))
    batch = Batch(encoder_input_tokens=jnp.asarray([[1, 2, 3], [4, 5, 6]]))
    answer = jax.jit(lambda batch: model(batch))(batch)
    heads: Any = nnx.to_pure_dict(nnx.state(model))["heads"]
    hidden = np.tanh(
        np.asarray(answer.encoder_output)[:, 0] @ heads["pooler"]["transform"]["dense"]["kernel"]
    )
    wanted = hidden @ heads["scores"]["sequence_classification"]["projection"]["kernel"]
    np.testing.assert_allclose(answer.heads["sequence_classification"], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("intermediate_size", "mlp_dim"), [(3072, 2048), (40, 32), (48, 32), (50, 40)])
def test_the_inner_width_is_two_thirds_rounded_up(intermediate_size: int, mlp_dim: int) -> None:
    config = NEOBERT.from_hugging_face(FIELDS | {"intermediate_size": intermediate_size})
    assert config.mlp_dim == mlp_dim
    assert NEOBERT.from_hugging_face(NEOBERT.to_hugging_face(config)) == config


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dim_head": 32}, "dim_head is 32; only 64 is supported"),
        ({"rms_norm": False}, "rms_norm = False is not known"),
        ({"architectures": ["NeoBERTForTokenClassification"]}, "no head for NeoBERTForTokenClassification"),
    ],
)
def test_what_the_model_cannot_express_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NEOBERT.from_hugging_face(FIELDS | changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mlp_dim": 20}, "mlp_dim=20 can't be written"),
        ({"tie_word_embeddings": True}, "output layer of its own"),
    ],
)
def test_what_its_files_have_no_field_for_is_not_written(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NEOBERT.to_hugging_face(NeoBertConfig(**SIZE | changed))


@pytest.mark.parametrize("task", sorted(set(NEOBERT.classes.values())))
def test_every_task_has_a_name_for_every_weight(task: Any) -> None:
    config = NeoBertConfig(**SIZE, task=task)
    named = {path for row in NEOBERT.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))
