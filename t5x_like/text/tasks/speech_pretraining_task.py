"""Recordings with clusters of their frames, and unpaired texts: the data of SpeechT5's pretraining."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from t5x_like.audio.feature_extractor import SpeechT5FeatureExtractor
from t5x_like.audio.speech_clusters import align_clusters
from t5x_like.audio.speech_features import SpeechFeatures
from t5x_like.audio.spoken_text import SpokenText
from t5x_like.batch import (
    CLUSTERS,
    SPECTROGRAM_LENGTHS,
    SPECTROGRAMS,
    WAVEFORM_LENGTHS,
    WAVEFORMS,
    DataField,
)
from t5x_like.config_class import config_class
from t5x_like.text.cells import list_of
from t5x_like.text.fields import TOKENS, Feature
from t5x_like.text.objectives.denoising import Denoising
from t5x_like.text.objectives.noise import SpanNoise
from t5x_like.text.objectives.objective import ExampleSpec, Objective
from t5x_like.text.tasks.file_task import FileTask, FoundT, TaskVisitor
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.rows import BadRow, convert
from t5x_like.text.tasks.speech_streams import sequence_stream, spectrogram_frames, waveform_samples
from t5x_like.text.tasks.speech_table import RecordingNotes, SpeechTable, read_table

# 30 % of the tokens in spans of 3.5 on average, each replaced by one mask; the whole text is predicted (§2.3). Lengths
# of spans are T5's, and not those of a Poisson distribution.
TEXT_INFILLING = Denoising(
    noise=SpanNoise(noise_density=0.3, mean_noise_span_length=3.5, roll=True),
    inputs="one_sentinel",
    targets="text",
)


@config_class
class SpeechPretrainingTask(FileTask[SpokenText]):
    """Rows of a recording and a text that don't belong together (Ao et al. 2022, §2.3).

    Files are tables of clusters, as ``write_cluster_ids`` writes them: JSONL with the columns "audio", "clusters" and
    "label_rate".

    >>> SpeechPretrainingTask(
    ...     name="both", vocabulary="bytes", files={"train": "clusters.jsonl"}, texts={"train": "texts.txt"}
    ... ).table.text_column

    Attributes:
      texts: Files of texts for each split, with one on each line; a line is one example.
      objective: Corruption of the texts, for an encoder-decoder; ``TEXT_INFILLING`` by default.
      table: Shortest and longest recording, and treatment of files with other rates or channels.
      extractor: Options of waveforms and spectrograms.
      frame_rate: Frames of the encoder per second.
    """

    texts: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    objective: Objective = field(default_factory=lambda: TEXT_INFILLING)
    table: SpeechTable = SpeechTable(text_column=None)
    extractor: SpeechT5FeatureExtractor = SpeechT5FeatureExtractor()
    frame_rate: float = 50.0

    is_pretraining: ClassVar[bool] = True
    _READS: ClassVar[str] = "recording"
    _FILE: ClassVar[str] = "clusters.jsonl"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table.text_column is not None:
            raise ValueError(
                f"task {self.name!r} reads no texts of its recordings; give table=SpeechTable(text_column=None)"
            )
        if lacking := [split for split in self.files if split not in self.texts]:
            raise ValueError(
                f"task {self.name!r} has recordings of {', '.join(lacking)} and no texts; give their files by texts"
            )
        if self.objective.spec.layout != "encoder_decoder":
            raise ValueError(
                f"task {self.name!r}: {type(self.objective).__name__} is for a model with one stack; give an objective "
                "of encoder-decoders, such as Denoising()"
            )
        if not self.frame_rate > 0:
            raise ValueError(f"task {self.name!r}: frame_rate is {self.frame_rate}; give frames per second")
        _ = self.recording_features  # raises where rates differ

    @property
    def text_task(self) -> FileTask[Any]:
        """Task of the texts alone."""
        return PretrainingTask(
            name=self.name,
            vocabulary=self.vocabulary,
            files=self.texts,
            on_bad_row=self.on_bad_row,
            num_sentinels=self.num_sentinels,
            objective=self.objective,
        ).as_trained()

    @property
    def recording_features(self) -> SpeechFeatures:
        """Function from the path of a recording to its waveform and its spectrogram."""
        return SpeechFeatures(
            names=("waveform", "log_mel"), extractor=self.extractor, options=self.table.options
        )

    @property
    def declared_streams(self) -> tuple[DataField, ...]:
        samples = waveform_samples(self.table, self.extractor)
        num_frames = math.ceil(samples / self.extractor.sampling_rate * self.frame_rate)
        return (
            sequence_stream(WAVEFORMS, WAVEFORM_LENGTHS, samples),
            DataField(WAVEFORM_LENGTHS, "example"),
            sequence_stream(
                SPECTROGRAMS,
                SPECTROGRAM_LENGTHS,
                spectrogram_frames(self.table, self.extractor),
                width=self.extractor.num_mel_bins,
            ),
            DataField(SPECTROGRAM_LENGTHS, "example"),
            DataField(CLUSTERS, "example", width=num_frames, padding=-1),
        )

    @property
    def spec(self) -> ExampleSpec:
        return self.objective.spec.with_streams(self.declared_streams)

    def clusters_of(self, row: SpokenText) -> np.ndarray:
        """Return the cluster of each frame of the encoder, int32 [frames of the longest]; -1 after the last one."""
        (num_frames,) = (each.width for each in self.declared_streams if each.name == CLUSTERS)
        assert isinstance(num_frames, int)
        ids = np.asarray(row.cells["clusters"], np.int32)
        rate = float(row.cells["label_rate"])
        return align_clusters(ids, num_frames, label_rate=rate, frame_rate=self.frame_rate)

    def features(self) -> tuple[Feature, ...]:
        return (TOKENS,)

    def tokenize(self, rows: Sequence[SpokenText]) -> list[Mapping[str, Any]]:
        del rows
        raise ValueError(f"task {self.name!r} has no texts of its recordings; train on it without a cache")

    def fingerprint(self) -> dict[str, str]:
        return {
            "kind": "speech and text",
            "table": repr(self.table),
            **self.recording_features.fingerprint,
            "frame rate": str(self.frame_rate),
        }

    def accept(self, visitor: TaskVisitor[FoundT]) -> FoundT:
        del visitor
        raise ValueError(
            f"task {self.name!r} reads recordings, and this reads texts; train on it without seqio"
        )

    def require_answers(self) -> None:
        raise ValueError(f"{self.name!r} is a pretraining task: measure its loss, it has no answers to score")

    def shown(self, row: SpokenText) -> dict[str, object]:
        return dict(row.cells)

    def _rows(self, file: str) -> Iterator[SpokenText | BadRow]:
        def checked(row: SpokenText) -> SpokenText:
            clusters = list_of(row.cells.get("clusters"), "clusters, a list of whole numbers,")
            if not clusters or not all(isinstance(each, int) and each >= 0 for each in clusters):
                raise ValueError(
                    "clusters is no list of whole numbers from 0 on; make it by write_cluster_ids"
                )
            try:
                rate = float(row.cells["label_rate"])
            except (KeyError, TypeError, ValueError):
                rate = 0.0
            if not rate > 0:
                raise ValueError("label_rate, the clusters of a second, is missing or no number above 0")
            return row._replace(cells={**row.cells, "clusters": clusters, "label_rate": rate})

        notes = RecordingNotes()
        yield from convert(read_table(file, self.table, notes), checked)
        notes.warn(self.table.options.sampling_rate)
