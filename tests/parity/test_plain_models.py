"""Models that transformers lacks, against slow implementations of our own: scores, gradients, generated ids."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.zoo.gpt3 import GPT3Config
from t5x_like.model.zoo.switch_transformer import SwitchTransformerConfig
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.model.zoo.t5_lm import T5LanguageModelConfig
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained
from tests.parity import plain_models
from tests.parity.fixtures import fixture
from tests.slow_cases import slow_except

SIZES: dict[str, Any] = {"vocab_size": 23, "model_dim": 8, "mlp_dim": 12, "num_heads": 2, "head_dim": 6}
ROWS = {"num_layers": 2, "num_heads": 2}
LENGTHS = (21, 13)
TARGET_LENGTHS = (9, 6)
PREFIXES = (8, 5)


def random_rows(lengths: tuple[int, ...], seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.integers(1, SIZES["vocab_size"], length) for length in lengths]


def padded(rows: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rows filled up with 0, and 1 at their tokens."""
    length = max(map(len, rows))
    tokens = np.stack([np.pad(row, (0, length - len(row))) for row in rows]).astype(np.int32)
    mask = np.stack([np.pad(np.ones(len(row)), (0, length - len(row))) for row in rows]).astype(np.int32)
    return tokens, mask


INPUTS, TARGETS = random_rows(LENGTHS, 0), random_rows(TARGET_LENGTHS, 1)


def decoder_batch(prefixes: tuple[int, ...] | None = None) -> Batch:
    tokens, mask = padded(INPUTS)
    prefix = None
    if prefixes is not None:
        prefix = (np.arange(tokens.shape[1])[None] < np.array(prefixes)[:, None]).astype(np.int32)
    return Batch(decoder_input_tokens=tokens, decoder_segment_ids=mask, prefix=prefix)


def encoder_decoder_batch() -> Batch:
    (inputs, mask), (outputs, _) = padded(INPUTS), padded(TARGETS)
    return Batch(encoder_input_tokens=inputs, encoder_segment_ids=mask, decoder_input_tokens=outputs)


def gpt3(weights, inputs, band=5):
    return plain_models.gpt3(weights, inputs, num_layers=3, num_heads=2, band=band)


def shared(weights, inputs, outputs):
    return plain_models.encoder_decoder(weights, inputs, outputs, encoder="decoder", **ROWS)


def language_model(weights, inputs):
    return plain_models.language_model(weights, inputs, prefix=None, **ROWS)


def prefix_model(weights, inputs, prefix):
    return plain_models.language_model(weights, inputs, prefix=prefix, **ROWS)


def capacity(config: SwitchTransformerConfig, length: int) -> int:
    """Places in an expert for the tokens of a row of ``length``, padding included."""
    return min(
        length, math.ceil(config.capacity_factor * config.num_experts_per_token * length / config.num_experts)
    )


def switch(config: SwitchTransformerConfig, *, one_at_a_time: bool = False):
    """``one_at_a_time``: each token of the decoder has the experts for itself."""

    def run(weights, inputs, outputs):
        lengths = (len(inputs), len(outputs)) if one_at_a_time else (max(LENGTHS), max(TARGET_LENGTHS))
        places = [capacity(config, length) for length in lengths]
        places = [places[0], len(outputs)] if one_at_a_time else places
        experts = {
            stack: {"num_experts_per_token": config.num_experts_per_token, "capacity": number}
            for stack, number in zip(("encoder", "decoder"), places, strict=True)
        }
        return plain_models.encoder_decoder(
            weights, inputs, outputs, encoder="encoder", experts=experts, **ROWS
        )

    return run


SWITCH = SwitchTransformerConfig(
    **SIZES, num_encoder_layers=2, num_decoder_layers=2, num_experts=3, capacity_factor=0.75
)
GSHARD = SwitchTransformerConfig(
    **SIZES,
    num_encoder_layers=2,
    num_decoder_layers=2,
    num_experts=4,
    num_experts_per_token=2,
    capacity_factor=1.0,
)
SHARED = T5Config(
    **SIZES,
    num_encoder_layers=2,
    num_decoder_layers=2,
    share_stacks=True,
    feed_forward="relu",
    tie_word_embeddings=True,
)
LM = T5LanguageModelConfig(**SIZES, num_layers=2, feed_forward="relu", tie_word_embeddings=True)
PREFIX_LM = T5LanguageModelConfig(**SIZES, num_layers=2, reads_prefixes=True)
GPT3 = GPT3Config(**SIZES, num_layers=3, band=5, max_position_embeddings=24)

