"""T5's own objectives as seqio preprocessors in TensorFlow: with seqio's seeds they give T5's examples, id for id."""

from collections.abc import Callable, Mapping, Sequence

import seqio
import tensorflow as tf

from t5x_like.text.objectives.cutting import DOCUMENTS_TOGETHER, MAX_CHUNK
from t5x_like.text.objectives.denoising import Denoising
from t5x_like.text.objectives.prefix_lm import PrefixLM
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.seqio_bridge.noise_preprocessors import noise_mask, prefix, random_spans, replace_noise

__all__ = [
    "append_end",
    "denoise",
    "denoising",
    "full_lm",
    "prefix_lm",
    "random_spans",
    "span_corruption",
    "split_prefixes",
]

Steps = Sequence[Callable[..., tf.data.Dataset]]
Features = Mapping[str, seqio.Feature]


def span_corruption(objective: SpanCorruption, *, together: int = DOCUMENTS_TOGETHER) -> Steps:
    """Return the steps after tokenization.

    Args:
      objective: Span corruption.
      together: Number of documents that are concatenated; 1 for none.
    """
    return _denoising(objective.denoising, objective.raw_length, objective.lengths, together)


def denoising(objective: Denoising) -> Steps:
    """Return the steps after tokenization."""
    return _denoising(objective, objective.text_length, objective.lengths, DOCUMENTS_TOGETHER)


def _denoising(
    objective: Denoising,
    text_length: Callable[[int], int],
    lengths: Callable[[int], tuple[int, int]],
    together: int,
) -> Steps:
    def split_and_corrupt(
        dataset: tf.data.Dataset, sequence_length: Mapping[str, int], output_features: Features
    ) -> tf.data.Dataset:
        length = text_length(sequence_length["inputs"])
        needed, limit = lengths(length)[1], sequence_length["targets"]
        if limit < needed:
            raise ValueError(
                f"targets of {needed} tokens exceed the limit of {limit}; "
                f"raise the targets' length to {needed} or lower the inputs' length"
            )
        return denoise(split_tokens(dataset, length), output_features, objective)

    return [choose_chunk, concatenating(together), split_and_corrupt]


def prefix_lm(objective: PrefixLM) -> Steps:
    """Return the steps after tokenization.

    As in T5, a single last token of a document becomes an example without inputs.
    """

    def split(
        dataset: tf.data.Dataset, sequence_length: Mapping[str, int], output_features: Features
    ) -> tf.data.Dataset:
        del output_features
        texts = split_tokens(dataset, objective.text_length(sequence_length["inputs"]))
        return split_prefixes(texts, objective)

    return [choose_chunk, split]


def full_lm() -> Steps:
    """Return all steps after tokenization; rows have no end of sequence of their own."""

    def end(dataset: tf.data.Dataset, output_features: Features) -> tf.data.Dataset:
        eos = output_features["targets"].vocabulary.eos_id
        if eos is None:
            raise ValueError("the vocabulary has no end of sequence, which is needed between documents")
        return dataset.map(
            lambda example: {"targets": tf.pad(example["targets"], [[0, 1]], constant_values=eos)}
        )

    def split(dataset: tf.data.Dataset, sequence_length: Mapping[str, int]) -> tf.data.Dataset:
        return split_tokens(dataset, sequence_length["targets"])

    return [choose_chunk, end, concatenating(DOCUMENTS_TOGETHER), split]


append_end = seqio.preprocessors.append_eos_after_trim


def choose_chunk(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Keep one random chunk of each document, so that no single one dominates; drops empty documents."""

    @seqio.map_over_dataset(num_seeds=1)
    def choose(example: dict[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        tokens = example["targets"]
        num_chunks = (tf.size(tokens) + MAX_CHUNK - 1) // MAX_CHUNK
        start = MAX_CHUNK * tf.random.stateless_uniform([], seed, maxval=num_chunks, dtype=tf.int32)
        return {"targets": tokens[start : start + MAX_CHUNK]}

    return choose(  # pyright: ignore[reportCallIssue] - seqio gives the seed
        dataset.filter(lambda example: tf.size(example["targets"]) > 0)
    )


def concatenating(together: int) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """Return a step that joins every ``together`` documents into one, without a separator."""

    def concatenate(dataset: tf.data.Dataset) -> tf.data.Dataset:
        ragged = dataset.map(lambda example: example["targets"]).ragged_batch(together)
        return ragged.map(lambda documents: {"targets": documents.flat_values})

    return concatenate


def split_tokens(dataset: tf.data.Dataset, length: int) -> tf.data.Dataset:
    """Cut each document into runs of tokens; the last may be shorter.

    Args:
      dataset: Tokenized documents.
      length: Tokens of a run.
    """

    def split(example: dict[str, tf.Tensor]) -> tf.data.Dataset:
        tokens = example["targets"]
        starts = tf.range(0, tf.size(tokens), length)
        return tf.data.Dataset.from_tensor_slices(starts).map(
            lambda start: {"targets": tokens[start : start + length]}
        )

    @seqio.map_over_dataset(num_seeds=1)
    def draw(example: dict[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        del seed  # T5 draws a seed here for segments of random length, which shifts later seeds
        return example

    drawn = draw(dataset)  # pyright: ignore[reportCallIssue] - seqio gives the seed
    return drawn.flat_map(split)


def denoise(dataset: tf.data.Dataset, output_features: Features, objective: Denoising) -> tf.data.Dataset:
    """Corrupt each run of tokens, seeded by ``seqio.map_seed_manager``.

    Args:
      dataset: Runs of tokens.
      output_features: Features of the task, whose vocabulary has the sentinels.
      objective: Noise and its replacement.
    """
    vocab_size = output_features["targets"].vocabulary.vocab_size

    @seqio.map_over_dataset(num_seeds=1)
    def corrupt(example: dict[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        seeds = tf.unstack(tf.random.split(seed, 6))  # as in T5: two each for noise, inputs and targets
        tokens = example["targets"]
        is_noise = noise_mask(objective.noise, tf.size(tokens), seeds[:2])
        is_kept = tf.logical_not(is_noise)
        return {
            "inputs": replace_noise(tokens, is_noise, objective.inputs, vocab_size, seeds[2:4]),
            "targets": replace_noise(tokens, is_kept, objective.targets, vocab_size, seeds[4:]),
        }

    return corrupt(dataset)  # pyright: ignore[reportCallIssue] - seqio gives the seed


def split_prefixes(dataset: tf.data.Dataset, objective: PrefixLM) -> tf.data.Dataset:
    """Split each run of tokens in two, seeded by ``seqio.map_seed_manager``.

    Args:
      dataset: Runs of tokens.
      objective: Prefix language model.
    """

    @seqio.map_over_dataset(num_seeds=1)
    def split(example: dict[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        seeds = tf.unstack(tf.random.split(seed, 6))
        tokens = example["targets"]
        at = prefix(tf.size(tokens), seeds, objective.noise_density)
        return {"inputs": tokens[:at], "targets": tokens[at:]}

    return split(dataset)  # pyright: ignore[reportCallIssue] - seqio gives the seed
