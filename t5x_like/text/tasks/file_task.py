"""What every task from plain files has: its files by split, its vocabulary, and what happens to bad rows."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Literal, TypeVar

from t5x_like.io.paths import find_files
from t5x_like.text.tasks.rows import Bad, RowPolicy

ReadT = TypeVar("ReadT")


@dataclass(frozen=True, kw_only=True)
class FileTask(ABC, Generic[ReadT]):
    """Reads ``files``, a path, a pattern or several for each split, into what one kind of task learns from."""

    name: str
    vocabulary: str  # path of a SentencePiece model, or "bytes"
    files: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    on_bad_row: Literal["fail", "skip"] = "fail"
    num_sentinels: int = 100

    # How messages name an example and a file.
    _READS: ClassVar[str] = "row"
    _FILE: ClassVar[str] = "train.tsv"

    def __post_init__(self) -> None:
        if not self.files:
            raise ValueError(f"task {self.name!r} has no files; give files={{'train': {self._FILE!r}, …}}")
        if self.on_bad_row not in ("fail", "skip"):
            raise ValueError(
                f"task {self.name!r}: on_bad_row must be 'fail' or 'skip', not {self.on_bad_row!r}"
            )

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits there are files for."""
        return tuple(self.files)

    def read(self, split: str, policy: RowPolicy | None = None) -> Iterator[ReadT]:
        """Yields what a split holds in the files' order. ``policy`` counts what was skipped.

        Raises:
          ValueError: no such split or file, a bad row (under ``on_bad_row="fail"``), a column that is asked for and
            that files lack, or not one good row. Messages name file and line.
        """
        if split not in self.files:
            raise ValueError(f"task {self.name!r} has no split {split!r}; there are {', '.join(self.files)}")
        policy = RowPolicy(self.on_bad_row) if policy is None else policy
        for file in find_files(self.files[split]):
            yield from self.read_file(file, policy)
        if not policy.num_rows:
            raise self.none_usable(split, policy)

    def read_file(self, file: str, policy: RowPolicy) -> Iterator[ReadT]:
        """Yields what one file holds.

        Raises:
          ValueError: as ``read``.
        """
        for found in self._rows(file):
            if isinstance(found, Bad):
                policy.take(found)
            else:
                policy.num_rows += 1
                yield found

    def none_usable(self, split: str, policy: RowPolicy | None = None) -> ValueError:
        """What to raise where a split has not one good row."""
        files = find_files(self.files[split])
        where = f"{files[0]}{f' and {len(files) - 1} more files' if files[1:] else ''}"
        held = policy if policy and policy.num_skipped else "there is no row in it"
        return ValueError(f"task {self.name!r}, split {split!r}: no usable {self._READS} in {where}; {held}")

    @abstractmethod
    def _rows(self, file: str) -> Iterator[ReadT | Bad]:
        """The rows of one file, good and bad."""

    def register(self) -> None:
        """Makes it known under its name, to ``registry`` and to seqio's own functions. Twice is fine.

        Raises:
          ValueError: another task has that name.
        """
        from t5x_like.text.tasks import registry

        registry.register([self])  # pyright: ignore[reportArgumentType] - it is one of those that are known
        registry.tell_seqio()