# Configuration, batch, slow implementation, and what it takes of each row.
CASES: dict[str, tuple[Any, Batch, Any, list[tuple[Any, ...]]]] = {
    "gpt3": (GPT3, decoder_batch(), gpt3, [(row,) for row in INPUTS]),
    "t5 with shared stacks": (
        SHARED,
        encoder_decoder_batch(),
        shared,
        list(zip(INPUTS, TARGETS, strict=True)),
    ),
    "language model of T5's blocks": (LM, decoder_batch(), language_model, [(row,) for row in INPUTS]),
    "prefix language model": (
        PREFIX_LM,
        decoder_batch(PREFIXES),
        prefix_model,
        list(zip(INPUTS, PREFIXES, strict=True)),
    ),
    "switch transformer": (
        SWITCH,
        encoder_decoder_batch(),
        switch(SWITCH),
        list(zip(INPUTS, TARGETS, strict=True)),
    ),
    "two experts": (GSHARD, encoder_decoder_batch(), switch(GSHARD), list(zip(INPUTS, TARGETS, strict=True))),
}


def random_weights(config: Any, seed: int = 0) -> Any:
    """Fresh weights moved by noise, so that biases and scales of norms matter too."""
    params = parameters.split(config.build(jax.random.key(seed)))[1]
    generator = np.random.default_rng(seed)
    return jax.tree.map(lambda array: array + 0.3 * generator.normal(size=array.shape).astype("f4"), params)


def num_scored(row: tuple[Any, ...]) -> int:
    """The tokens of a row that scores belong to."""
    return len(row[1]) if len(row) == 2 and isinstance(row[1], np.ndarray) else len(row[0])


def in_float64(flat: Any) -> dict[str, np.ndarray]:
    """Weights for the slow implementations."""
    return {path: np.asarray(array, np.float64) for path, array in flat.items()}


def check_derivatives(gradients: Any, weights: dict[str, np.ndarray], loss: Callable[[Any], float]) -> None:
    """Compares the slope of ``loss`` along a random direction of every weight with that of its gradient."""
    assert gradients.keys() == weights.keys()
    generator, step = np.random.default_rng(3), 1e-5
    scale = max(float(np.abs(gradient).max()) for gradient in gradients.values())
    for path, array in weights.items():
        direction = generator.normal(size=array.shape)
        direction /= np.linalg.norm(direction)
        ahead, behind = (loss(weights | {path: array + sign * step * direction}) for sign in (1, -1))
        slope = np.sum(np.asarray(gradients[path], np.float64) * direction)
        assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=2e-5 * scale), path


@pytest.mark.parametrize("name", slow_except(CASES, CASES.keys() - {"two experts", "t5 with shared stacks"}))
def test_scores_and_gradients(name: str) -> None:
    config, batch, slow, rows = CASES[name]
    params = random_weights(config)
    graphdef = parameters.abstract(config)[0]
    batch = jax.tree.map(jnp.asarray, batch)
    generator = np.random.default_rng(2)
    wanted = [generator.normal(size=(num_scored(row), SIZES["vocab_size"])).astype("f4") for row in rows]

    @functools.partial(jax.grad, has_aux=True)
    def differentiate(params: Any) -> tuple[Any, list[Any]]:
        whole = parameters.merge(graphdef, params)(batch).logits
        logits = [
            whole[token_id, : num_scored(row), : SIZES["vocab_size"]] for token_id, row in enumerate(rows)
        ]
        return sum(jnp.sum(a * jax.nn.log_softmax(b)) for a, b in zip(wanted, logits, strict=True)), logits

    def scores(weights: Any) -> list[np.ndarray]:
        return [slow(weights, *row)[:, : SIZES["vocab_size"]] for row in rows]

    def loss(weights: Any) -> float:
        logs = (np.log(plain_models.softmax(logits)) for logits in scores(weights))
        return sum(float(np.sum(a * log)) for a, log in zip(wanted, logs, strict=True))

    gradients, logits = jax.jit(differentiate)(params)
    weights = in_float64(parameters.flatten(params))
    for actual, reference in zip(logits, scores(weights), strict=True):
        np.testing.assert_allclose(actual, reference, atol=1e-4, rtol=1e-4)
    check_derivatives(parameters.flatten(gradients), weights, loss)


