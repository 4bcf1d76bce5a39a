"""The FLOPs that are divided by the time are those of the model."""

import jax
import jax.numpy as jnp
import pytest

from benchmarks.step_time import model_flops
from t5x_like.batch import Batch
from t5x_like.model.zoo.t5 import T5Config


@pytest.mark.parametrize("feed_forward", ["relu", "gated_gelu"])
def test_model_flops_are_three_times_what_xla_counts_in_a_forward_pass_of_one_layer(feed_forward):
    config = T5Config(
        vocab_size=512,
        model_dim=128,
        mlp_dim=384,
        num_heads=4,
        head_dim=32,
        num_encoder_layers=1,  # XLA counts the body of a scan once
        num_decoder_layers=1,
        feed_forward=feed_forward,
    )
    model = config.build(jax.random.key(0))
    batch = Batch(
        encoder_input_tokens=jnp.ones((2, 64), jnp.int32), decoder_input_tokens=jnp.ones((2, 32), jnp.int32)
    )
    counted = jax.jit(lambda batch: model(batch).logits).lower(batch).compile().cost_analysis()["flops"]
    assert model_flops(config, rows=2, inputs_length=64, targets_length=32) == pytest.approx(
        3 * counted, rel=0.05
    )
