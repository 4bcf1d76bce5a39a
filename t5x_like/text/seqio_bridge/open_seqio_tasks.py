"""Opening of tasks that run seqio's own pipelines: those registered with seqio only, and all that are streamed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from t5x_like.text.batches.example_sources import OpenedTask, PairSource
from t5x_like.text.batches.in_memory import InMemoryExamples, RaggedArrayBuilder, TooManyTokens
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.stream_source import StreamSource
from t5x_like.text.fields import token_dtype
from t5x_like.text.objectives.objective import Example, ExampleSpec, Lengths
from t5x_like.text.tasks.pairs import PAIRS

if TYPE_CHECKING:
    import seqio


def open_seqio_task(task: "seqio.Task", config: LoaderConfig) -> OpenedTask:
    """Open a task's inputs and targets from its own pipeline, in memory if they fit.

    Args:
      task: Task of seqio.
      config: Configuration of the loader.

    Raises:
      ValueError: The task has no examples or no targets.
    """
    name = task.name
    if "targets" not in task.output_features:
        raise ValueError(f"task {name!r} has no targets, only {', '.join(task.output_features)}")
    vocabularies = [feature.vocabulary for feature in task.output_features.values()]
    if any(vocabulary != vocabularies[0] for vocabulary in vocabularies):
        raise ValueError(f"task {name!r} has another vocabulary for inputs than for targets; a run has one")
    lengths = Lengths(config.inputs_length, config.targets_length)
    try:
        held = _hold(task, config, lengths)
    except TooManyTokens:
        return open_seqio_stream(task, PAIRS, config)
    pairs = PairSource(name, held, lengths, end=None, seed=config.seed, shuffle=config.shuffle)
    return OpenedTask(pairs, PAIRS, vocabularies[0])


def open_seqio_stream(task: "seqio.Task", spec: ExampleSpec, config: LoaderConfig) -> OpenedTask:
    """Open a task as a stream that is read in order, epoch by epoch.

    Args:
      task: The task.
      spec: Properties of its examples.
      config: Configuration of the loader.

    Raises:
      ValueError: The loader has workers, which can't share a stream.
    """
    name = task.name
    if config.num_workers:
        raise ValueError(
            f"task {name!r} is read as a stream, which num_workers={config.num_workers} processes can't share; "
            "tokenize it once with t5x-like cache, or set num_workers=0"
        )
    # All features of an encoder's or decoder's single stream have its length.
    lengths = {
        "encoder": Lengths(config.inputs_length, config.inputs_length),
        "decoder": Lengths(config.targets_length, config.targets_length),
        "encoder_decoder": Lengths(config.inputs_length, config.targets_length),
    }[spec.layout]

    def open_epoch(epoch: int) -> Iterator[Example]:
        return seqio_examples(task, config.split, lengths, seed=config.seed + epoch, shuffle=config.shuffle)

    return OpenedTask(StreamSource(name, open_epoch), spec, task.output_features["targets"].vocabulary)


def _hold(task: "seqio.Task", config: LoaderConfig, lengths: Lengths) -> InMemoryExamples:
    vocab_size = task.output_features["targets"].vocabulary.vocab_size
    dtype = token_dtype(vocab_size)
    builders = {name: RaggedArrayBuilder(dtype) for name in ("inputs", "targets")}
    for example in seqio_examples(task, config.split, lengths, seed=config.seed, shuffle=False):
        for name, builder in builders.items():
            builder.extend([getattr(example, name)])
        if sum(builder.num_tokens for builder in builders.values()) > config.max_tokens_in_memory:
            raise TooManyTokens
    held = InMemoryExamples({name: builder.build() for name, builder in builders.items()})
    if not len(held):
        raise ValueError(f"task {task.name!r}, split {config.split!r}: no examples")
    return held


def seqio_examples(
    task: "seqio.Task", split: str, lengths: Lengths, *, seed: int, shuffle: bool
) -> Iterator[Example]:
    """Yield a task's examples from its own pipeline, cut to the lengths; missing inputs are empty.

    Args:
      task: The task.
      split: Name of the split.
      lengths: Tokens of inputs and targets.
      seed: Seed of the pipeline.
      shuffle: Let seqio shuffle.
    """
    from t5x_like.text.seqio_bridge.data_sources import token_examples  # imports TensorFlow

    limits = {name: length for name, length in lengths._asdict().items() if name in task.output_features}
    dataset = task.get_dataset(limits, split, shuffle=shuffle, seed=seed)
    for row in token_examples(task, dataset):
        present = {name: row[name] for name in Example._fields if name in row}
        cut = {
            name: present.get(name, np.zeros(0))[:limit].astype(np.int32) for name, limit in limits.items()
        }
        yield Example(**{"inputs": np.zeros(0, np.int32), **present, **cut})
