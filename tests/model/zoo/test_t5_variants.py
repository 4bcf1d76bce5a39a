"""The architectures that the T5 paper compares: shared stacks, language models, prefix language models."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import t5x_like
from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.zoo import t5_lm
from t5x_like.model.zoo.t5 import T5
from t5x_like.model.zoo.t5_lm import T5_LM
from tests.model.zoo.golden_encoder_decoders import stepwise_difference
from tests.model.zoo.test_t5 import TINY

SHARED = dataclasses.replace(TINY, share_stacks=True)
SIZES: dict[str, Any] = {"vocab_size": 8, "model_dim": 8, "mlp_dim": 12, "num_heads": 2, "head_dim": 4}
LANGUAGE_MODEL = t5_lm.T5LanguageModelConfig(**SIZES, num_layers=2)
PREFIX_LM = dataclasses.replace(LANGUAGE_MODEL, reads_prefixes=True)


def random_tokens(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).integers(1, 8, shape))


def num_parameters(config: parameters.ModelConfig) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(parameters.abstract(config)[1]))


@pytest.fixture(scope="module")
def shared_params() -> parameters.Parameters:
    return parameters.split(SHARED.build(jax.random.key(0)))[1]


def test_shared_stacks_are_the_decoders(shared_params: parameters.Parameters) -> None:
    """An encoder with a copy of the decoder's weights, but for cross-attention, makes the same of everything."""
    decoder = parameters.flatten({"encoder": shared_params["decoder"]})
    copied = {path: array for path, array in decoder.items() if "cross_attention" not in path}
    unshared = parameters.unflatten(parameters.flatten(shared_params) | copied)
    batch = Batch(encoder_input_tokens=random_tokens(2, 6), decoder_input_tokens=random_tokens(2, 5, seed=1))
    logits = [
        jax.jit(parameters.merge(parameters.abstract(config)[0], params))(batch).logits
        for config, params in ((SHARED, shared_params), (TINY, unshared))
    ]
    np.testing.assert_allclose(*logits, rtol=0, atol=1e-5)
    assert num_parameters(TINY) - num_parameters(SHARED) == sum(array.size for array in copied.values())


def test_shared_stacks_decode_token_by_token(shared_params: parameters.Parameters) -> None:
    segments = jnp.asarray([[1] * 6, [1] * 4 + [0] * 2])
    batch = Batch(
        encoder_input_tokens=random_tokens(2, 6),
        encoder_segment_ids=segments,
        decoder_input_tokens=random_tokens(2, 5, seed=1),
    )
    assert stepwise_difference(SHARED, shared_params, batch) < 1e-5


def test_shared_stacks_are_equally_deep() -> None:
    with pytest.raises(ValueError, match="num_encoder_layers=1 and num_decoder_layers=2"):
        dataclasses.replace(SHARED, num_encoder_layers=1)


@pytest.fixture(scope="module")
def decoder() -> tuple[Any, Callable[..., np.ndarray]]:
    """Weights for both language models, and the compiled function to logits."""
    params = parameters.split(PREFIX_LM.build(jax.random.key(0)))[1]

    def logits_of(config: t5_lm.T5LanguageModelConfig, **streams: jax.Array) -> np.ndarray:
        graphdef = parameters.abstract(config)[0]
        run = jax.jit(lambda params, batch: parameters.merge(graphdef, params)(batch).logits)
        return np.asarray(run(params, Batch(**streams)))

    return params, logits_of


def test_a_language_model_sees_what_comes_before(decoder) -> None:
    _, logits_of = decoder
    tokens = random_tokens(1, 7)
    change = logits_of(LANGUAGE_MODEL, decoder_input_tokens=tokens) - logits_of(
        LANGUAGE_MODEL, decoder_input_tokens=tokens.at[0, 3].set(tokens[0, 3] % 7 + 1)
    )
    assert (np.abs(change).max(-1) > 1e-6)[0].tolist() == [False] * 3 + [True] * 4


def test_a_prefix_is_seen_whole_and_tells_before_from_after(decoder) -> None:
    _, logits_of = decoder
    tokens, prefix = random_tokens(1, 7), jnp.asarray([[1] * 4 + [0] * 3])
    changed = tokens.at[0, 3].set(tokens[0, 3] % 7 + 1)
    streams = {"decoder_input_tokens": tokens, "prefix": prefix}
    seen = logits_of(PREFIX_LM, **streams)
    change = seen - logits_of(PREFIX_LM, **streams | {"decoder_input_tokens": changed})
    assert (np.abs(change).max(-1) > 1e-6).all()
    assert np.abs(seen - logits_of(LANGUAGE_MODEL, **streams)).max() > 1e-3


@pytest.mark.parametrize("config", [LANGUAGE_MODEL, PREFIX_LM], ids=["language model", "prefix LM"])
def test_what_is_written_token_by_token_scores_as_read_at_once(decoder, config) -> None:
    params, logits_of = decoder
    tokens = random_tokens(2, 8)
    prefix = jnp.asarray([[1] * 5 + [0] * 3] * 2)
    streams = {"prefix": prefix} if config.reads_prefixes else {}
    whole = logits_of(config, decoder_input_tokens=tokens, **streams)
    model = parameters.merge(parameters.abstract(config)[0], params)
    token, cache = model.start_cache(tokens[:, :5], max_new_tokens=3)
    step, stepped = jax.jit(model.decode_step), []
    for place in range(5, 8):
        scores, cache = step(token, cache)
        stepped.append(scores)
        token = tokens[:, place]
    np.testing.assert_allclose(np.stack(stepped, axis=1), whole[:, 4:7], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "message"),
    [(SHARED, "share_stacks: transformers has no T5"), (PREFIX_LM, "transformers has no decoder of T5's")],
)
def test_they_have_no_form_of_transformers(config, message: str, tmp_path) -> None:
    model = config.build(jax.random.key(0))
    with pytest.raises(ValueError, match=message):
        t5x_like.export_hugging_face(model, tmp_path / "out", config=config)
    assert not (tmp_path / "out").exists()


def test_they_cant_be_read_either() -> None:
    with pytest.raises(ValueError, match="transformers has no decoder"):
        T5_LM.from_hugging_face({"model_type": "t5"})
    with pytest.raises(ValueError, match="T5LanguageModelConfig"):
        T5_LM.to_hugging_face(PREFIX_LM)
    with pytest.raises(ValueError, match="share_stacks"):
        T5.to_hugging_face(SHARED)
