"""Tables of recordings and texts: rows with the path of an audio file, checked before anything is trained."""

import logging
import math
import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from t5x_like.audio.audio_files import decode_audio, read_header
from t5x_like.audio.audio_options import AudioOptions
from t5x_like.audio.spoken_text import SpokenText
from t5x_like.config_class import config_class
from t5x_like.io.paths import find_files
from t5x_like.io.progress import Progress
from t5x_like.message_sentences import sentence
from t5x_like.text.cells import text_of
from t5x_like.text.tasks.row_files import FORMATS, ending_of, read_rows, separator_hint
from t5x_like.text.tasks.rows import BadRow, Row, RowPolicy, convert

_log = logging.getLogger(__name__)

_SHOWN = 3  # locations of a warning


@config_class
class SpeechTable:
    """Columns of a table, and the recordings that are wanted.

    Attributes:
      audio_column: Column with the path of an audio file, relative to the table's folder.
      text_column: Column with the words that are spoken; None for recordings alone.
      min_seconds: Shortest recording; others are bad rows.
      max_seconds: Longest recording; others are bad rows.
      options: Samples that a model needs, and the treatment of files that have others.
      decode: Read all samples of each file, so that damage, silence and clipping are found, too; False reads
        headers.
      delimiter: Character between the cells of a CSV file.
    """

    audio_column: str = "audio"
    text_column: str | None = "text"
    min_seconds: float = 0.1
    max_seconds: float = 30.0
    options: AudioOptions = AudioOptions()
    decode: bool = False
    delimiter: str = ","

    def __post_init__(self) -> None:
        if not 0 <= self.min_seconds < self.max_seconds or math.isinf(self.max_seconds):
            raise ValueError(
                f"min_seconds={self.min_seconds:g} and max_seconds={self.max_seconds:g} must be ascending lengths"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that a row needs."""
        return (self.audio_column, *((self.text_column,) if self.text_column is not None else ()))


def read_spoken_texts(
    files: str | Sequence[str], table: SpeechTable | None = None, policy: RowPolicy | None = None
) -> list[SpokenText]:
    """Read the rows of JSONL, CSV, TSV, parquet or Arrow files, and check the audio file of each.

    Args:
      files: One or several paths or patterns.
      table: Columns and wanted recordings.
      policy: Reaction to bad rows, which it counts; by default the first one is an error.

    Raises:
      ValueError: A file or a column is missing, a row is bad (under ``on_bad_row="fail"``), or there is no row.
        Messages name file and line.
    """
    table, policy = table or SpeechTable(), policy or RowPolicy()
    paths, notes = find_files(files), RecordingNotes()
    with Progress(f"checking {paths[0]}", None, "recordings") as progress:
        rows: list[SpokenText] = []
        candidates = (row for path in paths for row in read_table(path, table, notes))
        for row in policy.good_rows(candidates):
            rows.append(row)
            progress.add(1)
    if not rows:
        reason = f"; {policy}" if policy.num_skipped else ""
        raise ValueError(f"{paths[0]} has no usable recording{reason}")
    notes.warn(table.options.sampling_rate)
    return rows


class RecordingNotes:
    """Counts of usable recordings that a person should know about: of other sampling rates, clipped or silent."""

    def __init__(self) -> None:
        self.unusual: dict[str, list[str]] = {}
        self.rates: Counter[int] = Counter()

    def warn(self, sampling_rate: int) -> None:
        """Log a line for each kind of them.

        Args:
          sampling_rate: Rate of recordings that need no resampling.
        """
        num_rows = self.rates.total()
        for kind, locations in self.unusual.items():
            if kind:
                shown = ", ".join(locations[:_SHOWN]) + (", …" if len(locations) > _SHOWN else "")
                _log.warning("%d of %d recordings are %s: %s", len(locations), num_rows, kind, shown)
        others = {rate: count for rate, count in sorted(self.rates.items()) if rate != sampling_rate}
        if others:
            counts = ", ".join(f"{count} of {rate:,} Hz" for rate, count in others.items())
            _log.warning(
                "%d of %d recordings are resampled to %s Hz: %s",
                sum(others.values()),
                num_rows,
                f"{sampling_rate:,}",
                counts,
            )


def read_table(file: str, table: SpeechTable, notes: RecordingNotes) -> Iterator[SpokenText | BadRow]:
    """Yield the rows of a table of recordings, good and bad.

    Args:
      file: Path of a JSONL, CSV, TSV, parquet or Arrow file.
      table: Columns and wanted recordings.
      notes: Counts to add to.

    Raises:
      ValueError: The file is no table, or lacks a column.
    """
    format = ending_of(file)
    if format not in FORMATS:
        raise ValueError(f"{file} is no table; give a file whose name ends in {', '.join(FORMATS)}")

    def missing(row: Row) -> str:
        absent = [name for name in table.columns if name not in row.cells]
        return f"no column {absent[0]!r}; the columns are {', '.join(row.cells)}" if absent else ""

    def refuse_other_columns(row: Row) -> None:
        if format in ("tsv", "csv") and (reason := missing(row)):  # wrong for every row
            raise ValueError(f"{file}: {sentence(reason)}{separator_hint(tuple(row.cells), format)}")

    def checked(row: Row) -> SpokenText:
        if reason := missing(row):
            raise ValueError(reason)
        name = text_of(row.cells, table.audio_column)
        if not name.strip():
            raise ValueError(f"column {table.audio_column!r} is empty; it needs the path of an audio file")
        path = path_in(name, posixpath.dirname(file))
        text = None if table.text_column is None else text_of(row.cells, table.text_column)
        if text is not None and not text.strip():
            raise ValueError(f"column {table.text_column!r} is empty; it needs the words of {name}")
        header = read_header(path, table.options)
        if not table.min_seconds <= header.seconds <= table.max_seconds:
            raise ValueError(
                f"{name} has {header.seconds:.2f} seconds; from min_seconds={table.min_seconds:g} to "
                f"max_seconds={table.max_seconds:g} are read"
            )
        if table.decode:
            for warning in decode_audio(path, table.options).warnings:
                notes.unusual.setdefault(_kind(warning), []).append(row.location)
        notes.rates[header.sampling_rate] += 1
        return SpokenText(path, text, header.seconds, row.location, row.cells)

    rows = read_rows(file, format, delimiter=table.delimiter)
    yield from convert(rows, checked, check=refuse_other_columns)


def path_in(name: str, folder: str) -> str:
    """Return the path of a file that a table names.

    Args:
      name: Whole path, address in a bucket, or path relative to the table's folder.
      folder: Folder of the table; empty for the current one.
    """
    is_whole = "://" in name or PurePath(name).is_absolute()
    return name if is_whole else posixpath.join(folder, name)


def _kind(warning: str) -> str:
    """Return a warning without its figures, so that rows with the same one are counted together."""
    return next((kind for kind in ("clipped", "silent", "beyond the full scale") if kind in warning), "")
