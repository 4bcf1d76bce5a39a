"""Analyses: attribution of an answer to neurons, and measures and cures of vectors."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import t5x_like
from benchmarks.references.models import read_arrays
from benchmarks.references.reference import DifferenceError, Reference, check_close, check_equal, read_json
from t5x_like.analysis.fact_prompts import FactPrompt
from t5x_like.analysis.feed_forward_weights import Neuron
from t5x_like.analysis.knowledge_attribution import (
    FactModel,
    knowledge_attribution,
    largest_neurons,
    neuron_factors,
)
from t5x_like.analysis.vectors import alignment, mean_cosine, uniformity, whitening, without_components

_ATOL = 1e-5
_FACTORS = {"probability": 1.0, "suppressed": 0.0, "amplified": 2.0}
_REMOVED, _WHITENED = re.compile(r"out_removed_(\d+)"), re.compile(r"out_whitened(?:_(\d+))?_gram")
_MEASURES = ("mean_cosine", "alignment", "uniformity")


def attribution(directory: Path) -> Iterator[Reference]:
    """Yield the attributions of an answer, and its probability with the highest neurons changed."""
    yield Reference("attribution", f"{directory} attribution", lambda: check_attribution(directory))
    for name in [name for name in _FACTORS if name in read_json(directory / "results.json")]:
        yield Reference("attribution", f"{directory} {name}", partial(check_probability, directory, name))


def vectors(directory: Path) -> Iterator[Reference]:
    """Yield measures of vectors, and the vectors after each cure."""
    for name in _MEASURES:
        if name in read_json(directory / "results.json"):
            yield Reference("vectors", f"{directory} {name}", partial(check_measure, directory, name))
    for name in read_arrays(directory / "io.npz"):
        if name.startswith("out_"):
            yield Reference("vectors", f"{directory} {name}", partial(check_cure, directory, name))


def check_attribution(directory: Path) -> None:
    """Compare the attributions of all neurons, and which are highest."""
    io, recorded = read_arrays(directory / "io.npz"), read_json(directory / "results.json")
    computed = knowledge_attribution(
        _model_of(directory, recorded),
        io["in_input_ids"],
        recorded["position"],
        recorded["target"],
        steps=recorded["steps"],
    )
    check_close(computed, io["out_attribution"], "attribution", atol=_ATOL)
    if "out_top" in io:
        highest = [list(neuron) for neuron in largest_neurons(computed, len(io["out_top"]))]
        check_equal(highest, io["out_top"].tolist(), "highest neurons")


def check_probability(directory: Path, name: str) -> None:
    """Compare the probability of the answer with the recorded highest neurons changed.

    Args:
      directory: Folder of the reference.
      name: "probability", "suppressed" or "amplified".
    """
    io, recorded = read_arrays(directory / "io.npz"), read_json(directory / "results.json")
    highest = [Neuron(*map(int, neuron)) for neuron in io["out_top"]]
    factors = neuron_factors(io["out_attribution"].shape, highest, _FACTORS[name])
    prompt = FactPrompt("", io["in_input_ids"][0].astype(np.int32), recorded["position"])
    model = _model_of(directory, recorded)
    (answer,) = FactModel(model, batch_size=1).answers([prompt], [recorded["target"]], factors)
    check_close(answer.probability, recorded[name], name, atol=_ATOL)


def check_measure(directory: Path, name: str) -> None:
    """Compare a measure of the vectors, or of their pairs.

    Args:
      directory: Folder of the reference.
      name: "mean_cosine", "alignment" or "uniformity".
    """
    io = read_arrays(directory / "io.npz")
    rows = io["in_vectors"]
    if name == "alignment":
        computed = alignment(*(rows[column] for column in io["in_pairs"].T))
    else:
        computed = {"mean_cosine": mean_cosine, "uniformity": uniformity}[name](rows)
    check_close(computed, read_json(directory / "results.json")[name], name, atol=_ATOL)


def check_cure(directory: Path, name: str) -> None:
    """Compare vectors without components, or the inner products of whitened ones, whose signs are arbitrary.

    Args:
      directory: Folder of the reference.
      name: ``out_removed_K``, ``out_whitened_gram``, or ``out_whitened_K_gram`` for K dimensions.
    """
    io = read_arrays(directory / "io.npz")
    rows = io["in_vectors"]
    if removed := _REMOVED.fullmatch(name):
        computed = without_components(rows, int(removed[1]))(rows)
    elif whitened := _WHITENED.fullmatch(name):
        cured = whitening(rows, int(whitened[1]) if whitened[1] else None)(rows)
        computed = cured @ cured.T
    else:
        raise DifferenceError(f"{name} is nothing that we compute")
    check_close(computed, io[name], name, atol=_ATOL)


def _model_of(directory: Path, recorded: dict[str, Any]) -> Any:
    """Return the model in the folder, or in another one that the recording names."""
    return t5x_like.from_pretrained(directory / recorded.get("model", "model"))
