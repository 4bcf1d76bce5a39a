"""Base of tasks from plain files: files by split, a vocabulary, rows and their token ids."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from t5x_like.batch import DataField
from t5x_like.config_class import config_class
from t5x_like.io.paths import find_files
from t5x_like.text.fields import Feature
from t5x_like.text.heads import HeadFormat
from t5x_like.text.objectives.objective import ExampleSpec
from t5x_like.text.tasks.rows import BadRow, RowPolicy, RowT
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.tokenizer import Tokenizer

ReadT = TypeVar("ReadT")
FoundT = TypeVar("FoundT")
FoundT_co = TypeVar("FoundT_co", covariant=True)


class TaskVisitor(Protocol[FoundT_co]):
    """Function with one case for each type of task, such as the creation of its source of examples."""

    def pairs(self, task: Any) -> FoundT_co:
        """Handle a task of inputs and targets, a ``PairsTask``."""
        ...

    def chats(self, task: Any) -> FoundT_co:
        """Handle a task of conversations, a ``ChatTask``."""
        ...

    def documents(self, task: Any) -> FoundT_co:
        """Handle a ``PretrainingTask``."""
        ...


class BaseTask(ABC):
    """Base of all tasks, from files or of another library.

    Attributes:
      name: Name in the registry.
      is_pretraining: Whether the task has no targets of its own.
    """

    name: str
    is_pretraining: ClassVar[bool] = False

    @property
    @abstractmethod
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """Tokenizer of the vocabulary; None if another library tokenizes."""
        return None

    @property
    def declared_streams(self) -> tuple[DataField, ...]:
        """Streams that the task declares next to those that every batch may have."""
        return ()

    @property
    @abstractmethod
    def spec(self) -> ExampleSpec:
        """Properties of the task's examples for a loader."""

    def head_format(self) -> HeadFormat:
        """Return the format in which a head reads the rows.

        Raises:
          ValueError: No head reads this task.
        """
        raise ValueError(
            f"{self._no_head_format()}: its answers are generated text; train an encoder-decoder or a decoder on it"
        )

    def _no_head_format(self) -> str:
        return f"task {self.name!r} has no form for an encoder's head"

    def row_policy(self) -> RowPolicy:
        """Return the reaction to bad rows."""
        return RowPolicy()

    def published_rows(self, split: str) -> int | None:
        """Return the published number of examples of a split; None if it is unknown."""
        del split

    def texts(self, split: str) -> Iterator[str]:
        """Yield the input and the target of every row of a split, as one text.

        Raises:
          ValueError: There are none, or a row is bad.
        """
        del split
        raise ValueError(f"task {self.name!r} has no inputs and targets to keep out; name one that has")


