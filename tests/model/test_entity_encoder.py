from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from t5x_like.batch import Batch, DeclaredStreams
from t5x_like.model import parameters
from t5x_like.model.families.entity_encoder import entity_scores, first_mention
from t5x_like.model.layers.entity_stack import EntityStack, FusedStreams
from t5x_like.model.layers.self_attention import AttentionContext
from t5x_like.model.zoo.entity_bert import EntityBertConfig
from t5x_like.training.methods.entity_pretraining import entity_losses

CONFIG = EntityBertConfig(
    vocab_size=61,
    model_dim=12,
    mlp_dim=20,
    num_heads=3,
    num_layers=3,
    num_entity_layers=2,
    num_entities=10,
    entity_dim=8,
    num_entity_heads=2,
    max_position_embeddings=16,
)
LENGTH = 9
RNG = np.random.default_rng(0)
TOKENS = RNG.integers(1, 61, (2, LENGTH)).astype(np.int32)
SEGMENTS = np.array([[1] * 5 + [2] * 4, [1] * 6 + [0] * 3], np.int32)
ENTITIES = np.full((2, LENGTH), -1, np.int32)
ENTITIES[0, [1, 3, 6]], ENTITIES[1, [2, 4]] = [3, 7, 3], [0, 9]


def batch_of(entities=ENTITIES, **changes):
    token = {} if entities is None else {"entities": entities}
    declared = DeclaredStreams(token={**token, **changes.pop("streams", {})})
    batch = Batch(encoder_input_tokens=TOKENS, encoder_segment_ids=SEGMENTS, declared=declared)
    return jax.tree.map(jnp.asarray, batch._replace(**changes))


@pytest.fixture(scope="module")
def weights():
    return shaken(CONFIG)


@pytest.fixture(scope="module")
def model(weights):
    return predictor(CONFIG, weights)


def shaken(config):
    """Weights of which none is 0 or 1, as biases and scales are at first."""
    return {
        path: np.asarray(np.random.default_rng(len(path)).normal(scale=0.3, size=leaf.shape), np.float32)
        for path, leaf in parameters.flatten(parameters.abstract(config)[1]).items()
    }


def merged(config, flat):
    tree = jax.tree.map(jnp.asarray, parameters.unflatten(flat))
    return parameters.merge(parameters.abstract(config)[0], tree)


def predictor(config, flat):
    return jax.jit(lambda batch: merged(config, flat)(batch))


def in_numpy(block, tokens, entities, visible, has_entity, *, heads, entity_heads, outputs):
    """One block, from the equations of Zhang et al. 2019, §3.4, and with "residual" those of its code."""

    def linear(layer, x):
        y = x @ np.asarray(layer.kernel[...], np.float64)
        return y if layer.bias is None else y + np.asarray(layer.bias[...], np.float64)

    def norm(residual, x):
        final = residual.final
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return x * np.asarray(final.scale[...]) + np.asarray(final.bias[...])

    def gelu(x):
        return x * scipy.special.ndtr(x)

    def attend(layer, x, mask, num_heads):
        def heads_of(y):
            return y.reshape(*y.shape[:2], num_heads, -1).transpose(0, 2, 1, 3)

        q, k, v = (heads_of(linear(getattr(layer, name), x)) for name in ("query", "key", "value"))
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
        scores = np.where(mask[:, None], scores, -1e10)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return linear(layer.out, (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape))

    inner = block.block
    tokens = norm(
        inner.self_attention_residual, tokens + attend(inner.self_attention, tokens, visible, heads)
    )
    seen = attend(block.entity_attention, entities, visible & has_entity[:, None, :], entity_heads)
    entities = norm(block.entity_attention_residual, entities + seen) * has_entity[..., None]
    fused = gelu(linear(inner.feed_forward.up, tokens) + linear(block.entity_up, entities))
    new_tokens, new_entities = linear(inner.feed_forward.down, fused), linear(block.entity_down, fused)
    if outputs == "activation":
        return gelu(new_tokens), gelu(new_entities) * has_entity[..., None]
    new_tokens = norm(inner.feed_forward_residual, tokens + new_tokens)
    return new_tokens, norm(block.entity_residual, entities + new_entities) * has_entity[..., None]


@pytest.mark.parametrize("outputs", ["residual", "activation"])
def test_a_stack_computes_the_papers_equations(outputs):
    config = replace(CONFIG, fusion_outputs=outputs)
    stack: EntityStack = merged(config, shaken(config)).entity_encoder
    tokens, entities = RNG.normal(size=(2, LENGTH, 12)), RNG.normal(size=(2, LENGTH, 8))
    has_entity = ENTITIES >= 0
    entities *= has_entity[..., None]
    visible = np.broadcast_to((SEGMENTS > 0)[:, None, :], (2, LENGTH, LENGTH)).copy()
    visible &= (SEGMENTS[:, :, None] == SEGMENTS[:, None, :]) | (SEGMENTS == 0)[:, :, None]
    context = AttentionContext(mask=jnp.asarray(visible[:, None]))
    ran = jax.jit(lambda streams, has_entity: stack(streams, context, has_entity))(
        FusedStreams(jnp.asarray(tokens, jnp.float32), jnp.asarray(entities, jnp.float32)),
        jnp.asarray(has_entity),
    )
    for layer in range(2):
        block = jax.tree.map(lambda leaf, layer=layer: np.asarray(leaf)[layer], stack.layers)
        tokens, entities = in_numpy(
            block, tokens, entities, visible, has_entity, heads=3, entity_heads=2, outputs=outputs
        )
    np.testing.assert_allclose(ran.tokens, tokens, atol=2e-4)
    np.testing.assert_allclose(ran.entities, entities, atol=2e-4)


