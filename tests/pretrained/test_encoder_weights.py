"""An encoder's weights in an encoder-decoder: they compute there what they compute alone, or are refused."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.adapters import LoRA
from t5x_like.model.zoo.albert import AlbertConfig
from t5x_like.model.zoo.bart import BART, BartConfig
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.roberta import RobertaConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.model.zoo.transformer import TransformerConfig
from t5x_like.pretrained.encoder_weights import check_encoder, with_encoder

_SIZES: dict[str, Any] = {
    "vocab_size": 61,
    "model_dim": 32,
    "mlp_dim": 48,
    "num_heads": 4,
    "num_layers": 2,
    "max_position_embeddings": 16,
}
ROBERTA = RobertaConfig(**_SIZES, task="base")
BERT = BertConfig(**_SIZES, task="base")
MODEL = BartConfig(
    vocab_size=64,
    model_dim=32,
    encoder_mlp_dim=48,
    decoder_mlp_dim=48,
    num_encoder_heads=4,
    num_decoder_heads=4,
    num_encoder_layers=2,
    num_decoder_layers=2,
    max_position_embeddings=12,
)
TOKENS = jnp.asarray([[5, 9, 60, 33, 7, 2, 0, 0], [5, 8, 8, 41, 2, 0, 0, 0]])


def drawn(config: Any, seed: int) -> Any:
    """Weights whose biases, norms and unused rows are random, too."""
    params = parameters.split(config.build(jax.random.key(seed)))[1]
    flat = parameters.flatten(params)
    keys = jax.random.split(jax.random.key(seed), len(flat))
    noisy = {
        path: array + 0.3 * jax.random.normal(key, array.shape)
        for key, (path, array) in zip(keys, flat.items(), strict=True)
    }
    return parameters.unflatten(noisy)


def encoded(config: Any, params: Any, **options: Any) -> np.ndarray:
    """Output of the encoder at real tokens."""
    batch = Batch(
        encoder_input_tokens=TOKENS, encoder_segment_ids=jnp.minimum(TOKENS, 1), target_tokens=TOKENS
    )
    model = parameters.merge(parameters.abstract(config)[0], params)
    output = model(batch._replace(**options)).encoder_output
    return np.asarray(output)[np.asarray(TOKENS) > 0]


def decoder_stream() -> dict[str, Any]:
    return {"decoder_input_tokens": TOKENS, "decoder_segment_ids": jnp.minimum(TOKENS, 1)}


@pytest.mark.parametrize(("encoder", "epsilon"), [(ROBERTA, 1e-5), (BERT, 1e-12)], ids=["RoBERTa", "BERT"])
@pytest.mark.parametrize("decoder_layers", ["fresh", "encoder"])
def test_the_encoder_of_the_encoder_decoder_computes_what_the_encoder_computes_alone(
    encoder, epsilon, decoder_layers
):
    model = replace(MODEL, norm_epsilon=epsilon)
    check_encoder("xlm-r", encoder, model, decoder_layers)
    source, fresh = drawn(encoder, 1), drawn(model, 2)
    filled = with_encoder(fresh, model, encoder, source, decoder_layers)
    alone = encoded(encoder, source)
    assert np.abs(encoded(model, filled, **decoder_stream()) - alone).max() < 2e-5
    assert np.abs(encoded(model, fresh, **decoder_stream()) - alone).max() > 0.5


def test_the_epsilon_of_the_norms_matters():
    encoder, model = BERT, replace(MODEL, norm_epsilon=1e-12)
    source, fresh = drawn(encoder, 1), drawn(model, 2)
    quiet = {
        path: array * 0.01 if path.endswith("table") else array
        for path, array in parameters.flatten(source).items()
    }
    source = parameters.unflatten(quiet)
    filled = with_encoder(fresh, model, encoder, source, "fresh")
    alone = encoded(encoder, source)
    assert np.abs(encoded(model, filled, **decoder_stream()) - alone).max() < 2e-5
    assert np.abs(encoded(MODEL, filled, **decoder_stream()) - alone).max() > 1e-3
    with pytest.raises(ValueError, match="norm_epsilon=1e-12, and transformers' has 1e-05"):
        BART.to_hugging_face(model)


def test_fresh_decoder_layers_and_words_beyond_the_vocabulary_stay_as_they_are():
    source, fresh = drawn(ROBERTA, 1), drawn(MODEL, 2)
    filled = with_encoder(fresh, MODEL, ROBERTA, source, "fresh")
    before, after = parameters.flatten(fresh), parameters.flatten(filled)
    changed = {path for path in after if not np.array_equal(before[path], after[path])}
    assert {path.split("/")[0] for path in changed} == {"embedding", "encoder"}
    table, alone = after["embedding/tokens/table"], parameters.flatten(source)["embedding/tokens/table"]
    np.testing.assert_array_equal(table[:61], alone[:61])
    np.testing.assert_array_equal(table[61:], before["embedding/tokens/table"][61:])


def test_decoder_layers_of_the_encoder_are_its_layers_with_fresh_cross_attention():
    source, fresh = drawn(ROBERTA, 1), drawn(MODEL, 2)
    filled = parameters.flatten(with_encoder(fresh, MODEL, ROBERTA, source, "encoder"))
    before = parameters.flatten(fresh)
    crossing = [path for path in filled if "cross_attention" in path]
    assert crossing
    for path in crossing:
        np.testing.assert_array_equal(filled[path], before[path])
    copied = [path for path in filled if path.startswith("decoder/") and path not in crossing]
    assert {path.removeprefix("decoder/") for path in copied} == {
        path.removeprefix("encoder/") for path in filled if path.startswith("encoder/")
    }
    for path in copied:
        np.testing.assert_array_equal(filled[path], filled[path.replace("decoder/", "encoder/", 1)])
    for path in ("positions/table", "norm/scale", "norm/bias"):
        own, read = filled[f"decoder_embedding/{path}"], filled[f"embedding/{path}"]
        np.testing.assert_array_equal(own[2:], read[2:])


@pytest.mark.parametrize(
    ("encoder", "model", "decoder_layers", "message"),
    [
        (GPT2Config(**_SIZES), MODEL, "fresh", "xlm-r is a GPT2Config, which is no encoder"),
        (ROBERTA, BERT, "fresh", "fills in an encoder-decoder .*, and a BertConfig is none"),
        (
            ROBERTA,
            replace(MODEL, vocab_size=40),
            "fresh",
            "it has 61 ids of a vocabulary, the model 40; BART with",
        ),
        (
            ROBERTA,
            replace(MODEL, model_dim=64),
            "fresh",
            r"its width is 32, the model's 64 \(model_dim\)",
        ),
        (ROBERTA, replace(MODEL, num_encoder_layers=3), "fresh", r"2 layers, the encoder 3 \(num_encoder"),
        (ROBERTA, replace(MODEL, num_decoder_layers=3), "encoder", r"2 layers, the decoder 3 \(num_decoder"),
        (ROBERTA, replace(MODEL, max_position_embeddings=20), "fresh", "it has 16 positions, the encoder 20"),
        (
            ROBERTA,
            replace(MODEL, activation="relu"),
            "fresh",
            "feed_forward.activation is gelu there and relu in the encoder's layers",
        ),
        (
            ROBERTA,
            replace(MODEL, num_decoder_heads=2),
            "encoder",
            "attention.num_heads is 4 there and 2 in the decoder's layers",
        ),
        (BERT, MODEL, "fresh", "norm.epsilon is 1e-12 there and 1e-05"),
        (ROBERTA, replace(MODEL, scale_embedding=True), "fresh", "scale is 1.0 there and 5.65"),
        (AlbertConfig(**_SIZES, embed_dim=16), MODEL, "fresh", "projected is True there"),
        (
            ROBERTA,
            TransformerConfig(
                **{
                    name: getattr(MODEL, name)
                    for name in (
                        *(
                            "vocab_size",
                            "model_dim",
                            "encoder_mlp_dim",
                            "decoder_mlp_dim",
                            "num_encoder_heads",
                        ),
                        *("num_decoder_heads", "num_encoder_layers", "num_decoder_layers"),
                    )
                }
            ),
            "fresh",
            "only one of it and the encoder has learned positions",
        ),
        (
            ROBERTA,
            T5Config(
                vocab_size=64,
                model_dim=32,
                mlp_dim=48,
                num_heads=4,
                head_dim=8,
                num_encoder_layers=2,
                num_decoder_layers=2,
                share_stacks=True,
            ),
            "fresh",
            "with an encoder of its own, and a T5Config is none",
        ),
        (replace(ROBERTA, adapter=LoRA(rank=2)), MODEL, "fresh", "has an adapter; merge the encoder's"),
    ],
)
def test_an_encoder_that_does_not_fit_is_refused(encoder, model, decoder_layers, message):
    with pytest.raises(ValueError, match=message):
        check_encoder("xlm-r", encoder, model, decoder_layers)
