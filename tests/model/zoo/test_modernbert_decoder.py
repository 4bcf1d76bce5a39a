"""ModernBERT's decoder: every trait matters, its classifier reads the last token, and no field is overlooked."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import t5x_like
from t5x_like.model import parameters
from t5x_like.model.layers.masks import SlidingWindow
from t5x_like.model.layers.norm import LayerNormConfig
from t5x_like.model.layers.rotary import Rotary
from t5x_like.model.zoo.layer_types import FULL, SLIDING
from t5x_like.model.zoo.modernbert_decoder import MODERNBERT_DECODER, ModernBertDecoderConfig
from tests.model.zoo.golden_encoders import with_words
from tests.model.zoo.golden_models import (
    SMALL_FIELDS,
    GoldenModel,
    fields_of,
    read_golden,
    with_blocks,
    with_feed_forward,
    worst_difference,
)
from tests.references import FIXTURES

FIELDS = {**SMALL_FIELDS, "num_hidden_layers": 4}
SIZE: dict[str, Any] = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 16, "num_heads": 2, "num_layers": 4}


@pytest.fixture(scope="module")
def model() -> GoldenModel:
    return read_golden(
        FIXTURES / "models/modernbert_decoder", MODERNBERT_DECODER, lambda config: config.decoder
    )


def with_layers(family: Any, *, local: bool, **changes: Any) -> Any:
    """The same with the attention of layers changed that have a window, or of those that have none."""

    def change(block: Any) -> Any:
        if (block.attention.window is not None) != local:
            return block
        return dataclasses.replace(block, attention=dataclasses.replace(block.attention, **changes))

    return with_blocks(family, change)


def test_unchanged_traits_give_the_recorded_logits(model: GoldenModel) -> None:
    assert worst_difference(model, model.family) < 5e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda family: with_layers(family, local=True, window=SlidingWindow(left=4)),
        lambda family: with_layers(family, local=True, window=SlidingWindow(left=2)),
        lambda family: with_layers(family, local=True, positions=Rotary(rotated_dim=6, rope_theta=500.0)),
        lambda family: with_layers(family, local=False, positions=Rotary(rotated_dim=6, rope_theta=20.0)),
        lambda family: with_feed_forward(family, activation="silu"),
        lambda family: with_words(family, activation="gelu"),
        lambda family: with_words(family, norm=LayerNormConfig(epsilon=0.1)),
    ],
    ids=["a token more", "a token less", "one theta", "the other theta", "silu", "gelu", "epsilon"],
)
def test_every_trait_matters(model: GoldenModel, change: Callable[[Any], Any]) -> None:
    assert worst_difference(model, change(model.family)) > 1e-3


@pytest.mark.parametrize(
    "path", ["heads/lm_head/bias", "heads/lm_head/transform/dense/bias", "embedding/norm/bias"]
)
def test_biases_matter(model: GoldenModel, path: str) -> None:
    flat = parameters.flatten(model.params)
    without = parameters.unflatten({**flat, path: 0 * flat[path]})
    assert worst_difference(model._replace(params=without), model.family) > 1e-2


def test_sequences_are_classified_at_the_last_token(tmp_path: Path) -> None:
    """The classifier's hidden layer is that of words here, so the scores of three words are those of classes."""
    weights = load_file(FIXTURES / "models/modernbert_decoder/model.safetensors")
    words = weights["model.embeddings.tok_embeddings.weight"]
    own = {
        name.replace("lm_head.", "head."): each for name, each in weights.items() if name != "decoder.bias"
    }
    own |= {"classifier.weight": words[:3], "classifier.bias": weights["decoder.bias"][:3]}
    save_file(own, tmp_path / "model.safetensors")
    fields = fields_of(FIXTURES / "models/modernbert_decoder")
    fields |= {"architectures": ["ModernBertDecoderForSequenceClassification"], "num_labels": 3}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    ids = np.array([[5, 6, 7, 8], [9, 10, 0, 0]])
    scores = t5x_like.from_pretrained(tmp_path)(input_ids=ids, attention_mask=(ids > 0).astype(int)).logits
    logits = t5x_like.from_pretrained(FIXTURES / "models/modernbert_decoder")(input_ids=ids).logits
    np.testing.assert_allclose(scores, np.stack([logits[0, 3, :3], logits[1, 1, :3]]), rtol=1e-5, atol=1e-5)


def test_absent_fields_have_the_defaults_of_transformers() -> None:
    config = MODERNBERT_DECODER.from_hugging_face(FIELDS)
    expected = ModernBertDecoderConfig(**SIZE, task="base")
    assert dataclasses.replace(config, classifier_dropout_rate=None) == expected


def test_the_window_is_half_of_modernberts() -> None:
    read = MODERNBERT_DECODER.from_hugging_face
    assert read({**FIELDS, "local_attention": 9}).sliding_window == 4
    assert read({**FIELDS, "local_attention": 9, "sliding_window": 6}).sliding_window == 6


def test_a_number_says_how_often_a_layer_sees_all() -> None:
    config = MODERNBERT_DECODER.from_hugging_face({**FIELDS, "global_attn_every_n_layers": 2})
    assert [config.type_of(layer) for layer in range(4)] == [FULL, SLIDING] * 2


@pytest.mark.parametrize("kind", [FULL, SLIDING])
def test_layers_of_one_type_have_no_settings_of_the_other(kind: Any) -> None:
    config = MODERNBERT_DECODER.from_hugging_face({**FIELDS, "layer_types": [kind] * 4, "local_attention": 6})
    assert config.layer_types == (kind,)
    assert MODERNBERT_DECODER.from_hugging_face(MODERNBERT_DECODER.to_hugging_face(config)) == config


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"layer_types": [FULL]}, "is needed for each of 4 layers"),
        ({"local_attention": 1}, "sliding_window is 0; give at least 1"),
        ({"rope_parameters": {FULL: {"rope_type": "linear", "factor": 2.0}}}, "only theta may vary"),
        ({"classifier_pooling": "mean"}, "classifier_pooling = 'mean' is not known"),
        ({"architectures": ["ModernBertDecoderForTokenClassification"]}, "no head for ModernBertDecoder"),
    ],
)
def test_what_we_cant_express_is_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MODERNBERT_DECODER.from_hugging_face(FIELDS | changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"layer_types": ()}, "layer_types is empty"),
        ({"layer_types": (FULL,), "sliding_window": 4}, "sliding_window=4 has no effect"),
        ({"layer_types": (SLIDING,), "global_rope_theta": 4.0}, "global_rope_theta=4.0 has no effect"),
    ],
)
def test_settings_without_a_layer_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModernBertDecoderConfig(**SIZE, **changed)


@pytest.mark.parametrize("task", sorted(set(MODERNBERT_DECODER.classes.values())))
@pytest.mark.parametrize("biases", [False, True])
def test_every_task_has_a_name_for_every_weight(task: Any, biases: bool) -> None:
    parts = ("attention", "mlp", "norm", "classifier", "decoder")
    fields = {**FIELDS, **{f"{part}_bias": biases for part in parts}, "tie_word_embeddings": biases}
    config = dataclasses.replace(MODERNBERT_DECODER.from_hugging_face(fields), task=task)
    assert MODERNBERT_DECODER.from_hugging_face(MODERNBERT_DECODER.to_hugging_face(config)) == config
    named = {path for row in MODERNBERT_DECODER.hugging_face_weights(config) for path in row.paths}
    assert named == set(parameters.flatten(parameters.abstract(config)[1]))
