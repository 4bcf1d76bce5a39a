"""Counts of what was read from files of pages and what was left out, with the first examples of each reason."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from t5x_like.io.decompression import Chunk, MissingBytes, split_lines
from t5x_like.message_sentences import sentence

OnCorruption = Literal["fail", "skip"]

_EXAMPLES = 5


@dataclass
class ReadLog:
    """Counts with keys such as ``split-wet-file:passed``, which can be pickled and merged.

    Keys with ``filtered`` count content that isn't a page. Keys with ``damaged`` count unreadable content; the first of
    it raises an error if ``on_corruption`` is "fail". Keys with ``noticed`` count oddities of pages that were read.

    Attributes:
      on_corruption: "fail" or "skip".
      counts: Counts by key.
      examples: The first messages for each key of damage or oddities, each with file and position.
    """

    on_corruption: OnCorruption = "fail"
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def merge(self, other: "ReadLog") -> None:
        """Add the log of another process that read later files."""
        self.counts.update(other.counts)
        for key, examples in other.examples.items():
            self._keep(key, examples)

    def _keep(self, key: str, examples: list[str]) -> None:
        kept = self.examples.setdefault(key, [])
        kept += examples[: _EXAMPLES - len(kept)]

    @property
    def num_damaged(self) -> int:
        """Number of times that content could not be read."""
        return sum(count for key, count in self.counts.items() if ":damaged:" in key)

    def __str__(self) -> str:
        passed = sum(count for key, count in self.counts.items() if key.endswith(":passed"))
        first = next((examples[0] for key, examples in self.examples.items() if ":damaged:" in key), None)
        return f"{passed:,} pages read, damage met {self.num_damaged:,} times" + (
            f" (first: {first})" if first else ""
        )


@dataclass(frozen=True)
class FileLog:
    """The log of one file.

    Attributes:
      log: The log of all files.
      file: Name of the file.
      kind: Kind of the file.
      unit: Unit of positions in the file: ``record at byte``, ``line`` or ``row``.
      address: URL of the file, if it has one: the file of a folder.
    """

    log: ReadLog
    file: str
    kind: str
    unit: str
    address: str | None = None

    @property
    def only_url(self) -> str:
        """URL of the one page of the file."""
        return self.address or self.placeholder_url(1)

    def placeholder_url(self, position: int) -> str:
        """Return the URL of a document that has none: its file and position, because URLs identify pages."""
        return f"{self.address or self.file}#{position}"

    def count(self, what: str, number: int = 1) -> None:
        """Add to a count.

        Args:
          what: Last part of the key, such as ``passed`` or ``filtered:no_url``.
          number: Amount.
        """
        self.log.counts[f"split-{self.kind}-file:{what}"] += number

    def notice(self, what: str, position: int | None, reason: str) -> None:
        """Count an oddity of a page that is read all the same.

        Args:
          what: Name of the oddity, for the key.
          position: Position in the file.
          reason: Message.
        """
        self._note(f"noticed:{what}", self.where(position) + ": " + reason)

    def damage(self, what: str, position: int | None, reason: str) -> None:
        """Count unreadable content.

        Args:
          what: Name of the damage, for the key.
          position: Position in the file; None for the whole file.
          reason: Message.

        Raises:
          ValueError: ``on_corruption`` is "fail".
        """
        message = f"{self.where(position)}: {reason}"
        if self.log.on_corruption == "fail":
            raise ValueError(
                f"{sentence(message)} Correct the file, or set on_corruption='skip' "
                "(ON_CORRUPTION in a recipe) to leave such parts out, counted"
            )
        self._note(f"damaged:{what}", message)

    def good_lines(self, chunks: Iterable[Chunk], *, max_bytes: int) -> Iterator[tuple[int, bytes]]:
        """Yield numbered lines; gaps and lines that are too long are damage.

        Args:
          chunks: Decompressed content of the file.
          max_bytes: Longest line.

        Raises:
          ValueError: There is damage, and ``on_corruption`` is "fail".
        """
        for number, line in split_lines(chunks, max_bytes=max_bytes):
            if isinstance(line, MissingBytes):
                self.damage(line.kind, number, line.reason)
            else:
                yield number, line

    def where(self, position: int | None) -> str:
        """Return the name of a position for messages: ``FILE, record at byte 1234``."""
        return self.file if position is None else f"{self.file}, {self.unit} {position}"

    def decode(self, content: bytes, position: int, *, inside: str = "", is_cut: bool = False) -> str:
        """Decode UTF-8; invalid bytes are damage, and U+FFFD in the text.

        Args:
          content: The bytes.
          position: Position in the file.
          inside: End of the message, such as " of the line".
          is_cut: True if the end of the content is missing, so that an incomplete last character is no damage.

        Raises:
          ValueError: Bytes are invalid and ``on_corruption`` is "fail".
        """
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            if not is_cut or error.end < len(content):
                self.damage("invalid_utf8", position, f"invalid UTF-8 at byte {error.start}{inside}")
        text = content.decode(errors="replace")
        self.count("replaced_characters", text.count("\ufffd") - content.count("\ufffd".encode()))
        return text

    def has_content(self, text: str, position: int) -> bool:
        """Return False for a blank text, which is counted; report NUL bytes in others.

        Args:
          text: Text of a document.
          position: Number of the document in its file, for messages.
        """
        if not text.strip():
            self.count("filtered:no_content")
            return False
        if "\0" in text:
            self.notice("nul_bytes", position, "the text holds NUL bytes, which are kept")
        return True

    def _note(self, what: str, message: str) -> None:
        self.count(what)
        self.log._keep(f"split-{self.kind}-file:{what}", [message])