@config_class
class FileTask(BaseTask, Generic[ReadT]):
    """Base of tasks that read ``files``.

    Attributes:
      name: Name in the registry.
      vocabulary: Path of a vocabulary, or a name such as "bytes".
      files: One or several paths or patterns for each split.
      on_bad_row: "fail" stops at the first bad row, "skip" skips bad rows and counts them.
      num_sentinels: Number of sentinels added to the vocabulary, unless it has its own.
      max_examples: Train on the first so many rows, again and again, as FLAN on 30,000 of each task (Wei et al. 2021,
        section 2.4); None for all. Other splits are read in full.
    """

    name: str
    vocabulary: str
    files: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    on_bad_row: Literal["fail", "skip"] = "fail"
    num_sentinels: int = 100
    max_examples: int | None = None

    # Names of an example and a file in messages.
    _READS: ClassVar[str] = "row"
    _FILE: ClassVar[str] = "train.tsv"

    def __post_init__(self) -> None:
        if not self.files:
            raise ValueError(f"task {self.name!r} has no files; give files={{'train': {self._FILE!r}, …}}")
        if self.on_bad_row not in ("fail", "skip"):
            raise ValueError(
                f"task {self.name!r}: on_bad_row must be 'fail' or 'skip', not {self.on_bad_row!r}"
            )
        if self.max_examples is not None and self.max_examples < 1:
            raise ValueError(f"task {self.name!r}: max_examples must be at least 1, not {self.max_examples}")

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits with files."""
        return tuple(self.files)

    @property
    def tokenizer(self) -> Tokenizer:
        """Tokenizer of the vocabulary.

        Raises:
          ValueError: It can't be opened, or is in a bucket that can't be reached.
        """
        try:
            return open_tokenizer(self.vocabulary, self.num_sentinels)
        except ValueError:
            raise
        except Exception as error:
            # Each type of bucket raises its own errors.
            if "://" not in self.vocabulary:
                raise
            raise ValueError(
                f"task {self.name!r}: its vocabulary {self.vocabulary} can't be reached "
                f"({str(error).strip().splitlines()[0]}); copy it here and give its path; for benchmarks that are only "
                "named, $T5X_LIKE_VOCABULARY is that path"
            ) from error

    @property
    def metric_functions(self) -> Sequence[Callable[..., Mapping[str, object]]]:
        """Metrics of answers, functions of targets and predictions that return scores."""
        return ()

    @abstractmethod
    def features(self) -> tuple[Feature, ...]:
        """Return the arrays of each tokenized row: ``inputs`` and ``targets``, or ``tokens`` and their annotations."""

    @abstractmethod
    def tokenize(self, rows: Sequence[ReadT]) -> list[Mapping[str, Any]]:
        """Return the features of each row, without end of sequence and of any length.

        Raises:
          ValueError: A text can't be encoded.
        """

    @abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """Return everything besides files and vocabulary that determines the task's tokens."""

    @abstractmethod
    def accept(self, visitor: TaskVisitor[FoundT]) -> FoundT:
        """Call the visitor's method for this type of task."""

    @abstractmethod
    def shown(self, row: ReadT) -> dict[str, object] | None:
        """Return a row's columns for display; None if rows and examples don't correspond."""

    def word_question(self, line: str) -> str:
        """Return a user's line as input for a model, formatted as in training.

        Raises:
          ValueError: It lacks columns that the template needs.
        """
        return line

    def require_answers(self) -> None:
        """Check that the task has answers to score.

        Raises:
          ValueError: It has none.
        """

    def as_trained(self) -> "FileTask[ReadT]":
        """Return the task with all features that training on it needs."""
        return self

    def row_policy(self) -> RowPolicy:
        return RowPolicy(self.on_bad_row)

    def read(self, split: str, policy: RowPolicy | None = None) -> Iterator[ReadT]:
        """Yield the rows of a split in file order.

        Args:
          split: Split to read.
          policy: Counter of skipped rows; by default one for ``on_bad_row``.

        Raises:
          ValueError: No such split or file, a bad row (under ``on_bad_row="fail"``), a missing column, or no valid
            row. Messages name file and line.
        """
        yield from self._good_rows(split, policy, self._rows)

    def _good_rows(
        self, split: str, policy: RowPolicy | None, read: Callable[[str], Iterator[RowT | BadRow]]
    ) -> Iterator[RowT]:
        """Yield the good rows among those that ``read`` yields for each file, and count both kinds."""
        if split not in self.files:
            raise ValueError(f"task {self.name!r} has no split {split!r}; there are {', '.join(self.files)}")
        policy = self.row_policy() if policy is None else policy
        rows = (row for file in find_files(self.files[split]) for row in read(file))
        yield from islice(policy.good_rows(rows), self.limit_of(split))
        if not policy.num_rows:
            raise self.none_usable(split, policy)

    def limit_of(self, split: str) -> int | None:
        """Return the number of rows to read of a split; None for all."""
        return self.max_examples if split == "train" else None

    def read_file(self, file: str, policy: RowPolicy) -> Iterator[ReadT]:
        """Yield the rows of one file.

        Args:
          file: Path of the file.
          policy: Reaction to bad rows.

        Raises:
          ValueError: As ``read``.
        """
        return policy.good_rows(self._rows(file))

    def none_usable(self, split: str, policy: RowPolicy | None = None) -> ValueError:
        """Return an error for a split without a valid row.

        Args:
          split: Name of the split.
          policy: Policy that skipped bad rows; None if there were no rows.
        """
        files = find_files(self.files[split])
        where = f"{files[0]}{f' and {len(files) - 1} more files' if files[1:] else ''}"
        reason = policy if policy and policy.num_skipped else "there is no row in it"
        return ValueError(
            f"task {self.name!r}, split {split!r}: no usable {self._READS} in {where}; {reason}"
        )

    @abstractmethod
    def _rows(self, file: str) -> Iterator[ReadT | BadRow]:
        """Yield the rows of one file, good and bad."""
