"""EuroBERT: it reads both ways, its classifiers pool as they say, and no field of a config.json is overlooked."""

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
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.pooler import PoolerConfig
from t5x_like.model.zoo.eurobert import EUROBERT, EuroBertConfig
from tests.model.zoo.golden_models import (
    SMALL_FIELDS,
    GoldenModel,
    read_golden,
    with_attention,
    with_feed_forward,
    with_rotation,
    worst_difference,
)
from tests.references import FIXTURES

SIZE: dict[str, Any] = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 16, "num_heads": 2, "num_layers": 1}


@pytest.fixture(scope="module")
def model() -> GoldenModel:
    return read_golden(FIXTURES / "models/eurobert", EUROBERT, lambda config: config.encoder)


def test_unchanged_traits_give_the_recorded_logits(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 2e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_attention(family, window=SlidingWindow(left=30)),
        lambda family: with_rotation(family, rope_theta=10_000.0),
        lambda family: with_feed_forward(family, activation="gelu"),
    ],
    ids=["one way", "another theta", "gelu"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


def test_the_bias_of_words_matters(model: GoldenModel) -> None:
    flat = parameters.flatten(model.params)
    without = parameters.unflatten({**flat, "heads/lm_head/bias": 0 * flat["heads/lm_head/bias"]})
    assert worst_difference(model._replace(params=without), model.family) > 1e-2


@pytest.mark.parametrize("pooling", ["late", "bos", "mean"])
def test_sequences_are_classified_by_the_hidden_layer_and_the_pool(pooling: Any) -> None:
    config = EuroBertConfig(**SIZE, task="sequence_classification", num_labels=3, classifier_pooling=pooling)
    model = config.build(jax.random.key(0))
    batch = Batch(
        encoder_input_tokens=jnp.asarray([[1, 2, 3, 4, 5], [6, 7, 1, 0, 0]]),
        encoder_segment_ids=jnp.asarray([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
    )
    answer = jax.jit(lambda batch: model(batch))(batch)
    heads: Any = nnx.to_pure_dict(nnx.state(model))["heads"]
    hidden = np.asarray(answer.encoder_output)

    def mean(x: np.ndarray) -> np.ndarray:
        return np.stack([x[0].mean(0), x[1, :3].mean(0)])

    def hidden_layer(x: np.ndarray) -> np.ndarray:
        return np.asarray(jax.nn.gelu(x @ heads["pooler"]["transform"]["dense"]["kernel"], approximate=False))

    read = {
        "late": lambda: mean(hidden_layer(hidden)),
        "bos": lambda: hidden_layer(hidden[:, 0]),
        "mean": lambda: hidden_layer(mean(hidden)),
    }
    wanted = read[pooling]() @ heads["scores"]["sequence_classification"]["projection"]["kernel"]
    np.testing.assert_allclose(answer.heads["sequence_classification"], wanted, rtol=1e-5, atol=1e-5)


def test_a_layer_on_tokens_needs_a_pooling_that_keeps_the_width() -> None:
    with pytest.raises(ValueError, match="transform_tokens with pooling='mean', transform=None"):
        PoolerConfig(pooling="mean", transform_tokens=True)


def test_files_of_the_authors_are_read() -> None:
    older = {
        "auto_map": {"AutoModel": "modeling_eurobert.EuroBertModel"},
        "bos_token": "<|begin_of_text|>",
        "clf_pooling": "mean",
        "hidden_dropout": 0.0,
        "mask_token_id": 5,
        "rope_scaling": None,
        "rope_theta": 250_000,
    }
    config = EUROBERT.from_hugging_face({**SMALL_FIELDS, **older})
    assert (config.rope_theta, config.classifier_pooling) == (250_000.0, "mean")


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    expected = EuroBertConfig(**SIZE, num_kv_heads=2, task="base")
    assert EUROBERT.from_hugging_face(SMALL_FIELDS) == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"classifier_pooling": "max"}, "classifier_pooling is 'max'; late, bos, mean"),
        ({"sliding_window": 4}, "sliding_window = 4 is not known"),
        ({"architectures": ["EuroBertForQuestionAnswering"]}, "no head for EuroBertForQuestionAnswering"),
    ],
)
def test_what_the_model_cannot_express_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EUROBERT.from_hugging_face(SMALL_FIELDS | changed)


def test_a_second_output_layer_is_refused() -> None:
    with pytest.raises(ValueError, match="keep_lm_head=True has no effect"):
        EuroBertConfig(**SIZE, keep_lm_head=True)


@pytest.mark.parametrize("task", sorted(set(EUROBERT.classes.values())))
@pytest.mark.parametrize("biases", [False, True])
def test_every_task_has_a_name_for_every_weight(task: Any, biases: bool) -> None:
    fields = {**SMALL_FIELDS, "attention_bias": biases, "mlp_bias": biases, "tie_word_embeddings": biases}
    config = replace(EUROBERT.from_hugging_face(fields), task=task)
    assert EUROBERT.from_hugging_face(EUROBERT.to_hugging_face(config)) == config
    named = {path for row in EUROBERT.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))
