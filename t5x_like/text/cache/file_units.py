"""Tokenization of tasks over plain files, without TensorFlow or seqio."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from t5x_like.io.files import as_path
from t5x_like.io.paths import find_files
from t5x_like.text.cache.cache_manifest import CacheContents
from t5x_like.text.cache.record_encoding import EncodedRecords, encode, sort_features
from t5x_like.text.cache.shards import CacheShard, ShardWriter, finished_shard
from t5x_like.text.fields import Feature
from t5x_like.text.tasks.chat import Conversation
from t5x_like.text.tasks.documents import Document
from t5x_like.text.tasks.file_task import FileTask
from t5x_like.text.tasks.pairs import TextPair
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

SourceRow = Document | TextPair | Conversation

# Work sent to a process at once: large compared with the cost of sending, small compared with memory.
_ROWS_AT_ONCE = 1024
_CHARACTERS_AT_ONCE = 1_000_000


def cache_contents(definition: FileTask[object], split: str, fingerprint: dict[str, str]) -> CacheContents:
    """Return the contents of a split's cache.

    Args:
      definition: The task.
      split: Its split.
      fingerprint: Settings that determine the tokens.
    """
    tokenizer = definition.tokenizer
    return CacheContents(
        task=definition.name,
        split=split,
        features=features_of(definition),
        fingerprint=fingerprint,
        vocabulary_fingerprint=tokenizer.fingerprint,
        ids=ids_of(tokenizer),
    )


def features_of(definition: FileTask[object]) -> tuple[Feature, ...]:
    """Return the stored arrays of each example."""
    vocab_size = definition.tokenizer.vocab_size
    return sort_features([each.stored(vocab_size) for each in definition.features()])


@dataclass(frozen=True, kw_only=True)
class RowEncoder:
    """Tokenizes rows of a task into records; rebuilt from its fields in every process."""

    definition: FileTask[Any]
    features: tuple[Feature, ...]

    def __call__(self, rows: Sequence[SourceRow]) -> EncodedRecords:
        """Tokenize rows.

        Raises:
          ValueError: The vocabulary can't encode a text.
        """
        return encode(self.definition.tokenize(rows), self.features)


def batch_rows(rows: Iterator[SourceRow]) -> Iterator[list[SourceRow]]:
    """Yield rows in lists of up to 1,024 rows or a million characters."""
    piece: list[SourceRow] = []
    characters = 0
    for row in rows:
        piece.append(row)
        characters += row.num_characters
        if len(piece) >= _ROWS_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield piece
            piece, characters = [], 0
    if piece:
        yield piece


class BytesRead:
    """Estimate of the bytes read from a split's files, from the rows that were read.

    Attributes:
      total: Size of all files.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._sizes = [as_path(file).stat().length for file in files]
        self._numbers = {file: index for index, file in enumerate(files)}
        self.total = sum(self._sizes)
        self._current, self._before, self._inside = 0, 0, 0

    def take(self, row: SourceRow) -> None:
        """Count a row."""
        file_index = self._numbers.get(row.location.rpartition(":")[0], self._current)
        if file_index != self._current:
            self._current, self._before, self._inside = file_index, sum(self._sizes[:file_index]), 0
        # One byte for a character and one for the end of a line: less than most files hold, never more.
        self._inside = min(self._inside + row.num_characters + 1, self._sizes[self._current])

    @property
    def done(self) -> int:
        """Estimated bytes up to the end of the last row."""
        return self._before + self._inside


@dataclass(frozen=True, kw_only=True)
class FileUnit:
    """Picklable work that tokenizes one file into one shard on any machine."""

    definition: FileTask[Any]
    file: str
    number: int
    features: tuple[Feature, ...]

    def __call__(self, directory: str) -> CacheShard:
        """Write the shard unless it exists.

        Raises:
          ValueError: A row is bad.
        """
        finished = finished_shard(directory, self.number, self.features)
        if finished is not None:
            return finished
        policy = self.definition.row_policy()
        encoder = RowEncoder(definition=self.definition, features=self.features)
        with ShardWriter(directory, self.number, self.features) as writer:
            for piece in batch_rows(self.definition.read_file(self.file, policy)):
                writer.write(encoder(piece))
            return writer.finish(num_skipped=policy.num_skipped)


def file_units(definition: FileTask[object], split: str) -> list[FileUnit]:
    """Return one unit of work for each file of a split.

    Args:
      definition: Task of the files.
      split: Name of the split.
    """
    features = features_of(definition)
    return [
        FileUnit(definition=definition, file=file, number=index, features=features)
        for index, file in enumerate(find_files(definition.files[split]))
    ]