def test_without_the_stream_the_model_is_the_bert_with_the_same_weights(model, weights):
    last, first = "entity_encoder/layers/block/", "encoder/layers/0/"
    of_bert = {
        path: np.concatenate([leaf, weights[last + path.removeprefix(first)]])
        if path.startswith(first)
        else leaf
        for path, leaf in weights.items()
        if path.startswith(("embedding/", first, "heads/")) and "scores/entity" not in path
    }
    bert = predictor(CONFIG.bert, of_bert)
    without = model(batch_of(None))
    np.testing.assert_allclose(without.logits, bert(batch_of(None)).logits, atol=1e-4)
    np.testing.assert_array_equal(without.logits, model(batch_of(np.full_like(ENTITIES, -1))).logits)


def test_an_entity_changes_its_own_segment_alone(model):
    other = ENTITIES.copy()
    other[0, 1] = 5
    before, after = model(batch_of()).encoder_output, model(batch_of(other)).encoder_output
    changed = np.abs(np.asarray(before) - np.asarray(after)).max(-1) > 1e-6
    np.testing.assert_array_equal(changed, [[True] * 5 + [False] * 4, [False] * LENGTH])


def test_padding_changes_nothing(model):
    longer = batch_of()
    tokens = TOKENS.copy()
    tokens[1, 6:] = 1
    changed = model(longer._replace(encoder_input_tokens=jnp.asarray(tokens))).encoder_output
    np.testing.assert_array_equal(changed[1, :6], model(longer).encoder_output[1, :6])


def test_gradients_reach_every_weight_but_the_entities_of_the_last_block(weights):
    batch = batch_of(streams={"entity_targets": ENTITIES})

    @jax.jit
    @jax.grad
    def gradients(flat):
        predictions = merged(CONFIG, flat)(batch)
        entity = entity_losses(predictions.heads["entity"], jnp.asarray(ENTITIES))[0]
        pooled = predictions.heads["next_sentence"]
        return entity + jnp.sum(jnp.square(predictions.logits[..., :61])) + jnp.sum(jnp.square(pooled))

    flat = gradients(jax.tree.map(jnp.asarray, weights))
    unread = ("entity_encoder/layers/entity_down/", "entity_encoder/layers/entity_residual/")
    for path, gradient in flat.items():
        if path.startswith("entity_encoder/layers/"):
            reached = np.abs(np.asarray(gradient)).reshape(2, -1).max(axis=1) > 0
            is_key_bias = path.endswith("key/bias")  # adds the same to all scores of a query
            np.testing.assert_array_equal(
                reached | is_key_bias, [True, not path.startswith(unread)], err_msg=path
            )
        elif not path.endswith("key/bias"):
            assert np.abs(np.asarray(gradient)).max() > 0, path


def test_entities_are_scored_among_those_of_their_row():
    linear, table = RNG.normal(size=(2, LENGTH, 8)), RNG.normal(size=(10, 8))
    scores = entity_scores(
        jnp.asarray(linear, jnp.float32),
        jnp.asarray(table[np.maximum(ENTITIES, 0)], jnp.float32),
        jnp.asarray(ENTITIES),
    )
    total, _, count = entity_losses(scores, jnp.asarray(ENTITIES))
    expected = 0.0
    for row, places in enumerate(([1, 3, 6], [2, 4])):
        candidates = sorted({int(ENTITIES[row, place]) for place in places})
        for place in places:
            logits = table[candidates] @ linear[row, place]
            own = candidates.index(int(ENTITIES[row, place]))
            expected += np.log(np.exp(logits).sum()) - logits[own]
    assert count == 5
    np.testing.assert_allclose(total, expected, rtol=1e-4)


def test_places_of_one_entity_count_as_its_first():
    np.testing.assert_array_equal(first_mention(jnp.asarray(ENTITIES))[0, [1, 3, 6]], [1, 3, 1])


def test_a_row_without_entities_has_no_loss():
    none = np.full((1, LENGTH), -1, np.int32)
    scores = entity_scores(*[jnp.ones((1, LENGTH, 8))] * 2, jnp.asarray(none))
    assert [float(each) for each in entity_losses(scores, jnp.asarray(none))] == [0.0, 0.0, 0.0]


def test_a_number_beyond_the_table_is_not_hidden(model):
    other = ENTITIES.copy()
    other[0, 1] = 10
    output = model(batch_of(other)).encoder_output
    assert np.isnan(output[0, 1]).all()
    assert not np.isnan(output[1]).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_entity_layers": 3}, "num_entity_layers is 3 of num_layers=3; .* fewer than all"),
        ({"num_entity_layers": 0}, "give at least 1"),
        ({"num_entities": 0}, "num_entities is 0; give the number of entities' vectors"),
        ({"entity_dim": 7}, "entity_dim=7 doesn't divide among num_entity_heads=2"),
    ],
)
def test_sizes_that_cant_be_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)


def test_the_entities_vectors_alone_stay_frozen():
    paths = parameters.flatten(parameters.abstract(CONFIG)[1])
    patterns = CONFIG.trained_by_default(paths)
    selected = parameters.select(parameters.abstract(CONFIG)[1], patterns)
    assert [path for path, is_trained in selected.items() if not is_trained] == ["entities/table"]
