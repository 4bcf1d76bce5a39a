"""Attribution of answers to neurons of feed-forward layers (Dai et al. 2022, https://arxiv.org/abs/2104.08696)."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from numpy.typing import ArrayLike

from t5x_like.analysis.fact_prompts import FactPrompt
from t5x_like.analysis.feed_forward_weights import Neuron, activations_name
from t5x_like.analysis.traced_model import TracedModel, traced, traced_inputs
from t5x_like.inference.length_batches import run_by_length
from t5x_like.model.named_activations import record
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained


class PromptAnswer(NamedTuple):
    """Answer of a model to a prompt.

    Attributes:
      probability: Probability of the wanted token.
      top: Most likely token.
      activations: Inner activations of all layers at the prompt's position, [N, F].
    """

    probability: float
    top: int
    activations: np.ndarray


class FactModel:
    """A model that answers prompts, as it is or with some neurons scaled at the position of the answer.

    Args:
      model: Encoder or decoder.
      params: Weights in place of the model's own.
      batch_size: Number of prompts that the model reads at once.

    Raises:
      ValueError: The model is neither.
    """

    def __init__(self, model: Pretrained, *, params: Parameters | None = None, batch_size: int = 16):
        self._model, self._batch_size = model, batch_size
        self._structure, own = traced(model)
        self._params = own if params is None else params
        self._name = activations_name(model)

    def answers(
        self, prompts: Sequence[FactPrompt], targets: Sequence[int], factors: ArrayLike | None = None
    ) -> list[PromptAnswer]:
        """Return the answers to prompts.

        Args:
          prompts: Prompts.
          targets: Wanted token of each.
          factors: Factors of the activations at the position of the answer, [N, F]; see ``neuron_factors``.
        """
        scaled = None if factors is None else jnp.asarray(factors, jnp.float32)

        def run(indices: list[int]) -> list[PromptAnswer]:
            columns = np.zeros((2, self._batch_size), np.int32)
            columns[:, : len(indices)] = [
                [prompts[index].position for index in indices],
                [targets[index] for index in indices],
            ]
            inputs = traced_inputs(
                self._model, self._structure, [prompts[index].ids for index in indices], self._batch_size
            )
            with self._model.matmul_precision():
                computed = _answers(
                    self._params, inputs, *columns, scaled, structure=self._structure, name=self._name
                )
            probabilities, tops, activations = map(np.asarray, computed)
            return [
                PromptAnswer(float(probabilities[row]), int(tops[row]), activations[:, row])
                for row in range(len(indices))
            ]

        return run_by_length([len(prompt.ids) for prompt in prompts], self._batch_size, run)

    def attribution(self, prompt: FactPrompt, target: int, *, steps: int = 20) -> np.ndarray:
        """Return the integrated gradients of the answer's probability in all neurons; see ``knowledge_attribution``.

        Args:
          prompt: The prompt.
          target: Token of the answer.
          steps: Number of points of the integrated gradients.
        """
        (answer,) = self.answers([prompt], [target])
        inputs = traced_inputs(self._model, self._structure, [prompt.ids] * steps, steps)
        layers = []
        for layer, activations in enumerate(answer.activations):
            with self._model.matmul_precision():
                gradients = _gradients(
                    self._params,
                    inputs,
                    jnp.zeros((steps, len(activations))),
                    layer,
                    prompt.position,
                    target,
                    structure=self._structure,
                    name=self._name,
                )
            layers.append(activations * np.asarray(gradients).mean(axis=0))
        return np.stack(layers)


def knowledge_attribution(
    model: Pretrained, input_ids: ArrayLike, position: int, target: int, *, steps: int = 20
) -> np.ndarray:
    """Return how much each neuron of a feed-forward layer contributes to a token's probability (equation 4).

    It is ``w / m * sum(dP(target | k / m * w) / dw for k in 1, …, m)``, where ``w`` are the activations of one layer at
    the position. Those of lower layers and of other positions stay as they are.

    >>> knowledge_attribution(bert, ids, position=4, target=paris)[layer].argmax()

    Args:
      model: Encoder or decoder with a head over the vocabulary.
      input_ids: Token ids of one text, [L].
      position: Position whose scores are read: that of the mask, or a decoder's last one.
      target: Token of the answer.
      steps: Number m of points between 0 and the activations.

    Returns:
      Attributions, float32 [layers, neurons].

    Raises:
      ValueError: A number is out of its range, or the model predicts no words.
    """
    ids = np.asarray(input_ids, np.int32)
    ids = ids[0] if ids.ndim == 2 and len(ids) == 1 else ids
    if ids.ndim != 1:
        raise ValueError(f"input_ids has shape {ids.shape}; give those of one text, [length]")
    for name, value, size in (("position", position, len(ids)), ("target", target, model.config.vocab_size)):
        if not 0 <= value < size:
            raise ValueError(f"{name} is {value}; give one from 0 to {size - 1}")
    if steps < 1:
        raise ValueError(f"steps is {steps}; give at least 1")
    return FactModel(model, batch_size=1).attribution(FactPrompt("", ids, position), target, steps=steps)


def shared_neurons(
    attributions: Sequence[np.ndarray], *, threshold: float = 0.2, sharing: float = 0.7
) -> list[Neuron]:
    """Return the neurons that several prompts of a fact share (§3.2), those with the largest attribution first.

    Args:
      attributions: Attributions for each prompt, [N, F].
      threshold: Share of a prompt's largest attribution that a neuron must exceed.
      sharing: Share of the prompts in which it must.
    """
    stacked = np.stack(attributions)
    highest = np.maximum(stacked.max(axis=(1, 2), keepdims=True), 0.0)
    counts = np.sum(stacked > threshold * highest, axis=0)
    kept = np.argwhere(counts >= sharing * len(stacked) - 1e-9)  # 0.7 of 10 is a little more than 7
    means = stacked.mean(axis=0)
    return _sorted_by(means, (Neuron(*map(int, place)) for place in kept if counts[tuple(place)]))


def largest_neurons(scores: np.ndarray, count: int) -> list[Neuron]:
    """Return the neurons with the largest scores.

    Args:
      scores: A score for each neuron, [N, F].
      count: Number of neurons.
    """
    order = np.argsort(-scores, axis=None, kind="stable")[:count]
    return [Neuron(*map(int, np.unravel_index(place, scores.shape))) for place in order]


def neuron_factors(shape: tuple[int, int], neurons: Iterable[Neuron], factor: float) -> np.ndarray:
    """Return factors of all activations, [N, F]: 1, and another one for some neurons.

    Args:
      shape: Number of layers and of neurons in each.
      neurons: The neurons.
      factor: Their factor: 0 suppresses them, 2 amplifies them.
    """
    factors = np.ones(shape, np.float32)
    for layer, index in neurons:
        factors[layer, index] = factor
    return factors


def _sorted_by(scores: np.ndarray, neurons: Iterable[Neuron]) -> list[Neuron]:
    return sorted(neurons, key=lambda neuron: (-scores[neuron], neuron))


@partial(jax.jit, static_argnames=("structure", "name"))
def _answers(
    params: Parameters,
    inputs: dict[str, PyTree],
    positions: jax.Array,
    targets: jax.Array,
    factors: jax.Array | None,
    *,
    structure: TracedModel,
    name: str,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return probabilities and most likely tokens, [B], and activations at the positions, [N, B, F]."""

    def edit(x: jax.Array, layer: jax.Array | int) -> jax.Array:
        if factors is None:
            return x
        is_position = jnp.arange(x.shape[1])[None] == positions[:, None]
        return jnp.where(is_position[..., None], x * factors[layer, None, None, : x.shape[-1]], x)

    with record((name,), {name: edit}) as captured:
        logits = structure.logits(params, inputs)
    rows = jnp.arange(len(positions))
    scores = logits[rows, positions].astype(jnp.float32)
    probabilities = jax.nn.softmax(scores)[rows, targets]
    return probabilities, scores.argmax(axis=-1), captured[name][:, rows, positions]


@partial(jax.jit, static_argnames=("structure", "name"))
def _gradients(
    params: Parameters,
    inputs: dict[str, PyTree],
    zeros: jax.Array,
    layer: jax.Array,
    position: jax.Array,
    target: jax.Array,
    *,
    structure: TracedModel,
    name: str,
) -> jax.Array:
    """Return the gradients of the target's probability at points from 0 to one layer's activations, [S, F].

    Each row of the batch is a point; ``zeros`` are added to its activations, and say which gradients are returned.
    """
    scales = jnp.arange(1, len(zeros) + 1)[:, None] / len(zeros)

    def probability(offsets: jax.Array) -> jax.Array:
        def edit(x: jax.Array, index: jax.Array | int) -> jax.Array:
            point = x[:, position] * scales + offsets[:, : x.shape[-1]]
            return jnp.where(index == layer, x.at[:, position].set(point.astype(x.dtype)), x)

        with record(edits={name: edit}):
            logits = structure.logits(params, inputs)
        return jax.nn.softmax(logits[:, position].astype(jnp.float32))[:, target].sum()

    return jax.grad(probability)(zeros)
