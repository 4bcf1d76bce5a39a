"""WAV and FLAC files as 16 kHz mono samples, and samples as WAV files; damage is named with its file."""

import io
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from t5x_like.audio.audio_options import AudioHeader, AudioOptions, Waveform
from t5x_like.audio.sample_checks import check_samples
from t5x_like.audio.wav_chunks import missing_bytes
from t5x_like.io.extra_libraries import extra_library
from t5x_like.io.files import PathLike, as_path, write_bytes
from t5x_like.message_sentences import sentence

_log = logging.getLogger(__name__)

_FORMATS = {"WAV": "WAV", "WAVEX": "WAV", "RF64": "WAV", "FLAC": "FLAC"}  # libsndfile's names
_MAX_FRAMES = 2**62  # libsndfile's largest value means that the length is unknown
_AGAIN = "fetch or record it again"


def read_header(path: PathLike, options: AudioOptions | None = None) -> AudioHeader:
    """Read the properties of an audio file without decoding its samples.

    Args:
      path: WAV or FLAC file, local or in a bucket.
      options: Samples that are needed; a file that can't give them is refused.

    Raises:
      ValueError: There is no such file, it is empty, cut short or no WAV or FLAC file, or the options refuse it.
    """
    with _opened(os.fspath(path)) as sound:
        header = _header(os.fspath(path), sound)
    _check_header(header, options or AudioOptions())
    return header


def read_audio(path: PathLike, options: AudioOptions | None = None) -> Waveform:
    """Read an audio file as one channel of the wanted sampling rate; warnings are also logged.

    Args:
      path: WAV or FLAC file, local or in a bucket.
      options: Samples that are needed; by default 16 kHz mono.

    Raises:
      ValueError: As ``read_header``; or samples are damaged, not finite, or silent.
    """
    waveform = decode_audio(path, options)
    for warning in waveform.warnings:
        _log.warning("%s: %s", os.fspath(path), warning)
    return waveform


def decode_audio(path: PathLike, options: AudioOptions | None = None) -> Waveform:
    """Read an audio file as ``read_audio`` does, without logging the warnings.

    Args:
      path: WAV or FLAC file, local or in a bucket.
      options: Samples that are needed; by default 16 kHz mono.

    Raises:
      ValueError: As ``read_audio``.
    """
    options, name = options or AudioOptions(), os.fspath(path)
    with _opened(name) as sound:
        header = _header(name, sound)
        _check_header(header, options)
        samples_TC = sound.read(dtype="float32", always_2d=True)
    if len(samples_TC) < header.num_frames:
        raise ValueError(
            f"{name} is cut short: it announces {header.num_frames:,} samples and has {len(samples_TC):,}; {_AGAIN}"
        )
    try:
        warnings = check_samples(samples_TC, may_be_silent=options.silence == "warn")
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    samples = samples_TC.mean(axis=1, dtype=np.float32)
    if header.sampling_rate != options.sampling_rate:
        samples = resample(samples, header.sampling_rate, options.sampling_rate)
        warnings = (
            *warnings,
            f"it was resampled from {header.sampling_rate:,} to {options.sampling_rate:,} Hz",
        )
    return Waveform(samples, options.sampling_rate, warnings)


def resample(samples: np.ndarray, source_rate: int, target_rate: int) -> np.ndarray:
    """Return samples at another sampling rate, by soxr at its high quality.

    Args:
      samples: float32 [samples].
      source_rate: Their samples per second.
      target_rate: Wanted samples per second.

    Raises:
      ValueError: The extra ``speech`` isn't installed.
    """
    soxr = extra_library("soxr", extra="speech", needed_by="resampling of audio")
    return soxr.resample(samples, source_rate, target_rate, quality="HQ")


