"""How likely a model finds given targets: for scoring, and for choosing among a task's few answers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.encoder_decoder import EncoderDecoder
from t5x_like.partitioning.shard import replicated


def make_scorer(graphdef: Any, mesh: Mesh) -> Callable[[Any, Batch], np.ndarray]:
    """The compiled function ``(params, batch) -> float32 [B]``: log-likelihood of each row's targets, in nats.

    Raises:
      ValueError: on its first call, the model has no encoder, which would read the questions.
    """

    def score(params: Any, batch: Batch) -> jax.Array:
        model = parameters.merge(graphdef, params)
        if not isinstance(model, EncoderDecoder):
            raise ValueError(
                f"answers are ranked during training by encoder-decoders only, not by a {type(model).__name__}; "
                "use method='generate', or rank after training: t5x-like evaluate --method rank"
            )
        logits = model(batch).logits
        assert logits is not None
        return target_log_likelihood(logits, batch)

    compiled = jax.jit(score, out_shardings=replicated(mesh))
    return lambda params, batch: np.asarray(compiled(params, batch))


def target_log_likelihood(logits: jax.Array, batch: Batch) -> jax.Array:
    """Sums log-probabilities of targets over each row: logits [B, L, V] give [B]."""
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    chosen = jnp.take_along_axis(log_probs, batch.target_tokens[..., None], axis=-1).squeeze(-1)
    return jnp.sum(chosen * batch.loss_weights, axis=-1)
