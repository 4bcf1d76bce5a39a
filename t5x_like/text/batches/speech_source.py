"""Recordings with their texts as a source of batches: features are read when a batch is made."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from t5x_like.audio.feature_cache import FeatureCache
from t5x_like.audio.speech_features import SpeechFeatures
from t5x_like.batch import SPEAKERS, SPECTROGRAM_LENGTHS, SPECTROGRAMS, WAVEFORM_LENGTHS, WAVEFORMS
from t5x_like.io.fingerprint_check import refuse_other
from t5x_like.text.batches.example_sources import OpenedTask, StoredSource
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.objectives.objective import Example
from t5x_like.text.tasks.pairs import TextPair
from t5x_like.text.tasks.speech_task import SpeechTask
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

_log = logging.getLogger(__name__)

# Streams of each feature: its values, and their lengths.
_STREAMS = {"waveform": (WAVEFORMS, WAVEFORM_LENGTHS), "log_mel": (SPECTROGRAMS, SPECTROGRAM_LENGTHS)}


class _Features(Protocol):
    """Features of each row."""

    def __getitem__(self, row_index: int) -> Mapping[str, np.ndarray]: ...


class _ComputedFeatures:
    """Features that are computed whenever a row is read."""

    def __init__(self, files: Sequence[str], compute: SpeechFeatures) -> None:
        self._files, self._compute = files, compute

    def __getitem__(self, row_index: int) -> Mapping[str, np.ndarray]:
        return self._compute(self._files[row_index])


class SpokenExamples:
    """Rows of a speech task with their tokens, and their features by row.

    Attributes:
      ids: Tokens of each text.
      seconds: Length of each recording, float64 [N].
    """

    def __init__(
        self, task: SpeechTask, rows: Sequence[TextPair], features: _Features, *, end: int, limit: int
    ) -> None:
        self._task, self._rows, self._features = task, rows, features
        self._speakers = [task.speaker_of(row) for row in rows] if task.writes_speech else None
        self.seconds = np.array([row.extras["seconds"] for row in rows])
        ids = [each["targets"] for each in task.tokenize(rows)]
        self.num_trimmed = sum(len(each) >= limit for each in ids)
        self.ids = [np.array([*each[: limit - 1], end], np.int32) for each in ids]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def checksum(self) -> int:
        """Hash of texts, names and lengths of recordings; samples are not read."""
        digest = hashlib.blake2b(digest_size=7)
        audio = self._task.table.audio_column
        for row, ids, seconds in zip(self._rows, self.ids, self.seconds.tolist(), strict=True):
            digest.update(repr((row.row.get(audio), round(seconds, 4), dict(row.declared))).encode())
            digest.update(ids.tobytes())
        for speaker in self._speakers or ():
            digest.update(speaker.tobytes())
        return int.from_bytes(digest.digest(), "big")

    def example(self, row_index: int) -> Example:
        """Return one example for ``BatchLayout``.

        Raises:
          ValueError: The recording can't be read.
        """
        declared: dict[str, object] = dict(self._rows[row_index].declared)
        for name, values in self._features[row_index].items():
            stream, lengths = _STREAMS[name]
            declared |= {stream: values, lengths: len(values)}
        ids = self.ids[row_index]
        if self._speakers is None:
            return Example(targets=ids, declared=declared)
        return Example(inputs=ids, declared=declared | {SPEAKERS: self._speakers[row_index]})


class SpeechSource(StoredSource[SpokenExamples]):
    """Recordings in an order drawn for each epoch, or in the order of the table."""

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Return the examples at these positions of an epoch."""
        return [self._stored.example(index) for index in self._indices(epoch, positions).tolist()]

    def sizes(self, epoch: int, positions: Sequence[int]) -> np.ndarray:
        """Return the seconds of these recordings; see ``SizedSource``."""
        return self._stored.seconds[self._indices(epoch, positions)]

    def _indices(self, epoch: int, positions: Sequence[int]) -> np.ndarray:
        return self._ordered(np.asarray(positions, np.int64), epoch, "order")


def open_speech_task(task: SpeechTask, config: LoaderConfig) -> OpenedTask:
    """Open the recordings of a split, or their features in a cache.

    Args:
      task: The task.
      config: Configuration of the loader.

    Raises:
      ValueError: A row or a speaker's vector is bad, the vocabulary has no end of sequence, the cache has other
        features, or an option is for text.
    """
    if config.layout is not None or config.masked_targets is not None:
        raise ValueError(
            f"task {task.name!r} reads recordings, whose batches have one layout; leave layout out"
        )
    end = ids_of(task.tokenizer).eos
    if end is None:
        raise ValueError(f"task {task.name!r}: {task.vocabulary} has no end of sequence, which texts need")
    rows: list[TextPair]
    features: _Features
    if config.cache is None:
        rows = list(task.read(config.split))
        features = _ComputedFeatures(
            [each.audio for each in task.spoken_texts(rows)], task.recording_features
        )
    else:
        cache = _open_cache(task, config, config.cache)
        limit = task.limit_of(config.split)
        rows, features = [task.pair_of(row) for row in cache.rows[:limit]], cache
    limit = config.inputs_length if task.writes_speech else config.targets_length
    examples = SpokenExamples(task, rows, features, end=end, limit=limit)
    if examples.num_trimmed:
        name = "inputs_length" if task.writes_speech else "targets_length"
        what = f"{examples.num_trimmed} texts are longer than {name}={limit}"
        _log.warning("task %s: %s and were cut", task.name, what)
    source = SpeechSource(task.name, examples, seed=config.seed, shuffle=config.shuffle)
    return OpenedTask(source, task.spec, task.tokenizer)


def _open_cache(task: SpeechTask, config: LoaderConfig, cache: str) -> FeatureCache:
    """Open the features of a task's split.

    Raises:
      ValueError: There are none, or they are others than the task's.
    """
    if config.on_corruption != "fail":
        raise ValueError(
            f"task {task.name!r}: on_corruption={config.on_corruption!r} is for caches of tokens; make a damaged cache "
            "of features again by t5x-like cache"
        )
    opened = FeatureCache(f"{cache}/{task.name}/{config.split}")
    wanted = task.recording_features.fingerprint
    stored = {name: opened.settings.get(name, "nothing") for name in wanted}
    refuse_other(
        f"{cache}/{task.name}/{config.split}",
        stored,
        wanted,
        what_to_do="Make the cache again by t5x-like cache.",
    )
    return opened
