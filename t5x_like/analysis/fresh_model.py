"""A model of the same configuration with fresh weights, as a baseline of analyses."""

from dataclasses import replace

import jax

from t5x_like.model import parameters
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained


def fresh_model(model: Pretrained, seed: int) -> Pretrained:
    """Return a model of the same configuration and tokenizer, whose weights are drawn.

    Args:
      model: Trained model.
      seed: Seed of the weights.
    """
    graphdef, _, _ = parameters.abstract(model.config)
    params = jax.jit(lambda key: parameters.split(model.config.build(key))[1])(jax.random.key(seed))
    return Pretrained(replace(model.checkpoint, graphdef=graphdef, params=params))
