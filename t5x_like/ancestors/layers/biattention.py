"""Attention of a text to itself, and the recurrent layer that integrates it (McCann et al. 2017, §4)."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from t5x_like.ancestors.layers.rnn_stack import RNNStack, RNNStackConfig
from t5x_like.config_class import config_class
from t5x_like.model.layers.dropout import check_rate, dropout, fold
from t5x_like.model.layers.linear import FanIn, Initializer
from t5x_like.model.layers.masks import MASKED

_INPUTS_SITE, _STACK_SITE = range(2)  # dropout sites


@config_class
class BiattentionConfig:
    """Biattention and its integrator: a bidirectional LSTM that reads ``[x; x - c; x * c]``.

    ``c`` is the mean of all tokens, weighted by the softmax of their inner products with ``x``. The paper's form for
    two texts weighs the tokens of the other one; classification of one text duplicates it (§4).

    Attributes:
      hidden_dim: Units of the integrator in each direction.
      dropout_rate: Dropout of the integrator's inputs.
    """

    hidden_dim: int
    dropout_rate: float = 0.0

    def __post_init__(self) -> None:
        check_rate("dropout_rate", self.dropout_rate)

    @property
    def output_dim(self) -> int:
        """Width of the outputs."""
        return 2 * self.hidden_dim


class Biattention(nnx.Module):
    """Computes biattention; see ``BiattentionConfig``.

    Args:
      config: Its settings.
      input_dim: Width of the inputs.
      key: Random key of fresh weights.
      init: Distribution of fresh kernels.
    """

    def __init__(
        self, config: BiattentionConfig, input_dim: int, *, key: Key[Array, ""], init: Initializer = FanIn()
    ):
        stack = RNNStackConfig(
            input_dim=3 * input_dim, hidden_dims=(config.hidden_dim,), direction="both", init=init
        )
        self.integrator = RNNStack(stack, key=key)
        self.config = config

    def __call__(
        self,
        x: Float[Array, "B L D"],
        segment_ids: Int[Array, "B L"] | None,
        *,
        dropout_key: Key[Array, ""] | None = None,
    ) -> Float[Array, "B L E"]:
        """Return the integrator's outputs.

        Args:
          x: Encoded tokens.
          segment_ids: 0 for padding. Tokens attend to those of their own segment. ``None`` for one segment.
          dropout_key: ``None`` for no dropout.
        """
        scores_BLM = jnp.einsum("bld,bmd->blm", x, x, preferred_element_type=jnp.float32)
        if segment_ids is not None:
            same_BLM = segment_ids[:, :, None] == segment_ids[:, None, :]
            scores_BLM = jnp.where(same_BLM, scores_BLM, MASKED)
        weights_BLM = jax.nn.softmax(scores_BLM, axis=-1).astype(x.dtype)
        contexts_BLD = jnp.einsum("blm,bmd->bld", weights_BLM, x)
        inputs = jnp.concatenate([x, x - contexts_BLD, x * contexts_BLD], axis=-1)
        inputs = dropout(inputs, self.config.dropout_rate, fold(dropout_key, _INPUTS_SITE))
        return self.integrator(inputs, segment_ids, dropout_key=fold(dropout_key, _STACK_SITE)).output
