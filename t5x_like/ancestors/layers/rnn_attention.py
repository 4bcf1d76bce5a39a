"""Attention of a recurrent decoder over an encoder's outputs (Bahdanau et al. 2015; Luong et al. 2015)."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from t5x_like.config_class import config_class
from t5x_like.model.layers.linear import FanIn, Initializer, Linear
from t5x_like.model.layers.masks import MASKED

RNNScore = Literal["dot", "general", "additive"]
InputFeeding = Literal["none", "output", "context"]


@config_class
class RNNAttentionConfig:
    """Attention over an encoder's outputs, and the layer that joins it to the decoder's: ``tanh(W [context; output])``.

    Attributes:
      score: Score of a decoder's output ``q`` and an encoder's ``k``. It is ``q k``, ``q W k`` (Luong et al. 2015,
        §3.1), or ``v tanh(W q + U k)`` (Bahdanau et al. 2015, §A.1.2).
      input_feeding: What the first layer reads next to the embedded token: nothing; the joined output of the position
        before, ``"output"`` (Luong et al. 2015, §3.3); or the context that the state before the token attends to,
        ``"context"`` (Bahdanau et al. 2015, §3.1).
      output_dim: Width of the joined output.
    """

    score: RNNScore
    output_dim: int
    input_feeding: InputFeeding = "none"


class AttendedInput(NamedTuple):
    """An encoder's outputs, ready to be attended to.

    Attributes:
      values: The outputs.
      keys: What queries are compared with.
      real: False at padding; ``None`` for no padding.
    """

    values: Float[Array, "B M E"]
    keys: Float[Array, "B M K"]
    real: Bool[Array, "B M"] | None


class RNNAttention(nnx.Module):
    """Computes contexts and joined outputs; see ``RNNAttentionConfig``.

    Args:
      config: Its settings.
      query_dim: Width of the decoder's outputs.
      encoded_dim: Width of the encoder's outputs.
      key: Random key of fresh weights.
      init: Distribution of fresh kernels.
    """

    def __init__(
        self,
        config: RNNAttentionConfig,
        *,
        query_dim: int,
        encoded_dim: int,
        key: Key[Array, ""],
        init: Initializer = FanIn(),
    ):
        if config.score == "dot" and query_dim != encoded_dim:
            raise ValueError(
                f"score='dot' compares outputs of the decoder, {query_dim} wide, with those of the encoder, "
                f"{encoded_dim} wide; give both the same width, or score='general'"
            )
        output_key, key_key, query_key, score_key = jax.random.split(key, 4)
        inputs = query_dim + encoded_dim
        self.output = Linear(inputs, config.output_dim, axes=("mlp", "embed"), key=output_key, init=init)
        self.key = (
            None
            if config.score == "dot"
            else Linear(encoded_dim, query_dim, axes=("embed", "mlp"), key=key_key, init=init)
        )
        additive = config.score == "additive"
        self.query = (
            Linear(query_dim, query_dim, axes=("embed", "mlp"), key=query_key, init=init, bias=True)
            if additive
            else None
        )
        self.score = (
            Linear(query_dim, 1, axes=("mlp", "vocab"), key=score_key, init=init) if additive else None
        )
        self.config = config

    def prepare(self, encoded: Float[Array, "B M E"], real: Bool[Array, "B M"] | None) -> AttendedInput:
        """Return an encoder's outputs with their keys, which are computed once for all queries.

        Args:
          encoded: Encoder's outputs.
          real: False for padding; None for rows without padding.
        """
        return AttendedInput(encoded, encoded if self.key is None else self.key(encoded), real)

    def context(self, queries: Float[Array, "R L Q"], attended: AttendedInput) -> Float[Array, "R L E"]:
        """Return the mean of the encoder's outputs that each query weighs.

        Args:
          queries: Outputs of the decoder. Rows may be the beams of one input after another.
          attended: The encoder's outputs.
        """
        num_rows, length, query_dim = queries.shape
        num_inputs = len(attended.values)
        queries_BLQ = queries.reshape(num_inputs, num_rows // num_inputs * length, query_dim)
        scores_BLM = self._scores(queries_BLQ, attended.keys).astype(jnp.float32)
        if attended.real is not None:
            scores_BLM = jnp.where(attended.real[:, None], scores_BLM, MASKED)
        weights = jax.nn.softmax(scores_BLM, axis=-1).astype(queries.dtype)
        contexts = jnp.einsum("blm,bme->ble", weights, attended.values)
        return contexts.reshape(num_rows, length, contexts.shape[-1])

    def join(self, outputs: Float[Array, "R L Q"], contexts: Float[Array, "R L E"]) -> Float[Array, "R L D"]:
        """Return the joined output of the decoder's outputs and their contexts.

        Args:
          outputs: Decoder's outputs.
          contexts: Weighted means of the encoder's outputs.
        """
        return jnp.tanh(self.output(jnp.concatenate([contexts, outputs], axis=-1)))

    def _scores(self, queries: Float[Array, "B L Q"], keys: Float[Array, "B M K"]) -> Float[Array, "B L M"]:
        if self.query is None or self.score is None:
            return jnp.einsum("blq,bmq->blm", queries, keys, preferred_element_type=jnp.float32)
        sums_BLMQ = self.query(queries)[:, :, None] + keys[:, None]
        return self.score(jnp.tanh(sums_BLMQ), output_dtype=jnp.dtype("float32"))[..., 0]
