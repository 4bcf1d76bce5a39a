"""Recordings in reports: players and spectrograms that need no file next to the page."""

import base64
import io

import markupsafe
import numpy as np

from t5x_like.audio.audio_files import read_audio
from t5x_like.audio.audio_options import AudioOptions
from t5x_like.audio.feature_extractor import SpeechT5FeatureExtractor
from t5x_like.io.files import as_path

_ENDINGS = (".wav", ".flac")
_MAX_SECONDS = 30.0  # of a recording in a page: 1.3 MB


def played(text: object) -> markupsafe.Markup | None:
    """Return a player and a spectrogram for the path of a recording; ``None`` for other texts.

    Args:
      text: Input of a row. A file that is no longer there, can't be read or is too long for a page has no player.
    """
    path = str(text)
    if not path.lower().endswith(_ENDINGS) or not as_path(path).is_file():
        return None
    try:
        waveform = read_audio(path, AudioOptions(channels="mean", silence="warn"))
    except ValueError:
        return None
    if len(waveform.samples) > _MAX_SECONDS * waveform.sampling_rate:
        return None
    kind = "flac" if path.lower().endswith(".flac") else "wav"
    sound = base64.b64encode(as_path(path).read_bytes()).decode()
    return markupsafe.Markup(
        '<audio controls preload="none" src="data:audio/{};base64,{}"></audio>{}<br><small>{}</small>'
    ).format(kind, sound, spectrogram_image(SpeechT5FeatureExtractor().log_mel(waveform.samples)), path)


def spectrogram_image(log_mel: np.ndarray) -> markupsafe.Markup:
    """Return a picture of a spectrogram: time from left to right, low frequencies at the bottom.

    Args:
      log_mel: Logarithms, float32 [frames, mel bins].
    """
    from matplotlib.image import imsave  # loads when a recording is drawn

    picture = io.BytesIO()
    imsave(picture, log_mel.T, cmap="magma", origin="lower", format="png")
    image = base64.b64encode(picture.getvalue()).decode()
    return markupsafe.Markup('<br><img alt="spectrogram" height="80" src="data:image/png;base64,{}">').format(
        image
    )
