"""The base of tasks from plain files: files by split, a vocabulary, rows and their token ids."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from t5x_like.config_class import config_class
from t5x_like.io.paths import find_files
from t5x_like.text.heads import HeadFormat
from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.tasks.rows import BadRow, RowPolicy
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.tokenizer import Tokenizer

ReadT = TypeVar("ReadT")
FoundT = TypeVar("FoundT")
FoundT_co = TypeVar("FoundT_co", covariant=True)


class TaskVisitor(Protocol[FoundT_co]):
    """Makes something of a task by its kind: a source of examples, or a task of another library."""

    def pairs(self, task: Any) -> FoundT_co:
        """Of a task of inputs and targets, a ``PairsTask``."""
        ...

    def chats(self, task: Any) -> FoundT_co:
        """Of a task of conversations, a ``ChatTask``."""
        ...

    def documents(self, task: Any) -> FoundT_co:
        """Of a ``PretrainingTask``."""
        ...


@config_class
class FileTask(ABC, Generic[ReadT]):
    """Reads ``files`` into what one kind of task learns from.

    Attributes:
      name: Name in the registry.
      vocabulary: Path of a vocabulary, or a name such as "bytes".
      files: A path, a pattern or several for each split.
      on_bad_row: "fail" stops at the first bad row, "skip" leaves bad rows out and counts them.
      num_sentinels: Number of sentinel ids at the vocabulary's end.
    """

    name: str
    vocabulary: str
    files: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    on_bad_row: Literal["fail", "skip"] = "fail"
    num_sentinels: int = 100

    is_pretraining: ClassVar[bool] = False
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

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the vocabulary.

        Raises:
          ValueError: it can't be opened, or lies in a bucket that can't be reached.
        """
        try:
            return open_tokenizer(self.vocabulary, self.num_sentinels)
        except Exception as error:
            # Each kind of bucket has errors of its own.
            if isinstance(error, ValueError) or "://" not in self.vocabulary:
                raise
            raise ValueError(
                f"task {self.name!r}: its vocabulary {self.vocabulary} can't be reached "
                f"({str(error).strip().splitlines()[0]}); copy it here and give its path; for benchmarks that are only "
                "named, $T5X_LIKE_VOCABULARY is that path"
            ) from error

    @property
    @abstractmethod
    def spec(self) -> ExampleSpec:
        """What a loader must know of its examples."""

    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """The arrays of each tokenized row: ``inputs`` and ``targets``, or ``tokens`` and what is known of them."""

    @abstractmethod
    def tokenize(self, rows: Sequence[ReadT]) -> list[Mapping[str, Any]]:
        """Returns one mapping of ``feature_names`` to ids for each row, without end of sequence, of any length.

        Raises:
          ValueError: a text that the vocabulary can't read.
        """

    @abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """What decides its tokens beside its files and vocabulary, a line each."""

    @abstractmethod
    def accept(self, visitor: TaskVisitor[FoundT]) -> FoundT:
        """Calls the visitor's method for this kind of task."""

    @abstractmethod
    def shown(self, row: ReadT) -> dict[str, Any] | None:
        """A row's columns for people; ``None`` where rows and examples don't correspond."""

    def word_question(self, line: str) -> str:
        """A user's line as the question that the task would put to a model.

        Raises:
          ValueError: it lacks columns that the wording needs.
        """
        return line

    def require_answers(self) -> None:
        """Refuses the task if it has no answers to score.

        Raises:
          ValueError: it has none.
        """

    def as_trained(self) -> "FileTask[ReadT]":
        """The task with all features that training on it needs."""
        return self

    def head_format(self) -> HeadFormat:
        """How a head reads the rows.

        Raises:
          ValueError: no head reads this task.
        """
        raise ValueError(
            f"{self._no_head_format()}: its answers are written; train an encoder-decoder or a decoder on it"
        )

    def _no_head_format(self) -> str:
        return f"task {self.name!r} has no form for an encoder's head"

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
            if isinstance(found, BadRow):
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
    def _rows(self, file: str) -> Iterator[ReadT | BadRow]:
        """The rows of one file, good and bad."""
