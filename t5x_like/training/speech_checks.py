"""Checks that recordings are read and written by models and methods of speech, and by no others."""

from collections.abc import Collection

from t5x_like.batch import SPEAKERS, SPECTROGRAMS, WAVEFORMS, DataField
from t5x_like.model.model_traits import ModelTraits
from t5x_like.training.methods.method import TrainingMethod


def check_speech(
    traits: ModelTraits, method: TrainingMethod, streams: Collection[DataField], *, mixture: str
) -> None:
    """Check that the model reads and writes what the data has, and that the method learns it.

    Args:
      traits: Properties of the model.
      method: What is minimized.
      streams: Declared streams of the data.
      mixture: Name of the data.

    Raises:
      ValueError: Model, method and data don't fit each other.
    """
    fields = {field.name: field for field in streams}
    model, what = type(traits).__name__, f"mixture {mixture!r}"
    if WAVEFORMS in fields and not traits.reads_speech:
        raise ValueError(
            f"{what} has recordings to read, and {model} for {traits.task} reads none; take SpeechT5Config with "
            "task='speech_to_text'"
        )
    if SPECTROGRAMS in fields and not traits.writes_speech:
        raise ValueError(
            f"{what} has speech to write, and {model} for {traits.task} writes none; take SpeechT5Config with "
            "task='text_to_speech'"
        )
    if traits.reads_speech and WAVEFORMS not in fields:
        raise ValueError(
            f"{model} for {traits.task} reads recordings, and {what} has none; train on a SpeechTask with "
            "direction='speech_to_text'"
        )
    if traits.writes_speech and SPECTROGRAMS not in fields:
        raise ValueError(
            f"{model} for {traits.task} writes speech, and {what} has none; train on a SpeechTask with "
            "direction='text_to_speech'"
        )
    if SPECTROGRAMS in fields and SPECTROGRAMS not in method.streams():
        raise ValueError(
            f"{what} has speech to write, which {type(method).__name__} doesn't learn; give method=SpeechSynthesis()"
        )
    for name, of_model in ((SPECTROGRAMS, "num_mel_bins"), (SPEAKERS, "speaker_dim")):
        width = getattr(traits, of_model, None)
        if name in fields and width is not None and fields[name].width != width:
            raise ValueError(
                f"{name} of {what} have {fields[name].width} numbers, and the model has {of_model}={width}; give both "
                "the same"
            )
