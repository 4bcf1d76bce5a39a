"""Objectives as seqio preprocessors, from tokenized documents (``targets``) to examples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from t5x_like.text.objectives.causal_lm import FullLM
from t5x_like.text.objectives.cutting import DOCUMENTS_TOGETHER, lay_window, texts_of
from t5x_like.text.objectives.denoising import ALL_SHUFFLED, Denoising, Deshuffling
from t5x_like.text.objectives.objective import Example, Lengths, Objective
from t5x_like.text.objectives.prefix_lm import PrefixLM
from t5x_like.text.objectives.random_bits import seeds_of_rows
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.seqio_bridge import preprocessors
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds, ids_of

Features = Mapping[str, seqio.Feature]
Steps = Sequence[Callable[..., tf.data.Dataset]]


_T5_STEPS: Mapping[type, Callable[..., Steps]] = {
    SpanCorruption: preprocessors.span_corruption,
    Denoising: preprocessors.denoising,
    PrefixLM: preprocessors.prefix_lm,
    Deshuffling: lambda _: preprocessors.denoising(ALL_SHUFFLED),
}


def seqio_preprocessors(objective: Objective) -> Steps:
    """Return the preprocessors of an objective.

    T5's own objectives use T5's pipeline in TensorFlow: with seqio's seeds they give T5's own examples, id for id.
    Others run the NumPy code that training uses.
    """
    for kind, steps_of in _T5_STEPS.items():
        if isinstance(objective, kind):
            return [*steps_of(objective), preprocessors.append_end]
    if isinstance(objective, FullLM):
        return preprocessors.full_lm()
    return numpy_preprocessors(objective)


def numpy_preprocessors(objective: Objective) -> Steps:
    """Run an objective's NumPy code over windows of 128 documents, seeded by seqio.

    Documents have ``targets``, and ``sentence_ends`` and ``spans`` if the objective needs them.
    """

    def make_examples(
        dataset: tf.data.Dataset, sequence_length: Mapping[str, int], output_features: Features
    ) -> tf.data.Dataset:
        lengths = Lengths(sequence_length.get("inputs", 0), sequence_length.get("targets", 0))
        ids = ids_of(output_features["targets"].vocabulary)
        objective.check(lengths, ids)
        seeded = _with_seeds(dataset)

        def rows() -> Iterator[dict[str, np.ndarray]]:
            documents: Iterator[Any] = iter(seeded.as_numpy_iterator())
            while window := list(islice(documents, DOCUMENTS_TOGETHER)):
                for example in _of_window(window, objective, lengths, ids):
                    yield _as_features(example, objective.spec.fields)

        return tf.data.Dataset.from_generator(rows, output_signature=_signature(objective))

    return [make_examples]


def _with_seeds(dataset: tf.data.Dataset) -> tf.data.Dataset:
    @seqio.map_over_dataset(num_seeds=1)
    def draw(document: dict[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        return {**document, "seed": seed}

    return draw(dataset)  # pyright: ignore[reportCallIssue] - seqio gives the seed


def _of_window(
    documents: Sequence[Mapping[str, np.ndarray]], objective: Objective, lengths: Lengths, ids: VocabularyIds
) -> list[Example]:
    seeds = np.stack([document["seed"] for document in documents]).astype(np.uint64)
    window = lay_window(
        [{"tokens": document["targets"], **document} for document in documents],
        chunks=seeds[:, 0] ^ seeds[:, 1],
        eos=ids.eos if objective.spec.ends_documents else None,
    )
    cuts = objective.cut(window, lengths, seeds[0])
    numbers = np.arange(len(cuts.starts))
    texts = texts_of(window, cuts, numbers)
    return objective.make(texts, seeds_of_rows(seeds[0], numbers), lengths, ids)


_TYPES: dict[str, Any] = {"weights": tf.float32, "label": tf.int32}
_SCALARS = ("label", "continues")


def _as_features(example: Example, fields: Sequence[str]) -> dict[str, np.ndarray]:
    present = {name: value for name, value in example._asdict().items() if value is not None}
    return {name: present[name] for name in ("inputs", "targets", *fields) if name in present}


def _signature(objective: Objective) -> dict[str, tf.TensorSpec]:
    spec = objective.spec
    streams = ("targets",) if spec.layout == "decoder" else ("inputs", "targets")
    return {
        name: tf.TensorSpec([] if name in _SCALARS else [None], _TYPES.get(name, tf.int32))  # pyright: ignore[reportArgumentType]
        for name in dict.fromkeys((*streams, *spec.fields))
    }
