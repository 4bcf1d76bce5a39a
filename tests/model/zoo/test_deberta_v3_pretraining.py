"""DeBERTa v3 in pretraining: gradient-disentangled word tables, the discriminator's head, and what remains."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import t5x_like
from t5x_like.batch import Batch
from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.model import parameters
from t5x_like.model.zoo.deberta_v2 import DebertaV2Config
from t5x_like.model.zoo.deberta_v3_pretraining import DebertaV3PretrainingConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.run_weights import find_run_weights
from tests.model.zoo.test_electra_pretraining import BATCH, SEGMENTS, TEXT

CONFIG = DebertaV3PretrainingConfig(
    vocab_size=31,
    model_dim=32,
    mlp_dim=64,
    num_heads=4,
    num_layers=2,
    num_generator_layers=1,
    max_position_embeddings=12,
    position_buckets=4,
)
run: Any = jax.jit(lambda model, batch: model(batch))


@pytest.fixture(scope="module")
def built() -> tuple[Any, dict[str, Any]]:
    """Structure and weights, larger than at birth so that all show."""
    graphdef, params = parameters.split(CONFIG.build(jax.random.key(0)))
    return graphdef, jax.tree.map(
        lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.key(1), leaf.shape), params
    )


def test_the_discriminators_own_table_is_at_first_zero() -> None:
    params = parameters.split(CONFIG.build(jax.random.key(0)))[1]
    assert not params["embedding"]["tokens"]["table"].any()
    assert params["generator_embedding"]["tokens"]["table"].any()


def test_each_table_learns_from_one_loss_alone(built: tuple[Any, dict[str, Any]]) -> None:
    graphdef, params = built

    def loss(params: dict[str, Any], *, of_generator: bool) -> jax.Array:
        result = parameters.merge(graphdef, params)(BATCH)
        if not of_generator:
            return result.extra_losses["discriminator_loss"].total
        targets = jnp.take_along_axis(
            jax.nn.log_softmax(result.logits), BATCH.target_tokens[..., None], axis=-1
        )[..., 0]
        return -jnp.sum(targets * BATCH.loss_weights)

    gradient = jax.jit(jax.grad(loss), static_argnames="of_generator")
    learns = {}
    for of_generator in (True, False):
        parts = gradient(params, of_generator=of_generator)
        learns[of_generator] = {
            name for name, part in parts.items() if any(leaf.any() for leaf in jax.tree.leaves(part))
        }
    assert learns[True] == {"generator_embedding", "generator", "generator_heads"}
    assert learns[False] == {"embedding", "encoder", "heads"}


def test_the_discriminator_reads_the_sum_of_both_tables(built: tuple[Any, dict[str, Any]]) -> None:
    graphdef, params = built
    batch = Batch(encoder_input_tokens=TEXT, encoder_segment_ids=SEGMENTS)
    both = run(parameters.merge(graphdef, params), batch)
    left = CONFIG.remaining_weights(parameters.flatten(params))
    config = CONFIG.discriminator
    alone = run(
        parameters.merge(
            parameters.abstract(config)[0],
            parameters.unflatten({path: np.asarray(leaf) for path, leaf in left.items()}),
        ),
        batch,
    )
    np.testing.assert_allclose(
        alone.heads["replaced_tokens"], both.heads["replaced_tokens"], rtol=1e-5, atol=1e-5
    )


def test_each_score_depends_on_the_first_token_by_the_head(built: tuple[Any, dict[str, Any]]) -> None:
    graphdef, params = built
    model = parameters.merge(graphdef, params)
    head = model.heads.scores["replaced_tokens"]
    x = jax.random.normal(jax.random.key(2), (1, 5, 32))
    dense, norm = head.transform.dense, head.first_token_norm
    summed = np.asarray(x + x[:, :1], np.float64)
    centered = summed - summed.mean(-1, keepdims=True)
    normed = centered / np.sqrt(centered.var(-1, keepdims=True) + 1e-7) * np.asarray(norm.scale[...])
    hidden = (normed + np.asarray(norm.bias[...])) @ np.asarray(dense.kernel[...]) + np.asarray(
        dense.bias[...]
    )
    activated = jax.nn.gelu(jnp.asarray(hidden, jnp.float32), approximate=False)
    expected = activated @ head.projection.kernel[...] + head.projection.bias[...].reshape(1, 1, -1)
    np.testing.assert_allclose(head(x), expected, rtol=1e-4, atol=1e-4)


def test_export_takes_the_discriminator(built: tuple[Any, dict[str, Any]], tmp_path: Path) -> None:
    graphdef, params = built
    with pytest.warns(UserWarning, match="written as DebertaV2Model, without the generator"):
        write_hugging_face(CONFIG, params, tmp_path / "published")
    batch = Batch(encoder_input_tokens=TEXT, encoder_segment_ids=SEGMENTS)
    wanted = run(parameters.merge(graphdef, params), batch).encoder_output
    published = t5x_like.from_pretrained(tmp_path / "published")
    assert isinstance(published.config, DebertaV2Config)
    hidden = published(input_ids=TEXT, attention_mask=SEGMENTS).last_hidden_state
    np.testing.assert_allclose(hidden[SEGMENTS > 0], wanted[SEGMENTS > 0], rtol=1e-4, atol=1e-5)


def test_a_later_run_starts_from_the_discriminator_and_pretraining_from_both(
    built: tuple[Any, dict[str, Any]], tmp_path: Path
) -> None:
    _, params = built
    write_model_config(tmp_path, CONFIG)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(3, {"params": params})
    saved = find_run_weights(tmp_path)
    _, again = replace(saved, config=replace(CONFIG, dropout_rate=0.1)).read()
    jax.tree.map(np.testing.assert_array_equal, again, params)
    classifier = replace(CONFIG.discriminator, task="sequence_classification", num_labels=2)
    with pytest.warns(UserWarning, match="has no weights for heads/pooler"):
        _, started = replace(saved, config=classifier).read(draw_heads=True)
    tables = params["embedding"]["tokens"]["table"], params["generator_embedding"]["tokens"]["table"]
    np.testing.assert_allclose(started["embedding"]["tokens"]["table"], sum(tables), rtol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, started["encoder"], params["encoder"])
