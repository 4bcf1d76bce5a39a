"""Objectives of T5: lengths, noise masks, and statistics of examples."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.references.reference import DifferenceError, Reference, check_equal, read_json
from t5x_like.text.objectives.denoising import Denoising
from t5x_like.text.objectives.noise import (
    IidNoise,
    MaskTokens,
    RegularNoise,
    SpanNoise,
    count_noise,
    random_spans,
    uniforms_needed,
)
from t5x_like.text.objectives.objective import Lengths, Text, lengths_of
from t5x_like.text.objectives.prefix_lm import PrefixLM
from t5x_like.text.objectives.span_corruption import SpanCorruption
from t5x_like.text.seqio_bridge import preprocessors
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

FIRST_SENTINEL = 32_099
IDS = VocabularyIds(vocab_size=32_100, pad=0, eos=1, unk=2, first_sentinel=FIRST_SENTINEL, num_sentinels=100)
WIDE = Lengths(2000, 2000)
_LENGTH = 568  # tokens of the sequences whose statistics are recorded


def objective_of(name: str) -> Denoising | PrefixLM:
    """Return an objective by the reference's name, such as ``span_15_3``, whose numbers are percent and tokens.

    Raises:
      DifferenceError: We don't know the name.
    """
    if spans := re.fullmatch(r"span_(\d+)_(\d+)(_roll)?", name):
        return Denoising(
            noise=SpanNoise(
                noise_density=int(spans[1]) / 100,
                mean_noise_span_length=float(spans[2]),
                roll=spans[3] is not None,
            )
        )
    if prefix := re.fullmatch(r"prefix_lm(?:_(\d+))?", name):
        return PrefixLM(noise_density=int(prefix[1]) / 100) if prefix[1] else PrefixLM()
    if iid := re.fullmatch(r"iid_(\d+)_(\w+)(?: \(.*\))?", name):
        noise = IidNoise(noise_density=int(iid[1]) / 100)
        kinds = {
            "unique": Denoising(noise=noise),
            "mask_full": Denoising(noise=noise, inputs=MaskTokens(), targets="text"),
            "bert_style_r10": Denoising(noise=noise, inputs=MaskTokens(random_rate=0.1), targets="text"),
            "drop_drop": Denoising(noise=noise, inputs="dropped", targets="dropped"),
            "span_single_sentinel": Denoising(noise=noise, inputs="one_sentinel", targets="one_sentinel"),
        }
        if iid[2] in kinds:
            return kinds[iid[2]]
    others = {
        "deshuffle_all": Denoising(noise=IidNoise(noise_density=1.0), inputs="shuffled", targets="text"),
        "regular_mask": Denoising(noise=RegularNoise()),
        "gathered": Denoising(inputs="gathered", targets="text"),
        "random_token": Denoising(inputs="random", targets="text"),
    }
    if name not in others:
        raise DifferenceError(f"we know no objective {name!r}")
    return others[name]


def helper_lengths(file: Path) -> Iterator[Reference]:
    """Yield lengths of texts and targets for lengths of inputs."""
    for row in read_json(file)["rows"]:
        yield Reference("objectives", f"{file} {row[:3]}", lambda row=row: check_lengths(*row))


def check_lengths(
    inputs_length: int,
    noise_density: float,
    mean_noise_span_length: float,
    raw_length: int,
    targets_length: int,
) -> None:
    """Compare the arithmetic of lengths of spans."""
    objective = SpanCorruption(noise_density=noise_density, mean_noise_span_length=mean_noise_span_length)
    check_equal(objective.plan(inputs_length), (raw_length, targets_length), "lengths of text and targets")
    check_equal(objective.raw_length(inputs_length), raw_length, "length of the text")


def masks(file: Path) -> Iterator[Reference]:
    """Yield noise masks for given seeds; where the reference fails there is nothing to compare."""
    function = tf.function(preprocessors.random_spans, reduce_retracing=True)
    for row in read_json(file)["rows"]:
        if not row[-1].startswith("ERROR"):
            yield Reference("objectives", f"{file} {row[:4]}", lambda row=row: check_mask(function, *row))


def check_mask(
    function: Any,
    length: int,
    noise_density: float,
    mean_noise_span_length: float,
    seeds: Sequence[Sequence[int]],
    mask: str,
) -> None:
    """Compare a mask in TensorFlow, and in numpy for the same random numbers."""
    settings = {"noise_density": noise_density, "mean_noise_span_length": mean_noise_span_length}
    num_noise, _ = count_noise(length, **settings)
    parts = zip((num_noise - 1, max(length, 2) - num_noise - 1), seeds, strict=True)
    uniforms = np.concatenate(
        [tf.random.stateless_uniform([num], tf.constant(seed)).numpy() for num, seed in parts]
    )
    in_numpy = random_spans(length, uniforms, **settings)
    check_equal(_digits(in_numpy), mask, "mask in numpy")
    in_tensorflow = function(*map(tf.constant, (length, seeds, noise_density, mean_noise_span_length)))
    check_equal(_digits(in_tensorflow.numpy()), mask, "mask in TensorFlow")


def _digits(mask: np.ndarray) -> str:
    return "".join("01"[int(bit)] for bit in mask)


def statistics(file: Path) -> Iterator[Reference]:
    """Yield distributions of lengths over the reference's 100 sequences of 568 tokens."""
    for name, recorded in read_json(file).items():
        yield Reference(
            "objectives",
            f"{file} {name}",
            lambda name=name, recorded=recorded: check_statistics(name, recorded),
        )