def test_experts_have_no_place_for_some() -> None:
    """Else the cases above would not show who is served first."""
    config, _, _, rows = CASES["switch transformer"]
    flat = in_float64(parameters.flatten(random_weights(config)))

    def scores(places: int) -> Any:
        experts = {
            stack: {"num_experts_per_token": 1, "capacity": places} for stack in ("encoder", "decoder")
        }
        return plain_models.encoder_decoder(flat, *rows[0], encoder="encoder", experts=experts, **ROWS)

    assert np.abs(scores(capacity(config, max(LENGTHS))) - scores(max(LENGTHS))).max() > 1e-3


def test_bands_and_prefixes_matter() -> None:
    flat = in_float64(parameters.flatten(random_weights(GPT3)))
    assert np.abs(gpt3(flat, INPUTS[0], band=5) - gpt3(flat, INPUTS[0], band=24)).max() > 1e-3
    flat = in_float64(parameters.flatten(random_weights(PREFIX_LM)))
    assert np.abs(prefix_model(flat, INPUTS[0], 8) - prefix_model(flat, INPUTS[0], 3)).max() > 1e-3


@pytest.mark.parametrize(
    "name",
    slow_except(
        (name for name in CASES if name != "prefix language model"),
        ("switch transformer", "t5 with shared stacks"),
    ),
)
def test_generated_ids(name: str) -> None:
    """What scores best, one token after another."""
    config, _, slow, rows = CASES[name]
    if isinstance(config, SwitchTransformerConfig):
        slow = switch(config, one_at_a_time=True)
    params = random_weights(config)
    flat, length, num_new = in_float64(parameters.flatten(params)), SIZES["vocab_size"], 8
    model = parameters.merge(parameters.abstract(config)[0], params)
    fields = {"eos_token_id": length, "pad_token_id": 0, "decoder_start_token_id": 0}
    pretrained = Pretrained(Checkpoint.in_memory(model, config, fields))
    for row in rows:
        is_pair = len(row) == 2
        # 32 is a length that generation doesn't fill up: experts have places for padding too.
        prompt = np.resize(row[0], 32) if is_pair else row[0][:12]
        written = [0] if is_pair else list(prompt)
        for _ in range(num_new):
            inputs = (prompt, np.array(written)) if is_pair else (np.array(written),)
            written.append(int(np.argmax(slow(flat, *inputs)[-1, :length])))
        ids = pretrained.generate(prompt[None], np.ones_like(prompt)[None], max_new_tokens=num_new)
        assert ids[0].tolist() == written


@pytest.mark.parametrize("name", ["glm_orig", pytest.param("glm_orig_1d", marks=pytest.mark.slow)])
def test_glm(name: str) -> None:
    """The slow GLM gives its authors' scores, and our gradients are those of the slow one."""
    case = fixture(name)
    fields, io = case.pretrained.fields, case.io
    weights = in_float64(load_file(case.directory / "model.safetensors"))
    positions = io["in_position_ids"] if io["in_position_ids"].ndim == 3 else io["in_position_ids"][:, None]

    def scores(weights: Any) -> np.ndarray:
        rows = zip(io["in_input_ids"], positions, io["in_sep"], strict=True)
        heads = fields["num_attention_heads"]
        return np.stack([plain_models.glm(weights, *row[:2], int(row[2]), num_heads=heads) for row in rows])

    def loss(weights: Any) -> float:
        logs = np.log(plain_models.softmax(scores(weights)))
        chosen = np.take_along_axis(logs, io["in_targets"][..., None], -1)[..., 0]
        return -float(np.sum(chosen * io["in_loss_mask"]) / io["in_loss_mask"].sum())

    np.testing.assert_allclose(scores(weights), io["out_logits"], atol=2e-5)
    labels = np.where(io["in_loss_mask"] == 1, io["in_targets"], -100)
    inputs = {"input_ids": io["in_input_ids"], "position_ids": io["in_position_ids"]}
    gradients = case.gradients(inputs | {"attention_mask": io["in_sep"], "labels": labels})
    check_derivatives(gradients, weights, loss)
