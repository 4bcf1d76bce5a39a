"""ELECTRA in pretraining: what the generator makes up, what the discriminator is charged with, and what remains."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import t5x_like
from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.zoo.electra_pretraining import (
    ElectraPretrainingConfig,
    discriminator_params,
    generator_params,
)
from t5x_like.pretrained.hugging_face_export import write_hugging_face

CONFIG = ElectraPretrainingConfig(
    vocab_size=31,
    embed_dim=24,
    model_dim=32,
    mlp_dim=64,
    num_heads=4,
    num_layers=2,
    max_position_embeddings=12,
    generator_divisor=2,
)
MASK, ALWAYS = 3, 7  # the id of the mask; the one that a determined generator draws
RNG = np.random.default_rng(0)
TEXT = RNG.integers(4, 31, (4, 12)).astype(np.int32)
TEXT[:, 2] = ALWAYS
IS_TARGET = np.tile(np.isin(np.arange(12), [2, 5, 6]), (4, 1))
SEGMENTS = (np.arange(12) < np.array([[12], [9], [7], [10]])).astype(np.int32)
BATCH = Batch(
    encoder_input_tokens=jnp.asarray(np.where(IS_TARGET, MASK, TEXT), jnp.int32),
    encoder_segment_ids=jnp.asarray(SEGMENTS),
    target_tokens=jnp.asarray(TEXT),
    loss_weights=jnp.asarray(IS_TARGET, jnp.float32),
)
SIZES = {
    "small": ElectraPretrainingConfig(
        vocab_size=30_522, embed_dim=128, model_dim=256, mlp_dim=1024, num_heads=4, num_layers=12
    ),
    "base": ElectraPretrainingConfig(
        vocab_size=30_522,
        embed_dim=768,
        model_dim=768,
        mlp_dim=3072,
        num_heads=12,
        num_layers=12,
        generator_divisor=3,
    ),
}

run: Any = jax.jit(lambda model, batch, key: model(batch, dropout_key=key))


def built(*, determined: bool = False) -> tuple[Any, dict[str, Any]]:
    """Structure and weights, some of them larger than at birth so that all show."""
    graphdef, params = parameters.split(CONFIG.build(jax.random.key(0)))
    params = jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.key(1), leaf.shape), params)
    if determined:
        words = params["generator_heads"]["lm_head"]
        words["bias"] = words["bias"].at[ALWAYS].set(1e4)
    return graphdef, params


def predict(batch: Batch, key: int | None = None, **options: Any) -> Any:
    model = parameters.merge(*built(**options))
    return run(model, batch, None if key is None else jax.random.key(key))


def share(predictions: Any, name: str) -> float:
    return float(predictions.measures[name].total) / float(predictions.measures[name].count)


def test_the_discriminator_reads_what_was_drawn_in_place_of_targets_and_nothing_else_changed() -> None:
    result = predict(BATCH, determined=True)
    filled = np.where(IS_TARGET, ALWAYS, TEXT).astype(np.int32)
    read = predict(Batch(encoder_input_tokens=filled, encoder_segment_ids=SEGMENTS), determined=True)
    np.testing.assert_allclose(
        result.heads["replaced_tokens"], read.heads["replaced_tokens"], rtol=1e-5, atol=1e-5
    )


def test_a_word_drawn_as_it_was_is_no_replacement() -> None:
    result = predict(BATCH, determined=True)
    # Of three targets a row, one is what is always drawn; chance may have put it elsewhere too.
    targets = IS_TARGET & (SEGMENTS > 0)
    wanted = (TEXT != ALWAYS)[targets].mean()
    assert wanted < 0.7
    assert share(result, "replaced_share") == pytest.approx(wanted)


def test_the_discriminators_loss_is_of_all_real_tokens_and_of_no_padding() -> None:
    result = predict(BATCH, determined=True)
    scores = np.asarray(result.heads["replaced_tokens"], np.float64)[..., 0]
    is_replaced = IS_TARGET & (TEXT != ALWAYS)
    chance = 1 / (1 + np.exp(-scores))
    losses = -np.log(np.where(is_replaced, chance, 1 - chance))
    loss = result.extra_losses["discriminator_loss"]
    assert float(loss.total) == pytest.approx(losses[SEGMENTS > 0].sum(), rel=1e-5)
    assert float(loss.weight) == 50.0
    flagged = (scores > 0) & (SEGMENTS > 0)
    assert flagged.any()
    assert share(result, "discriminator_precision") == pytest.approx(is_replaced[flagged].mean())
    assert share(result, "discriminator_recall") == pytest.approx(
        flagged[is_replaced & (SEGMENTS > 0)].mean()
    )


def test_words_are_drawn_as_the_generator_scores_them() -> None:
    rows = np.tile(np.asarray(BATCH.encoder_input_tokens)[:1], (400, 1))
    batch = Batch(
        encoder_input_tokens=rows,
        target_tokens=np.full_like(rows, 30),
        loss_weights=np.tile(IS_TARGET[:1], (400, 1)).astype(np.float32),
    )
    graphdef, params = built()
    words = params["generator_heads"]["lm_head"]
    words["bias"] = words["bias"].at[30].add(3.0)
    result = run(parameters.merge(graphdef, params), batch, None)
    expected = 1 - np.asarray(jax.nn.softmax(result.logits[0], axis=-1))[IS_TARGET[0], 30].mean()
    assert 0.1 < expected < 0.9
    assert share(result, "replaced_share") == pytest.approx(expected, abs=0.05)


def test_draws_differ_by_key_and_are_the_same_without_one() -> None:
    first, second = (predict(BATCH, key).heads["replaced_tokens"] for key in (1, 2))
    assert np.abs(first - second).max() > 1e-4  # there is no dropout in this model
    np.testing.assert_array_equal(
        predict(BATCH).heads["replaced_tokens"], predict(BATCH).heads["replaced_tokens"]
    )


def test_the_generator_learns_nothing_from_the_discriminators_loss_but_through_the_tables() -> None:
    graphdef, params = built()

    def loss(params: dict[str, Any], *, of_generator: bool) -> jax.Array:
        result = parameters.merge(graphdef, params)(BATCH, dropout_key=jax.random.key(0))
        targets = jnp.take_along_axis(
            jax.nn.log_softmax(result.logits), BATCH.target_tokens[..., None], axis=-1
        )[..., 0]
        if of_generator:
            return -jnp.sum(targets * BATCH.loss_weights)
        return result.extra_losses["discriminator_loss"].total

    def largest(gradients: dict[str, Any]) -> dict[str, float]:
        return {
            name: max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(part))
            for name, part in gradients.items()
        }

    gradient = jax.jit(jax.grad(loss), static_argnames="of_generator")
    discriminators = largest(gradient(params, of_generator=False))
    generators = largest(gradient(params, of_generator=True))
    own = {"generator", "generator_heads", "generator_projection"}
    assert {name for name, size in discriminators.items() if size == 0} == own
    assert {name for name, size in generators.items() if size == 0} == {"encoder", "heads"}
    assert discriminators["embedding"] > 0


def test_both_models_can_be_taken_out() -> None:
    graphdef, params = built()
    batch = Batch(encoder_input_tokens=TEXT, encoder_segment_ids=SEGMENTS)
    both = run(parameters.merge(graphdef, params), batch, None)
    for config, part, scores in (
        (CONFIG.discriminator, discriminator_params(params), lambda result: result.heads["replaced_tokens"]),
        (CONFIG.generator, generator_params(params), lambda result: result.logits),
    ):
        alone = run(parameters.merge(parameters.abstract(config)[0], part), batch, None)
        np.testing.assert_allclose(scores(alone), scores(both), rtol=1e-5, atol=1e-5)


def test_the_discriminator_goes_to_hugging_faces_format(tmp_path: Path) -> None:
    graphdef, params = built()
    with pytest.warns(UserWarning, match="written as ElectraForPreTraining, without the generator"):
        write_hugging_face(CONFIG, params, tmp_path / "out")
    result = t5x_like.from_pretrained(tmp_path / "out")
    assert result.config == CONFIG.discriminator
    batch = Batch(encoder_input_tokens=TEXT, encoder_segment_ids=SEGMENTS)
    wanted = run(parameters.merge(graphdef, params), batch, None).heads["replaced_tokens"][..., 0]
    logits = result(input_ids=TEXT, attention_mask=SEGMENTS).logits
    np.testing.assert_allclose(logits[SEGMENTS > 0], wanted[SEGMENTS > 0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "discriminator", "generator"), [("small", 14, 5), ("base", 110, 34)], ids=["small", "base"]
)
def test_sizes_are_the_papers(size: str, discriminator: int, generator: int) -> None:
    def millions(config: Any) -> int:
        return round(sum(leaf.size for leaf in jax.tree.leaves(parameters.abstract(config)[1])) / 1e6)

    config = SIZES[size]
    assert millions(config.discriminator) == discriminator
    assert millions(config.generator) == generator
    # Tables are shared, so that both together are less than their sum.
    assert millions(config) < discriminator + generator


@pytest.mark.parametrize("divisor", [0, 3])
def test_a_generator_that_cannot_be_cut_is_refused(divisor: int) -> None:
    with pytest.raises(ValueError, match=f"generator_divisor={divisor}-th of model_dim=32 can't be made"):
        replace(CONFIG, generator_divisor=divisor)