def write_wav(path: PathLike, samples: np.ndarray, sampling_rate: int) -> None:
    """Write one channel as a WAV file of 16 bits, atomically; samples beyond -1 and 1 are clipped, with a warning.

    Args:
      path: File, local or in a bucket.
      samples: Samples, float [samples].
      sampling_rate: Samples per second.

    Raises:
      ValueError: There are no samples, or some are not finite; or the extra ``speech`` isn't installed.
    """
    if samples.ndim != 1 or not samples.size or not np.isfinite(samples).all():
        raise ValueError(
            f"{os.fspath(path)} would hold samples of shape {list(samples.shape)}, some of them not finite or none; "
            "give one dimension of finite samples"
        )
    if (peak := float(np.abs(samples).max())) > 1:
        _log.warning("%s: samples up to %.2f are clipped to 1", os.fspath(path), peak)
    buffer = io.BytesIO()
    _soundfile().write(
        buffer, np.clip(samples, -1, 1).astype(np.float32), sampling_rate, format="WAV", subtype="PCM_16"
    )
    write_bytes(path, buffer.getvalue())


def _soundfile() -> Any:
    return extra_library("soundfile", extra="speech", needed_by="audio")


@contextmanager
def _opened(name: str) -> Iterator[Any]:
    """Open a file for libsndfile, and turn its errors into messages that name the file."""
    soundfile = _soundfile()
    if as_path(name).is_dir() or not as_path(name).exists():
        raise ValueError(f"{name} is no file; give the path of a WAV or FLAC file")
    with as_path(name).open("rb") as stream:
        _check_bytes(name, stream)
        try:
            with soundfile.SoundFile(stream) as sound:
                yield sound
        except soundfile.LibsndfileError as error:
            raise ValueError(_describe(name, stream, error)) from None


def _check_bytes(name: str, stream: IO[bytes]) -> None:
    """Check that a file has bytes, and as many as its header announces.

    Raises:
      ValueError: It is empty or cut short.
    """
    if not stream.read(1):
        raise ValueError(f"{name} is empty; {_AGAIN}")
    if missing := missing_bytes(stream):
        raise ValueError(f"{name} is cut short: {missing:,} bytes of its samples are missing; {_AGAIN}")


def _describe(name: str, stream: IO[bytes], error: Exception) -> str:
    stream.seek(0)
    head = stream.read(4)
    if head in (b"RIFF", b"RF64", b"fLaC"):
        reason = str(error).rpartition(": ")[2]
        return f"{name} is damaged or cut short ({sentence(reason).removesuffix('.')}); {_AGAIN}"
    return (
        f"{name} is no WAV or FLAC file, it begins with {head!r}; if it is audio, {_rewrite(AudioOptions())}"
    )


def _header(name: str, sound: Any) -> AudioHeader:
    """Return the header of an open file.

    Raises:
      ValueError: It has another format.
    """
    format = _FORMATS.get(sound.format)
    if format is None:
        raise ValueError(
            f"{name} is a file of format {sound.format}; WAV and FLAC are read: {_rewrite(AudioOptions())}"
        )
    return AudioHeader(name, sound.frames, sound.samplerate, sound.channels, f"{format} {sound.subtype}")


def _check_header(header: AudioHeader, options: AudioOptions) -> None:
    """Check the properties of a file.

    Raises:
      ValueError: It has no sample, is too long, or has other channels or another rate than the options allow.
    """
    name = header.file
    if header.num_frames > _MAX_FRAMES:
        raise ValueError(f"{name} doesn't say how long it is, as FLAC that a pipe wrote; {_rewrite(options)}")
    if not header.num_frames:
        raise ValueError(f"{name} has a header and no sample; {_AGAIN}")
    if header.seconds > options.max_seconds:
        raise ValueError(
            f"{name} has {header.seconds:,.1f} seconds; at most max_seconds={options.max_seconds:g} are read: cut it "
            "into pieces, or raise max_seconds"
        )
    if header.num_channels > 1 and options.channels == "mono":
        raise ValueError(
            f"{name} has {header.num_channels} channels, and one is needed; set channels='mean' to read their mean, or "
            "convert the file"
        )
    if header.sampling_rate != options.sampling_rate and not options.resample:
        raise ValueError(
            f"{name} has {header.sampling_rate:,} samples per second, {options.sampling_rate:,} are needed; set "
            "resample=True, or convert the file"
        )


def _rewrite(options: AudioOptions) -> str:
    return f"convert it, as by ffmpeg -i FILE -ac 1 -ar {options.sampling_rate} FILE.wav"
