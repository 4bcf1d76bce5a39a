"""Recordings next to unpaired texts as a source of batches, for SpeechT5's pretraining."""

import hashlib
from collections.abc import Sequence

import numpy as np

from t5x_like.audio.spoken_text import SpokenText
from t5x_like.batch import CLUSTERS, SPECTROGRAM_LENGTHS, SPECTROGRAMS, WAVEFORM_LENGTHS, WAVEFORMS
from t5x_like.text.batches.example_sources import ExampleMaker, OpenedTask, StoredSource
from t5x_like.text.batches.in_memory import ExampleStore, TooManyTokens, load_in_memory
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.batches.order import key_of, permuted
from t5x_like.text.objectives.cutting import lay_window, texts_of
from t5x_like.text.objectives.objective import Example, Lengths, Text
from t5x_like.text.objectives.random_bits import seeds_of_rows
from t5x_like.text.tasks.speech_pretraining_task import SpeechPretrainingTask
from t5x_like.text.vocabularies.vocabulary_ids import ids_of


class ClusteredRecordings:
    """Rows of recordings with clusters of their frames.

    Attributes:
      rows: The recordings.
      task: Their task.
    """

    def __init__(self, rows: Sequence[SpokenText], task: SpeechPretrainingTask) -> None:
        self.rows, self.task = rows, task

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def checksum(self) -> int:
        """Hash of names, lengths and clusters; samples are not read."""
        digest = hashlib.blake2b(digest_size=7)
        for row in self.rows:
            name = row.cells.get(self.task.table.audio_column)
            digest.update(repr((name, round(row.seconds, 4), row.cells["label_rate"])).encode())
            digest.update(np.asarray(row.cells["clusters"], np.int32).tobytes())
        return int.from_bytes(digest.digest(), "big")


class SpeechPretrainingSource(StoredSource[ClusteredRecordings]):
    """Recordings in an order drawn for each epoch; the texts next to them have epochs of their own."""

    def __init__(
        self,
        recordings: ClusteredRecordings,
        texts: ExampleStore,
        maker: ExampleMaker,
        *,
        seed: int,
        shuffle: bool,
    ) -> None:
        super().__init__(recordings.task.name, recordings, seed=seed, shuffle=shuffle)
        self._texts, self._maker = texts, maker
        self._features = recordings.task.recording_features
        self.checksum = (recordings.checksum + texts.checksum) % 2**56
        self._seconds = np.array([row.seconds for row in recordings.rows])

    def sizes(self, epoch: int, positions: Sequence[int]) -> np.ndarray:
        """Return the seconds of these recordings; see ``SizedSource``."""
        return self._seconds[self._ordered(np.asarray(positions, np.int64), epoch, "order")]

    def examples(self, epoch: int, positions: Sequence[int]) -> list[Example]:
        """Return the examples at these positions of an epoch."""
        numbers = np.asarray(positions, np.int64)
        indices = self._ordered(numbers, epoch, "order").tolist()
        key = key_of(self._seed, self.name, epoch, "corruption")
        texts = [self._text(epoch, position) for position in positions]
        made = self._maker.make(texts, seeds_of_rows(key, numbers))
        return [
            example._replace(declared=self._declared(index))
            for example, index in zip(made, indices, strict=True)
        ]

    def _text(self, epoch: int, position: int) -> Text:
        """Return the text next to a recording: the next one of the texts' own epoch."""
        text_epoch, text_position = divmod(epoch * len(self._stored) + position, len(self._texts))
        index = np.array([text_position])
        if self._shuffle:
            index = permuted(index, len(self._texts), key_of(self._seed, self.name, text_epoch, "texts"))
        spec, ids = self._maker.objective.spec, self._maker.ids
        window = lay_window(
            self._texts.read(index),
            chunks=np.zeros(1, np.uint64),
            eos=ids.eos if spec.ends_documents else None,
            with_sentences=spec.needs_sentences,
        )
        cuts = self._maker.objective.cut(
            window, self._maker.lengths, key_of(self._seed, self.name, epoch, position, "cuts")
        )
        return texts_of(window, cuts, [0])[0]

    def _declared(self, row_index: int) -> dict[str, object]:
        row = self._stored.rows[row_index]
        features = self._features(row.audio)
        waveform, log_mel = features["waveform"], features["log_mel"]
        return {
            WAVEFORMS: waveform,
            WAVEFORM_LENGTHS: len(waveform),
            SPECTROGRAMS: log_mel,
            SPECTROGRAM_LENGTHS: len(log_mel),
            CLUSTERS: self._stored.task.clusters_of(row),
        }


def open_speech_pretraining(task: SpeechPretrainingTask, config: LoaderConfig) -> OpenedTask:
    """Open the recordings and the texts of a split.

    Args:
      task: The task.
      config: Configuration of the loader.

    Raises:
      ValueError: A row is bad, lengths or vocabulary don't fit the objective, there are too many tokens of texts, or an
        option is for texts alone.
    """
    if config.layout is not None or config.masked_targets is not None or config.cache is not None:
        raise ValueError(
            f"task {task.name!r} reads recordings and texts, whose batches have one layout and no cache; leave "
            "layout and cache out"
        )
    ids, lengths = ids_of(task.tokenizer), Lengths(config.inputs_length, config.targets_length)
    try:
        task.objective.check(lengths, ids)
    except ValueError as error:
        raise ValueError(f"task {task.name!r}: {error}") from None
    try:
        texts = load_in_memory(task.text_task, config.split, max_tokens_in_memory=config.max_tokens_in_memory)
    except TooManyTokens:
        raise ValueError(
            f"task {task.name!r} has over {config.max_tokens_in_memory} tokens of texts; raise "
            "LoaderConfig.max_tokens_in_memory, or give fewer texts"
        ) from None
    recordings = ClusteredRecordings(list(task.read(config.split)), task)
    maker = ExampleMaker(task.objective, lengths, ids)
    source = SpeechPretrainingSource(recordings, texts, maker, seed=config.seed, shuffle=config.shuffle)
    return OpenedTask(source, task.spec, task.tokenizer)