def check_statistics(name: str, recorded: dict[str, Any]) -> None:
    """Compare mean lengths of inputs and targets, and the histogram of span lengths."""
    objective = objective_of(name)
    seeds = np.stack([np.full(1000, 5), np.arange(1000)], axis=1).astype(np.uint64)
    texts = [Text(np.arange(3, 3 + _LENGTH, dtype=np.int32), _LENGTH)] * 1000
    made = lengths_of(objective.make(texts, seeds, WIDE, IDS)).T - 1
    for side, lengths in zip(("inputs", "targets"), made, strict=True):
        counts = np.array(recorded[f"{side}_len_{_LENGTH}"])
        mean = (counts[:, 0] * counts[:, 1]).sum() / counts[:, 1].sum()
        spread = max(np.std(np.repeat(*counts.T)), 0.3)
        # The reference's 100 sequences are that precise.
        if abs(lengths.mean() - mean) >= 4 * spread / 10:
            raise DifferenceError(f"mean length of {side} is {lengths.mean():.2f}, recorded is {mean:.2f}")
        if len(counts) == 1:
            check_equal(sorted(set(lengths.tolist())), [int(counts[0, 0])], f"lengths of {side}")
    if "span_len_hist" in recorded and isinstance(objective, Denoising):
        _check_spans(objective, recorded)


def _check_spans(objective: Denoising, recorded: dict[str, Any]) -> None:
    """Compare the density of noise, and the share of spans of each length."""
    noise = objective.noise
    if not isinstance(noise, SpanNoise) or noise.roll:
        return
    settings = {
        "noise_density": noise.noise_density,
        "mean_noise_span_length": noise.mean_noise_span_length,
    }
    rng = np.random.default_rng(0)
    mask = random_spans(_LENGTH, rng.random((2000, uniforms_needed(_LENGTH))), **settings)
    density = recorded[f"noise_density_mean_{_LENGTH}"]
    if abs(mask.mean() - density) >= 1e-9:
        raise DifferenceError(f"density of noise is {mask.mean():.6f}, recorded is {density:.6f}")
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(int), axis=1)
    lengths = np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]
    shares = np.bincount(lengths, minlength=8)[1:8] / len(lengths)
    histogram = {int(length): count for length, count in recorded["span_len_hist"].items()}
    total = sum(histogram.values())
    for length, share in enumerate(shares, start=1):
        # Lengths are drawn: the number of recorded spans says how precise their shares are.
        wanted = histogram.get(length, 0) / total
        if abs(share - wanted) >= max(0.02, 4 * np.sqrt(share * (1 - share) / total)):
            raise DifferenceError(f"{share:.3f} of spans have {length} tokens, recorded is {wanted:.3f}")
