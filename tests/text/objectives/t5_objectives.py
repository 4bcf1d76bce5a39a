"""Names, vocabulary and examples shared by tests of T5's objectives."""

import json

import numpy as np

from t5x_like.text.objectives.denoising import Denoising
from t5x_like.text.objectives.noise import IidNoise, MaskTokens, RegularNoise, SpanNoise
from t5x_like.text.objectives.prefix_lm import PrefixLM
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

FIRST_SENTINEL = 32_099
IDS = VocabularyIds(32_100, 0, 1, None, 2, None, None, None, FIRST_SENTINEL, 100, None)


def _spans(noise_density, mean_noise_span_length, **more):
    return Denoising(
        noise=SpanNoise(noise_density=noise_density, mean_noise_span_length=mean_noise_span_length, **more)
    )


DENOISING = {
    "span_15_3": _spans(0.15, 3.0),
    "span_15_3_roll": _spans(0.15, 3.0, roll=True),
    "span_50_3": _spans(0.5, 3.0),
    "span_15_8": _spans(0.15, 8.0),
    "span_50_8": _spans(0.5, 8.0),
    "span_15_64": _spans(0.15, 64.0),
    "span_50_64": _spans(0.5, 64.0),
    "iid_15_unique": Denoising(),
    "iid_15_mask_full (MASS-style)": Denoising(inputs=MaskTokens(), targets="text"),
    "iid_15_bert_style_r10 (random_prob .1)": Denoising(inputs=MaskTokens(random_rate=0.1), targets="text"),
    "iid_15_drop_drop": Denoising(inputs="dropped", targets="dropped"),
    "iid_15_span_single_sentinel": Denoising(inputs="one_sentinel", targets="one_sentinel"),
    "deshuffle_all": Denoising(noise=IidNoise(noise_density=1.0), inputs="shuffled", targets="text"),
    "regular_mask": Denoising(noise=RegularNoise()),
    "gathered": Denoising(inputs="gathered", targets="text"),
    "random_token": Denoising(inputs="random", targets="text"),
}
PREFIXES = {"prefix_lm": PrefixLM(), "prefix_lm_25": PrefixLM(noise_density=0.25)}


def read(golden, name):
    return json.loads((golden / "objectives" / name).read_text())


def sequences_for(reference, name):
    """Return the sequences that the reference corrupted: some objectives skipped those of one token."""
    skips = reference["objectives"][name]["skips_len_1"]
    return [tokens for tokens in reference["sequences"] if len(tokens) > 1 or not skips]


def masks_of(reference, name):
    return [
        np.array([digit == "1" for digit in mask]) for mask in reference["objectives"][name]["noise_masks"]
    ]


def datasets_of(rows):
    import tensorflow as tf

    return tf.data.Dataset.from_generator(
        lambda: ({"targets": tokens} for tokens in rows),
        output_signature={"targets": tf.TensorSpec([None], tf.int32)},
    )


def features_of(reference):
    import seqio

    vocabulary = seqio.PassThroughVocabulary(size=reference["vocab_size"], eos_id=1)
    return {"targets": seqio.Feature(vocabulary)}


def task_examples(reference, steps, lengths, *, cached):
    """Return all examples of a seqio task with these steps after two others (the reference's tokenization)."""
    import seqio

    def documents(split, shuffle_files, seed=None):
        return datasets_of(reference["docs"])

    def untouched(dataset):
        return dataset

    vocabulary = seqio.PassThroughVocabulary(size=32_100, eos_id=1)
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
    found = task.get_dataset(lengths, "train", shuffle=False, seed=reference["seqio_task_seed"])
    return list(found.as_numpy_iterator())


def make_one(objective, tokens, lengths, ids=IDS, seed=(1, 2), label=-1):
    from t5x_like.text.objectives.objective import Text

    text = Text(np.asarray(tokens, np.int32), len(tokens), label)
    (example,) = objective.make([text], np.array([seed], np.uint64), lengths, ids)
    return example


def assert_rows_are_independent(objective, row_lengths, lengths, ids=IDS):
    """Assert that an example depends only on its own text and seed, and changes with the seed."""
    from t5x_like.text.objectives.objective import Text

    texts = [Text(np.arange(3, 3 + length, dtype=np.int32), length) for length in row_lengths]
    seeds = np.stack([np.full(len(texts), 7), np.arange(len(texts))], axis=1).astype(np.uint64)
    together = objective.make(texts, seeds, lengths, ids)
    for row, example in enumerate(together):
        (alone,) = objective.make(texts[row : row + 1], seeds[row : row + 1], lengths, ids)
        for side, other in zip(alone[:2], example[:2], strict=True):
            np.testing.assert_array_equal(side, other)
    pairs = zip(together[0][:2], together[1][:2], strict=True)
    assert row_lengths[0] == row_lengths[1]
    assert not all(np.array_equal(*pair) for pair in pairs)
