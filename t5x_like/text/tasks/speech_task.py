"""Tasks of recordings and their texts: speech to text, and text to speech."""

import functools
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from t5x_like.audio.feature_extractor import SpeechT5FeatureExtractor
from t5x_like.audio.recording import Recording
from t5x_like.audio.speech_features import FeatureName, SpeechFeatures
from t5x_like.audio.spoken_text import SpokenText
from t5x_like.batch import (
    SPEAKERS,
    SPECTROGRAM_LENGTHS,
    SPECTROGRAMS,
    WAVEFORM_LENGTHS,
    WAVEFORMS,
    DataField,
)
from t5x_like.config_class import config_class
from t5x_like.io.files import as_path
from t5x_like.text.cells import list_of, text_of
from t5x_like.text.fields import TARGETS, Feature
from t5x_like.text.metrics.by_name import MetricFunction, check_metric, metric_function
from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.tasks.file_task import FoundT, TaskVisitor
from t5x_like.text.tasks.pairs import PairsTask, TextPair
from t5x_like.text.tasks.row_files import cells_of
from t5x_like.text.tasks.rows import BadRow, RawRow, convert
from t5x_like.text.tasks.speech_streams import sequence_stream, spectrogram_frames, waveform_samples
from t5x_like.text.tasks.speech_table import RecordingNotes, SpeechTable, path_in, read_table


