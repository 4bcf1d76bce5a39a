"""Hidden states of a pretrained model as features of another one (McCann et al. 2017; Peters et al. 2018)."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from t5x_like.batch import Batch
from t5x_like.config_class import config_class

FEATURES_MODEL = "features/model"  # folder of the pretrained model's weights


@config_class
class FeaturesConfig:
    """Features of each token from a pretrained model, which stays as it is and reads the same tokens.

    Attributes:
      model: Configuration of the pretrained model, of any architecture. Of an encoder-decoder, the encoder is used.
    """

    model: Any

    @property
    def dim(self) -> int:
        """Width of the features."""
        return _dim_of(self)


class PretrainedFeatures(nnx.Module):
    """Computes features; see ``FeaturesConfig``. It has no dropout, and its weights are frozen by default."""

    def __init__(self, config: FeaturesConfig, *, key: Key[Array, ""]):
        self.model = config.model.build(key)

    def __call__(self, batch: Batch) -> Float[Array, "B L F"]:
        """Return the features of the tokens in a batch's encoder stream."""
        inputs = Batch(
            encoder_input_tokens=batch.encoder_input_tokens,
            encoder_segment_ids=batch.encoder_segment_ids,
            encoder_positions=batch.encoder_positions,
            token_types=batch.token_types,
        )
        found = self.model(inputs)
        output = found.decoder_output if found.encoder_output is None else found.encoder_output
        assert output is not None, "every family has an encoder's or a decoder's output"
        return output


@functools.lru_cache(maxsize=16)
def _dim_of(config: FeaturesConfig) -> int:
    def run(key: Key[Array, ""], tokens: Any) -> Float[Array, "B L F"]:
        return PretrainedFeatures(config, key=key)(Batch(encoder_input_tokens=tokens))

    tokens = jax.ShapeDtypeStruct((1, 2), jnp.int32)
    return jax.eval_shape(run, jax.random.key(0), tokens).shape[-1]
