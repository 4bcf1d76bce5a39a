"""Decoders' weights in an encoder-decoder: its stacks begin with them, or they are refused."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.adapters import LoRA
from t5x_like.model.zoo.gemma2 import Gemma2Config
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.t5gemma import T5GemmaConfig
from t5x_like.model.zoo.t5gemma_stack import T5GemmaStackConfig
from t5x_like.pretrained.decoder_weights import DecoderWeights, check_decoder, with_decoder
from tests.pretrained.test_encoder_weights import drawn

_SIZES: dict[str, Any] = {
    "mlp_dim": 24,
    "num_heads": 4,
    "num_kv_heads": 2,
    "num_layers": 4,
    "head_dim": 8,
    "sliding_window": 3,
}
GEMMA = Gemma2Config(vocab_size=61, model_dim=16, **_SIZES)
WIDER = replace(GEMMA, model_dim=32, num_layers=2)
STACK = T5GemmaStackConfig(model_dim=16, **_SIZES)
MODEL = T5GemmaConfig(vocab_size=64, encoder=STACK, decoder=STACK)
UNBALANCED = replace(MODEL, encoder=replace(STACK, model_dim=32, num_layers=2))
TOKENS = jnp.asarray([[5, 9, 60, 33, 7, 2], [5, 8, 8, 41, 2, 0]])


def filled(model: Any, *, cross_attention: Any = "self_attention", encoder: Any = GEMMA) -> Any:
    """Weights of a model, those of its decoder and encoder, and its fresh ones."""
    fresh, decoder = drawn(model, 3), DecoderWeights(GEMMA, drawn(GEMMA, 1))
    other = decoder if encoder is GEMMA else DecoderWeights(encoder, drawn(encoder, 2))
    weights = with_decoder(fresh, model, decoder=decoder, encoder=other, cross_attention=cross_attention)
    return [parameters.flatten(each) for each in (weights, decoder.params, other.params, fresh)]


def layers_of(flat: dict[str, Any], stack: str) -> dict[str, Any]:
    """Weights of a stack but for cross-attention, by their paths in it."""
    return {
        path.removeprefix(f"{stack}/"): array
        for path, array in flat.items()
        if path.startswith(f"{stack}/") and "cross_attention" not in path
    }


def assert_equal(own: dict[str, Any], read: dict[str, Any]) -> None:
    assert own.keys() == read.keys()
    assert len(own) > 10
    for path, array in own.items():
        np.testing.assert_array_equal(array, read[path])


def test_both_stacks_begin_with_the_layers_and_words_of_the_decoder():
    own, read, _, fresh = filled(MODEL)
    for stack in ("encoder", "decoder"):
        assert_equal(layers_of(own, stack), layers_of(read, "decoder"))
    for table in ("embedding/tokens/table", "decoder_embedding/tokens/table"):
        np.testing.assert_array_equal(own[table][:61], read["embedding/tokens/table"][:61])
        np.testing.assert_array_equal(own[table][61:], fresh[table][61:])


def test_stacks_of_two_sizes_begin_with_two_decoders():
    own, written, read, fresh = filled(UNBALANCED, cross_attention="fresh", encoder=WIDER)
    assert_equal(layers_of(own, "encoder"), layers_of(read, "decoder"))
    assert_equal(layers_of(own, "decoder"), layers_of(written, "decoder"))
    crossing = [path for path in own if "cross_attention" in path]
    assert crossing
    for path in crossing:
        np.testing.assert_array_equal(own[path], fresh[path])


def test_cross_attention_begins_with_self_attention_of_the_same_layer():
    own = filled(MODEL)[0]
    crossing = [path for path in own if "cross_attention" in path]
    assert {path.split("/")[-2] for path in crossing} >= {"query", "key", "value", "out", "before", "after"}
    for path in crossing:
        np.testing.assert_array_equal(own[path], own[path.replace("cross_attention", "self_attention")])


@pytest.mark.parametrize("tied", [True, False])
def test_the_decoder_writes_what_it_wrote_alone_where_cross_attention_adds_nothing(tied):
    model = replace(MODEL, tie_word_embeddings=tied)
    own, read, _, _ = filled(model)
    silent = {
        path: jnp.zeros_like(array) if "cross_attention/out" in path else array for path, array in own.items()
    }
    batch = Batch(
        encoder_input_tokens=TOKENS,
        target_tokens=TOKENS,
        decoder_input_tokens=TOKENS,
        encoder_segment_ids=None,
    )
    alone = Batch(decoder_input_tokens=TOKENS, target_tokens=TOKENS)
    logits = [
        np.asarray(parameters.merge(parameters.abstract(config)[0], parameters.unflatten(flat))(each).logits)
        for config, flat, each in [(model, silent, batch), (GEMMA, read, alone), (model, own, batch)]
    ]
    assert np.abs(logits[0][..., :61] - logits[1][..., :61]).max() < 2e-4
    assert np.abs(logits[2][..., :61] - logits[1][..., :61]).max() > 0.1


@pytest.mark.parametrize(
    ("decoder", "model", "stack", "message"),
    [
        (replace(MODEL), MODEL, "decoder", "a T5GemmaConfig, which is no decoder"),
        (GEMMA, GEMMA, "decoder", "a Gemma2Config is none; take T5Gemma"),
        (WIDER, MODEL, "encoder", r"its width is 32, the model's 16 \(model_dim\)"),
        (replace(GEMMA, vocab_size=70), MODEL, "encoder", "it has 70 ids of a vocabulary, the model 64"),
        (
            replace(GEMMA, num_layers=2),
            MODEL,
            "encoder",
            r"2 layers, the encoder 4 \(num_layers of encoder\)",
        ),
        (replace(GEMMA, sliding_window=5), MODEL, "encoder", "attention.window.left is 4 there and 3 in the"),
        (replace(GEMMA, sliding_window=5), MODEL, "decoder", "attention.window.left is 4 there and 2 in the"),
        (
            replace(GEMMA, final_logit_soft_cap=None),
            MODEL,
            "decoder",
            "final_logit_soft_cap is None there and",
        ),
        (replace(GEMMA, tie_word_embeddings=False), MODEL, "decoder", "an output layer of its own, and the"),
        (
            LlamaConfig(vocab_size=61, model_dim=16, mlp_dim=24, num_heads=4, num_layers=4),
            MODEL,
            "decoder",
            "scale",
        ),
        (replace(GEMMA, adapter=LoRA(rank=2)), MODEL, "decoder", "has an adapter"),
        (GEMMA, UNBALANCED, "decoder", r"width 32, .* width 16; give cross_attention='fresh'"),
    ],
)
def test_a_decoder_that_does_not_fit_is_refused(decoder, model, stack, message):
    with pytest.raises(ValueError, match=message):
        check_decoder("gemma", decoder, model, stack, "self_attention")


def test_fresh_cross_attention_fits_an_encoder_of_another_width():
    check_decoder("gemma", GEMMA, UNBALANCED, "decoder", "fresh")
    check_decoder("gemma", WIDER, UNBALANCED, "encoder", "fresh")
