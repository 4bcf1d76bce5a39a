"""Weights of a decoder in an encoder, and of an encoder in a decoder."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.zoo.eurobert import EuroBertConfig
from t5x_like.model.zoo.llama import LlamaConfig
from t5x_like.model.zoo.mistral import MistralConfig
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.model.zoo.modernbert_decoder import ModernBertDecoderConfig
from t5x_like.pretrained.other_direction import check_turned, is_turned, with_turned
from tests.pretrained.test_encoder_weights import drawn

_SIZES: dict[str, Any] = {"vocab_size": 61, "model_dim": 32, "mlp_dim": 24, "num_heads": 4, "num_layers": 4}
LLAMA = LlamaConfig(**_SIZES, num_kv_heads=2, norm_epsilon=1e-5)
EUROBERT = EuroBertConfig(**_SIZES, num_kv_heads=2)
ETTIN = ModernBertConfig(**_SIZES, local_attention=6)
ETTIN_DECODER = ModernBertDecoderConfig(**_SIZES, sliding_window=3)
TOKENS = jnp.asarray([[5, 9, 60, 33, 7, 2, 9, 4], [5, 8, 8, 41, 2, 17, 3, 3]])


def logits(config: Any, params: Any, *, one_way: bool) -> np.ndarray:
    """Scores of words; an encoder reads in one direction by ranks."""
    if config.parts.__class__.__name__ == "DecoderConfig":
        batch = Batch(decoder_input_tokens=TOKENS, target_tokens=TOKENS)
    else:
        ranks = jnp.broadcast_to(jnp.arange(TOKENS.shape[1]), TOKENS.shape) if one_way else None
        batch = Batch(encoder_input_tokens=TOKENS, target_tokens=TOKENS, ranks=ranks)
    model = parameters.merge(parameters.abstract(config)[0], params)
    return np.asarray(model(batch).logits)[..., :61]


@pytest.mark.parametrize(
    ("pretrained", "model"),
    [
        (LLAMA, EUROBERT),
        (replace(LLAMA, tie_word_embeddings=True), EUROBERT),
        (EUROBERT, LLAMA),
        (replace(ETTIN, local_attention=1000), replace(ETTIN_DECODER, sliding_window=500)),
        (replace(ETTIN_DECODER, sliding_window=500), replace(ETTIN, local_attention=1000)),
    ],
    ids=["LLaMA", "tied LLaMA", "EuroBERT", "ModernBERT", "ModernBERT's decoder"],
)
def test_a_model_scores_words_as_the_other_does_once_both_read_in_one_direction(pretrained, model):
    wider = replace(model, vocab_size=64)
    assert is_turned(pretrained, wider)
    check_turned("there", pretrained, wider)
    source, fresh = drawn(pretrained, 1), drawn(wider, 2)
    turned = with_turned(fresh, wider, pretrained, source)
    expected = logits(pretrained, source, one_way=True)
    assert np.abs(logits(wider, turned, one_way=True) - expected).max() < 2e-4
    assert np.abs(logits(wider, fresh, one_way=True) - expected).max() > 0.1
    table = parameters.flatten(turned)["embedding/tokens/table"]
    np.testing.assert_array_equal(table[61:], parameters.flatten(fresh)["embedding/tokens/table"][61:])


def test_an_encoder_that_was_a_decoder_reads_in_both_directions():
    source = drawn(LLAMA, 1)
    turned = with_turned(drawn(EUROBERT, 2), EUROBERT, LLAMA, source)
    both, one = (logits(EUROBERT, turned, one_way=one_way) for one_way in (False, True))
    assert np.abs(both - one)[:, 0].max() > 0.1


def test_another_decoder_of_the_same_layers_fits():
    check_turned(
        "there", MistralConfig(**_SIZES, num_kv_heads=2, norm_epsilon=1e-5, sliding_window=None), EUROBERT
    )
    with pytest.raises(ValueError, match=r"attention.window is SlidingWindow"):
        check_turned(
            "there", MistralConfig(**_SIZES, num_kv_heads=2, norm_epsilon=1e-5, sliding_window=8), EUROBERT
        )


def test_windows_on_both_sides_fit_windows_before_a_token():
    check_turned("there", ETTIN, ETTIN_DECODER)
    check_turned("there", ETTIN_DECODER, ETTIN)
    for window in (2, 5):
        with pytest.raises(
            ValueError, match=r"attention.window.left is 3 there and \d in the model's layers"
        ):
            check_turned("there", ETTIN, replace(ETTIN_DECODER, sliding_window=window))


@pytest.mark.parametrize(
    ("pretrained", "model", "message"),
    [
        (
            LLAMA,
            replace(EUROBERT, num_kv_heads=4),
            "attention.num_kv_heads is 2 there and 4 in the model's layers",
        ),
        (LLAMA, replace(EUROBERT, num_layers=3), r"4 layers, the model 3 \(num_layers\)"),
        (
            LLAMA,
            replace(EUROBERT, rope_theta=5e5),
            "attention.positions.rope_theta is 10000.0 there and 500000.0",
        ),
        (LLAMA, replace(EUROBERT, tie_word_embeddings=True), "an output layer of its own"),
        (LLAMA, replace(EUROBERT, vocab_size=60), "61 ids of a vocabulary, the model 60"),
        (ETTIN, LLAMA, "there doesn't fit the model: norm is .*EuroBERT has the layers of LLaMA"),
        (
            ETTIN,
            replace(ETTIN_DECODER, decoder_bias=False),
            "bias is True there and False in the model's output",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(pretrained, model, message):
    with pytest.raises(ValueError, match=message):
        check_turned("there", pretrained, model)