@config_class
class SpeechTask(PairsTask):
    """Recordings and the words that are spoken in them, from tables.

    >>> SpeechTask(name="words", vocabulary="bytes", files={"train": "train.jsonl"}).direction
    'speech_to_text'

    Attributes:
      direction: What a model reads and writes.
      table: Columns, shortest and longest recording, and treatment of files with other rates or channels.
      extractor: Options of waveforms and spectrograms.
      speaker_column: Column with the speaker's vector, for text to speech: a list of numbers, or the path of an
        ``.npy`` file, relative to the table's folder.
      speaker_dim: Numbers of such a vector.
      metrics: Names of metrics of transcripts, or functions of targets and predictions; "wer" by default.
    """

    direction: Literal["speech_to_text", "text_to_speech"] = "speech_to_text"
    table: SpeechTable = SpeechTable()
    extractor: SpeechT5FeatureExtractor = SpeechT5FeatureExtractor()
    speaker_column: str | None = None
    speaker_dim: int = 512
    metrics: Sequence[str | MetricFunction] = ("wer",)

    _READS: ClassVar[str] = "recording"
    _FILE: ClassVar[str] = "train.jsonl"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table.text_column is None:
            raise ValueError(f"task {self.name!r} needs texts; give SpeechTable a text_column")
        if self.writes_speech and self.speaker_column is None:
            raise ValueError(
                f"task {self.name!r}: a model of text to speech reads a vector of the speaker; give speaker_column"
            )
        if not self.writes_speech and self.speaker_column is not None:
            raise ValueError(
                f"task {self.name!r}: speech to text reads no speakers; leave speaker_column out"
            )
        if self.framing is not None:
            raise ValueError(f"task {self.name!r}: no head reads recordings; leave framing out")
        for metric in self.metrics:
            check_metric(metric, ())
        _ = self.recording_features  # raises where rates differ

    @property
    def writes_speech(self) -> bool:
        """True for text to speech."""
        return self.direction == "text_to_speech"

    @property
    def recording_features(self) -> SpeechFeatures:
        """Function from the path of a recording to its waveform, or of text to speech to its spectrogram."""
        name: FeatureName = "log_mel" if self.writes_speech else "waveform"
        return SpeechFeatures(names=(name,), extractor=self.extractor, options=self.table.options)

    @property
    def max_samples(self) -> int | None:
        return None if self.writes_speech else waveform_samples(self.table, self.extractor)

    def input_in(self, inputs: str, folder: str) -> str:
        if self.writes_speech:
            return inputs
        return path_in(inputs, folder)

    def recording(self, inputs: str) -> Recording | None:
        if self.writes_speech:
            return None
        table = self.table
        return Recording(
            inputs, self.recording_features, min_seconds=table.min_seconds, max_seconds=table.max_seconds
        )

    @property
    def declared_streams(self) -> tuple[DataField, ...]:
        return (*self._speech_streams, *super().declared_streams)

    @property
    def _speech_streams(self) -> tuple[DataField, ...]:
        if not self.writes_speech:
            samples = waveform_samples(self.table, self.extractor)
            waveforms = sequence_stream(WAVEFORMS, WAVEFORM_LENGTHS, samples)
            return waveforms, DataField(WAVEFORM_LENGTHS, "example")
        frames = spectrogram_frames(self.table, self.extractor)
        return (
            sequence_stream(SPECTROGRAMS, SPECTROGRAM_LENGTHS, frames, width=self.extractor.num_mel_bins),
            DataField(SPECTROGRAM_LENGTHS, "example"),
            DataField(SPEAKERS, "example", "float32", width=self.speaker_dim),
        )

    @property
    def spec(self) -> ExampleSpec:
        """Properties of examples: the decoder's tokens of transcripts, or the encoder's of texts to speak."""
        spec = ExampleSpec(layout="encoder" if self.writes_speech else "decoder")
        return spec.with_streams(self.declared_streams)

    def features(self) -> tuple[Feature, ...]:
        return (TARGETS,)

    def speaker_of(self, row: TextPair) -> np.ndarray:
        """Return the vector of a row's speaker, float32 [speaker_dim].

        Raises:
          ValueError: There is none, or it has another length.
        """
        assert self.speaker_column is not None, "checked at the start"
        cell = row.row.get(self.speaker_column)
        if isinstance(cell, str) and cell.endswith(".npy"):
            vector = _read_vector(path_in(cell, posixpath.dirname(row.location)))
        else:
            try:
                vector = np.asarray(list_of(cell, "a list of numbers, or the path of an .npy file,"))
            except ValueError as error:
                raise ValueError(f"{row.location}: column {self.speaker_column!r}: {error}") from None
        if vector.shape != (self.speaker_dim,) or vector.dtype.kind not in "fi":
            raise ValueError(
                f"{row.location}: column {self.speaker_column!r} is a vector of shape {list(vector.shape)}, and "
                f"speaker_dim={self.speaker_dim}; give one of them as the other"
            )
        return vector.astype(np.float32)

    def tokenize(self, rows: Sequence[TextPair]) -> list[Mapping[str, Any]]:
        texts = [row.inputs if self.writes_speech else row.targets for row in rows]
        return [{"targets": ids} for ids in self.tokenizer.encode_all(texts)]

    def texts(self, split: str) -> Iterator[str]:
        return (row.inputs if self.writes_speech else row.targets for row in self.read(split))

    def fingerprint(self) -> dict[str, str]:
        return {
            "kind": self.direction.replace("_", " "),
            "table": repr(self.table),
            **self.recording_features.fingerprint,
            **self._stream_lines(),
        }

    def accept(self, visitor: TaskVisitor[FoundT]) -> FoundT:
        del visitor
        raise ValueError(
            f"task {self.name!r} reads recordings, and this reads texts; train on it without seqio"
        )

    def require_answers(self) -> None:
        """Check that the task has texts to score.

        Raises:
          ValueError: It has speech to write.
        """
        if self.writes_speech:
            raise ValueError(
                f"task {self.name!r} has speech as its targets, which no metric scores; measure its losses by a "
                "validation, and listen to generate_speech"
            )

    @property
    def answers(self) -> tuple[str, ...]:
        return ()

    @property
    def metric_functions(self) -> list[MetricFunction]:
        return [metric_function(metric, ()) for metric in self.metrics]

    def head_metrics(self) -> Sequence[MetricFunction]:
        self.head_format()  # raises
        return ()

    @property
    def input_columns(self) -> tuple[str, ...]:
        text = self.table.text_column
        assert text is not None, "checked at the start"
        return (text if self.writes_speech else self.table.audio_column,)

    def word_question(self, line: str) -> str:
        return line

    def line_columns(self, line: str) -> Mapping[str, object]:
        return {self.input_columns[0]: line}

    def word_row(self, values: Mapping[str, object]) -> str:
        return text_of(cells_of(values, "").cells, self.input_columns[0])

    def row_columns(self, values: Mapping[str, object]) -> Mapping[str, object]:
        return {self.input_columns[0]: self.word_row(values)}

    def spoken_texts(self, rows: Sequence[TextPair]) -> list[SpokenText]:
        """Return the recordings of rows, with their texts."""
        spoken = []
        for row in rows:
            audio, text = (row.targets, row.inputs) if self.writes_speech else (row.inputs, row.targets)
            spoken.append(SpokenText(audio, text, row.extras["seconds"], row.location, row.row))
        return spoken

    def pair_of(self, row: SpokenText) -> TextPair:
        """Return a recording with its text as inputs and targets, with the path in place of the recording."""
        assert row.text is not None, "the table has texts"
        inputs, targets = (row.text, row.audio) if self.writes_speech else (row.audio, row.text)
        declared = self._declared(row.cells)
        return TextPair(inputs, targets, row.cells, row.location, {"seconds": row.seconds}, declared)

    def _rows(self, file: str) -> Iterator[TextPair | BadRow]:
        notes = RecordingNotes()
        yield from convert(read_table(file, self.table, notes), self.pair_of)
        notes.warn(self.table.options.sampling_rate)

    def _raw_rows(self, file: str) -> Iterator[RawRow | BadRow]:
        return convert(self._rows(file), lambda pair: RawRow(pair.row, pair.location))


@functools.lru_cache(maxsize=10_000)
def _read_vector(file: str) -> np.ndarray:
    """Return the vector in an ``.npy`` file.

    Raises:
      ValueError: There is no such file, or it is damaged.
    """
    try:
        with as_path(file).open("rb") as stream:
            return np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{file} can't be read as a vector ({error}); write it by numpy.save") from None
