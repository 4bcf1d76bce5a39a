"""Loss of a model whose tokens each compute some experts of every feed-forward layer."""

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from t5x_like.analysis.language_model_rows import LanguageModelRows
from t5x_like.analysis.text_activations import stack_of
from t5x_like.analysis.traced_model import TracedModel, traced
from t5x_like.model.named_activations import record
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained

ExpertRouter = Literal["oracle", "learned", "centers"]


class RoutedExperts(NamedTuple):
    """Experts of all layers, and what routers score them with.

    Attributes:
      of_neurons: Expert of each neuron, [N, F].
      centers: Mean key of each expert's neurons, scaled to length 1, [N, E, D].
      learned: Linear map from inputs, with a 1 at their end, to the experts' scores, [N, D + 1, E].
    """

    of_neurons: np.ndarray
    centers: np.ndarray
    learned: np.ndarray


def routed_loss(
    model: Pretrained,
    batches: Sequence[LanguageModelRows],
    experts: RoutedExperts,
    router: ExpertRouter,
    num_kept: int,
) -> float:
    """Return the mean loss of a predicted token.

    Args:
      model: The model.
      batches: Rows to predict.
      experts: Experts of all layers.
      router: Scores the experts: "oracle" by their positive activations, "learned" by the layer's input and a linear
        map, "centers" by the cosine of the input with the mean of an expert's keys.
      num_kept: Number of experts that each token computes.
    """
    structure, params = traced(model)
    total, count = 0.0, 0.0
    for batch in batches:
        with model.matmul_precision():
            loss = _loss(
                params,
                batch,
                experts,
                num_kept,
                structure=structure,
                stack=stack_of(model),
                router=router,
            )
        total += float(loss)
        count += float(batch.weights.sum())
    return total / count


@partial(jax.jit, static_argnames=("structure", "stack", "router"))
def _loss(
    params: Parameters,
    batch: LanguageModelRows,
    experts: RoutedExperts,
    num_kept: jax.Array,
    *,
    structure: TracedModel,
    stack: str,
    router: ExpertRouter,
) -> jax.Array:
    """Return the sum of the targets' losses."""
    seen: list[jax.Array] = []  # inputs of the layer that is traced; its activations come right after them

    def keep(x: jax.Array, layer: jax.Array | int) -> jax.Array:
        del layer
        seen[:] = [x]
        return x

    def route(x: jax.Array, layer: jax.Array | int) -> jax.Array:
        of_neurons = experts.of_neurons[layer]
        if router == "oracle":
            belongs = jax.nn.one_hot(of_neurons, experts.centers.shape[1], dtype=x.dtype)
            scores = jax.nn.relu(x) @ belongs
        elif router == "learned":
            weight = experts.learned[layer]
            scores = seen[0] @ weight[:-1] + weight[None, None, -1]
        else:
            scores = seen[0] @ experts.centers[layer].T  # the input's length changes no order
        ranks = jnp.argsort(jnp.argsort(-scores, axis=-1), axis=-1)
        return jnp.where(jnp.take(ranks < num_kept, of_neurons, axis=-1), x, 0.0)

    edits = {f"{stack}/feed_forward/inputs": keep, f"{stack}/feed_forward/activations": route}
    with record(edits=edits):
        logits = structure.logits(params, batch.inputs)
    log_probabilities = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    chosen = jnp.take_along_axis(log_probabilities, jnp.asarray(batch.targets)[..., None], axis=-1)[..., 0]
    return -jnp.sum(jnp.where(batch.weights > 0, chosen, 0.0))
