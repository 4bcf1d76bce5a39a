"""What classifiers of sequences read, and logits on a mesh."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from t5x_like.model.heads import Heads, LMHead, LMHeadConfig, whole_logits
from t5x_like.model.layers.embedding import EmbeddingsConfig
from t5x_like.model.layers.pooler import Pooler, PoolerConfig
from t5x_like.model.zoo.openai_gpt import OpenAIGPTConfig
from t5x_like.partitioning.activations import constrain_tokens
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.partitioning.rules import BATCH_MESH_AXES


@pytest.mark.parametrize(
    ("pooling", "wanted"),
    [("first", [1, 5]), ("last", [3, 8]), ("mean", [2, 7])],
    ids=["first", "last", "mean"],
)
def test_padding_is_passed_over_unless_it_stands_first(pooling, wanted):
    x = jnp.arange(1, 9, dtype=jnp.float32).reshape(2, 4, 1)
    segment_ids = jnp.array([[1, 1, 1, 0], [0, 1, 1, 1]])
    pooled = Pooler(PoolerConfig(pooling=pooling), 1, key=jax.random.key(0))(x, segment_ids)
    assert pooled[:, 0].tolist() == wanted


@pytest.mark.parametrize("task", ["sequence_classification", "multiple_choice", "question_answering"])
def test_scores_of_a_decoder_may_have_dropout_of_their_own(task):
    def scores(rate: float | None):
        config = OpenAIGPTConfig(
            vocab_size=8,
            model_dim=4,
            mlp_dim=16,
            num_heads=1,
            num_layers=1,
            task=task,
            dropout_rate=0.0,
            classifier_dropout_rate=rate,
        )
        heads = Heads(config.decoder.heads, None, 4, key=jax.random.key(0))
        rows = jnp.ones((4, 3, 4)), None, jnp.ones((4, 3), jnp.int32)
        return heads(*rows, dropout_key=jax.random.key(1))[2][task]

    assert jnp.array_equal(scores(None), scores(0.0))
    assert not jnp.array_equal(scores(0.5), scores(0.0))


def test_devices_along_model_have_logits_of_their_own_words():
    mesh = MeshConfig(data=2, fsdp=2, model=2).build()
    sizes = EmbeddingsConfig(vocab_size=16, embed_dim=8, pad_vocab_to_multiple_of=16)
    head = LMHead(LMHeadConfig(tie_word_embeddings=False), sizes, 8, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (8, 4, 8))
    with jax.set_mesh(mesh):
        logits = jax.jit(lambda x: whole_logits(head(constrain_tokens(x), None)))(x)
    spec = PartitionSpec(BATCH_MESH_AXES, None, "model")
    assert logits.sharding.is_equivalent_to(NamedSharding(mesh, spec), 3)
    assert jnp.allclose(logits, head.logits(x, None), atol=1e-6)
