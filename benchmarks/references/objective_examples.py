"""Examples of T5's objectives: of given seeds and masks, and of whole seqio tasks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from benchmarks.references.objectives import IDS, WIDE, objective_of
from benchmarks.references.reference import DifferenceError, Reference, check_equal, read_json
from t5x_like.text.objectives.causal_lm import FullLM
from t5x_like.text.objectives.denoising import Denoising
from t5x_like.text.objectives.prefix_lm import PrefixLM
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.seqio_bridge import preprocessors
from t5x_like.text.seqio_bridge.data_sources import numpy_examples
from t5x_like.text.seqio_bridge.objective_preprocessors import seqio_preprocessors

_MANY_SENTINELS = replace(IDS, num_sentinels=2000)

# Words that replace noise are drawn.
_WORDS_CHANGE = ("random", "gathered", "deshuffle", "bert_style")


def examples(file: Path) -> Iterator[Reference]:
    """Yield corrupted sequences of each objective: for T5's seeds through seqio, for its masks as in training."""
    content = read_json(file)
    for name in content["objectives"]:
        yield Reference(
            "objectives", f"{file} {name} for seeds", lambda name=name: check_seeded_examples(content, name)
        )
        if content["objectives"][name].get("noise_masks"):
            yield Reference(
                "objectives",
                f"{file} {name} for masks",
                lambda name=name: check_masked_examples(content, name),
            )


def sequences_for(content: dict[str, Any], name: str) -> list[list[int]]:
    """Return the sequences that the reference corrupted: some objectives skipped those of one token."""
    skips = content["objectives"][name]["skips_len_1"]
    return [tokens for tokens in content["sequences"] if len(tokens) > 1 or not skips]


def check_seeded_examples(content: dict[str, Any], name: str) -> None:
    """Compare the examples that seqio's pipeline makes for the reference's seed."""
    objective = objective_of(name)
    sequences = _dataset_of(sequences_for(content, name))
    vocabulary = seqio.PassThroughVocabulary(size=content["vocab_size"], eos_id=1)
    with seqio.map_seed_manager(content["map_seed"]):
        if isinstance(objective, PrefixLM):
            dataset = preprocessors.split_prefixes(sequences, objective)
        else:
            dataset = preprocessors.denoise(sequences, {"targets": seqio.Feature(vocabulary)}, objective)
        _check_examples(list(numpy_examples(dataset)), content["objectives"][name]["out"])


def check_masked_examples(content: dict[str, Any], name: str) -> None:
    """Compare the examples of training for the reference's masks."""
    objective = objective_of(name)
    if isinstance(objective, PrefixLM):
        return
    recorded = content["objectives"][name]
    seeds = np.array([[1, 2]], np.uint64)
    rows = zip(sequences_for(content, name), recorded["noise_masks"], recorded["out"], strict=True)
    for number, (tokens, digits, wanted) in enumerate(rows, start=1):
        mask = np.array([digit == "1" for digit in digits])
        inputs, targets = objective.corrupt(
            np.array([tokens], np.int32), mask[None], seeds, WIDE, _MANY_SENTINELS
        )
        check_equal(targets[0].tolist(), [*wanted["targets"], 1], f"targets of sequence {number}")
        if not any(part in name for part in _WORDS_CHANGE):
            check_equal(inputs[0].tolist(), [*wanted["inputs"], 1], f"inputs of sequence {number}")
        else:
            kept = ~np.append(mask, False)
            unchanged = [*np.array(wanted["inputs"], int)[~mask], 1]
            check_equal(inputs[0][kept].tolist(), unchanged, f"kept inputs of sequence {number}")
            check_equal(len(inputs[0]), len(tokens) + 1, f"length of the inputs of sequence {number}")


def task_examples(file: Path) -> Iterator[Reference]:
    """Yield all examples of whole seqio tasks, with and without a cache."""
    content = read_json(file)
    for name, recorded in content["tasks"].items():
        yield Reference(
            "objectives",
            f"{file} {name}",
            lambda name=name, recorded=recorded: check_task(content, name, recorded),
        )


def check_task(content: dict[str, Any], name: str, recorded: dict[str, Any]) -> None:
    """Compare all examples of a task, whose name says its objective and where it is cached."""
    objective, _, place = name.partition("/")
    steps = {
        "iid_denoising": lambda: seqio_preprocessors(Denoising()),
        "prefix_lm": lambda: seqio_preprocessors(PrefixLM()),
        "full_lm": lambda: seqio_preprocessors(FullLM()),
    }
    if objective.startswith("span_corruption"):
        together = 1 if "nomerge" in objective else 128
        made = preprocessors.span_corruption(SpanCorruption(), together=together)
        made = [*made, preprocessors.append_end]
    elif objective in steps:
        made = steps[objective]()
    else:
        raise DifferenceError(f"we know no task {objective!r}")
    examples = examples_of_task(content, made, recorded["sequence_length"], cached=place.startswith("with"))
    _check_examples(examples, recorded["out"])


def examples_of_task(
    content: dict[str, Any], steps: Sequence[Any], lengths: dict[str, int], *, cached: bool
) -> list[dict[str, np.ndarray]]:
    """Return all examples of a seqio task with these steps after two others (the reference's tokenization)."""

    def documents(split: str, shuffle_files: bool, seed: int | None = None) -> tf.data.Dataset:
        del split, shuffle_files, seed
        return _dataset_of(content["docs"])

    def untouched(dataset: tf.data.Dataset) -> tf.data.Dataset:
        return dataset

    vocabulary = seqio.PassThroughVocabulary(size=IDS.vocab_size, eos_id=1)
    task = seqio.Task(
        "golden_task",
        seqio.FunctionDataSource(documents, splits=["train"]),
        output_features={
            "inputs": seqio.Feature(vocabulary, add_eos=True, required=False),
            "targets": seqio.Feature(vocabulary, add_eos=True),
        },
        preprocessors=[
            untouched,
            untouched,
            *([seqio.CacheDatasetPlaceholder()] if cached else []),
            *steps,
        ],
    )
    dataset = task.get_dataset(lengths, "train", shuffle=False, seed=content["seqio_task_seed"])
    return list(numpy_examples(dataset))


def _dataset_of(rows: Sequence[Sequence[int]]) -> tf.data.Dataset:
    return tf.data.Dataset.from_generator(
        lambda: ({"targets": tokens} for tokens in rows),
        output_signature={"targets": tf.TensorSpec([None], tf.int32)},
    )


def _check_examples(
    examples: Sequence[dict[str, np.ndarray]], wanted: Sequence[dict[str, list[int]]]
) -> None:
    check_equal(len(examples), len(wanted), "number of examples")
    for number, (own, recorded) in enumerate(zip(examples, wanted, strict=True), start=1):
        check_equal(sorted(own), sorted(recorded), f"features of example {number}")
        for feature, ids in recorded.items():
            check_equal(own[feature].tolist(), ids, f"{feature} of example {number}")
