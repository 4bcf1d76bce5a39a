"""Models of speech in Hugging Face's format, with outputs, gradients, texts and spectrograms of transformers."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np

from benchmarks.references.models import ModelFolder
from benchmarks.references.reference import Reference, check_close, check_equal


def keeping_all_units() -> AbstractContextManager[object]:
    """Return a context in which the net before a decoder of spectrograms keeps all its units."""
    return mock.patch("jax.random.bernoulli", lambda _key, _rate, shape: jnp.ones(shape, bool))


def model(directory: Path) -> Iterator[Reference]:
    """Yield the references of a model: its outputs, gradients and what it generates, as far as they are recorded."""
    folder = ModelFolder(directory)

    def reference(part: str, compare: Callable[[], None]) -> Reference:
        def compare_drawn() -> None:
            # Programs are traced at the first call, and keep what they draw by.
            with keeping_all_units() if folder.meta.get("keeps_all_units") else nullcontext():
                compare()

        return Reference("models", f"{directory} {part}", compare_drawn)

    yield reference("outputs", folder.check_outputs)
    if "grad_global_norm" in folder.io:
        yield reference("gradients", lambda: folder.check_gradients(folder.arguments))
    if "gen_lengths" in folder.io:
        yield reference("generation", lambda: check_speech(folder))
    elif folder.meta.get("generation"):
        yield reference("generation", lambda: check_texts(folder))
    elif "gen_ids" in folder.io:
        yield reference("generation", lambda: check_greedy(folder))


def _arguments(folder: ModelFolder) -> dict[str, Any]:
    names = ("input_values", "input_ids", "attention_mask", "speaker_embeddings")
    return {name: array for name, array in folder.inputs.items() if name in names}


def check_speech(folder: ModelFolder) -> None:
    """Compare spectrograms of several rows, and their lengths."""
    settings = folder.meta["generation"]
    frames, lengths = folder.pretrained.generate_speech(
        **_arguments(folder), **settings, return_output_lengths=True
    )
    check_equal(lengths, folder.io["gen_lengths"].tolist(), "lengths")
    check_close(frames, folder.io["gen_spectrogram"], "spectrogram")


def check_texts(folder: ModelFolder) -> None:
    """Compare ids, and the scores of beams, by several settings."""
    for run, settings in folder.meta["generation"].items():
        answers = folder.pretrained.generate(**_arguments(folder), **settings, return_dict_in_generate=True)
        check_equal(np.asarray(answers.sequences).tolist(), folder.io[f"gen_{run}"].tolist(), f"ids of {run}")
        if f"gen_{run}_scores" in folder.io:
            scores = folder.io[f"gen_{run}_scores"]
            check_close(answers.sequences_scores, scores, f"scores of {run}", atol=0.0, rtol=2e-5)


def check_greedy(folder: ModelFolder) -> None:
    """Compare greedy ids of the first inputs, without an end token."""
    wanted = folder.io["gen_ids"]
    arguments = {name: array[: len(wanted)] for name, array in _arguments(folder).items()}
    got = folder.pretrained.generate(**arguments, max_new_tokens=wanted.shape[1] - 1, eos_token_id=[])
    check_equal(np.asarray(got).tolist(), wanted.tolist(), "greedy ids")
