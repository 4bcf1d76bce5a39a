"""Weights of feed-forward layers as keys and values: a neuron reads with its key and writes its value."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from t5x_like.analysis.text_activations import stack_of
from t5x_like.model import parameters
from t5x_like.model.parameters import Parameters
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained


class Neuron(NamedTuple):
    """A neuron of a feed-forward layer.

    Attributes:
      layer: Number of the layer, from 0 on.
      index: Number of the neuron in its layer, from 0 on.
    """

    layer: int
    index: int


def activations_name(model: Pretrained) -> str:
    """Return the name of the inner activations of the stack that reads texts."""
    return f"{stack_of(model)}/feed_forward/activations"


def key_vectors(model: Pretrained) -> list[np.ndarray]:
    """Return what the neurons of each layer multiply inputs with, [F, D]; the gate's where there is one."""
    flat = _weights(model)
    name = "gate" if any("/feed_forward/gate/" in path for path in flat) else "up"
    return [np.asarray(flat[path][row]).T for path, row in _places(model, flat, name)]


def value_vectors(model: Pretrained) -> list[np.ndarray]:
    """Return what the neurons of each layer add to the residual stream, [F, D]."""
    flat = _weights(model)
    return [np.asarray(flat[path][row]) for path, row in _places(model, flat, "down")]


def output_embeddings(model: Pretrained) -> np.ndarray:
    """Return the vectors of words in the output layer, [V, D]; the word table where it is tied.

    Raises:
      ValueError: The model has no output layer over the vocabulary, or one of another width than its layers.
    """
    flat, size = _weights(model), model.config.vocab_size
    head = getattr(getattr(model.model, "heads", None), "lm_head", None)
    if head is None:
        raise ValueError(
            f"this model's task is {model.config.task}; take one with a head over the vocabulary"
        )
    own = flat.get("heads/lm_head/projection/kernel")
    tied = flat.get("decoder_embedding/tokens/table", flat["embedding/tokens/table"])
    table = np.asarray(tied if own is None else own.T)[:size]
    width = value_vectors(model)[0].shape[-1]
    if table.shape[1] != width:
        raise ValueError(
            f"words have vectors of width {table.shape[1]}, and layers write width {width}; take a model in which both "
            "are equal"
        )
    return table


def with_changed_values(model: Pretrained, changes: Mapping[Neuron, np.ndarray]) -> Parameters:
    """Return the weights of a model whose neurons write other values; the model itself stays as it is.

    >>> graphdef, _ = parameters.split(model.model)
    >>> model.model = parameters.merge(graphdef, with_changed_values(model, changes))

    Args:
      model: The model.
      changes: What is added to the value of each neuron, [D].

    Raises:
      ValueError: There is no such neuron, or several layers share its weights.
    """
    flat = _weights(model)
    places = _places(model, flat, "down")
    if changes and len(set(places)) < len(places):
        raise ValueError("layers of this model share their feed-forward weights; a change would be in all")
    sizes = [flat[path].shape[1] for path, _ in places]
    kernels: dict[str, np.ndarray] = {}
    for neuron, change in changes.items():
        path, row = places[checked_neuron(neuron, sizes).layer]
        kernel = kernels.setdefault(path, np.array(flat[path]))
        kernel[row, neuron.index] += change
    return parameters.unflatten({**flat, **kernels})


def checked_neuron(neuron: Neuron, sizes: Sequence[int]) -> Neuron:
    """Return a neuron.

    Args:
      neuron: The neuron.
      sizes: Number of neurons in each layer.

    Raises:
      ValueError: There is no such neuron.
    """
    if 0 <= neuron.layer < len(sizes) and 0 <= neuron.index < sizes[neuron.layer]:
        return neuron
    raise ValueError(
        f"there is no neuron {neuron.index} in layer {neuron.layer}; there are {len(sizes)} layers of "
        f"{' or '.join(map(str, sorted(set(sizes))))} neurons, each counted from 0"
    )


def _weights(model: Pretrained) -> dict[str, Any]:
    return parameters.flatten(parameters.split(model.model)[1])


def _places(model: Pretrained, flat: Mapping[str, Any], name: str) -> list[tuple[str, int]]:
    """Return the path and the row of each layer's kernel.

    Raises:
      ValueError: A layer has no feed-forward layer of its own, but a mixture of experts.
    """
    stack_name = stack_of(model)
    stack = getattr(model.model, stack_name)
    sharing, places = stack.config.sharing, {}
    for slot, layers in enumerate(stack.layer_pattern.slots):
        path = f"{stack_name}/layers/{slot}/feed_forward/{name}/kernel"
        if path not in flat:
            raise ValueError(
                f"layer {layers[0]} has no plain feed-forward layer, whose neurons are the same for all tokens; take "
                "a model without a mixture of experts"
            )
        for row, layer in enumerate(layers):
            places[layer] = (path, row if sharing is None else sharing.feed_forward[layer])
    return [places[layer] for layer in range(len(places))]
