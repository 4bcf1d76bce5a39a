"""The input of a build: files by name or pattern, and the documents below folders."""

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from t5x_like.corpora.pages.file_kinds import COMPRESSED_ENDINGS, Kind, kind_from_name
from t5x_like.io.files import as_path
from t5x_like.io.paths import find_files
from t5x_like.nested_values import one_or_several

DOCUMENT_KINDS: tuple[Kind, ...] = ("html", "markdown", "text")
BATCH_BYTES = 4 * 10**6  # a task for each of many small files would cost more than reading them

HIDDEN, LINK, EMPTY, SPECIAL = "hidden", "symbolic link", "empty", "not a regular file"
_NO_ENDING = "no ending"
_MOST_SHOWN = 8


class InputFile(NamedTuple):
    """One file of the input.

    Attributes:
      path: A local or bucket path.
      size: Stored bytes.
      address: For a file of a folder, its path from the folder's name on: the URL of its page. It doesn't depend on
        where the folder lies. None for a file that was named.
    """

    path: str
    size: int
    address: str | None = None

    @property
    def name(self) -> str:
        """Name of the file in manifests and in the order of files."""
        return self.path if self.address is None else self.address


class InputBatch(NamedTuple):
    """Files that one task reads.

    Attributes:
      first: Index of the first file among all input files.
      files: One file, or consecutive small files of folders.
    """

    first: int
    files: tuple[InputFile, ...]

    @property
    def size(self) -> int:
        """Stored bytes of the files."""
        return sum(file.size for file in self.files)


class BuildInput(NamedTuple):
    """All input of a build.

    Attributes:
      files: Files, sorted by name.
      left_out: Number of the folders' files that aren't read, by reason: ``hidden``, ``symbolic link``, ``empty``,
        ``not a regular file``, or their ending. A hidden folder counts once.
    """

    files: tuple[InputFile, ...]
    left_out: Counter[str]

    def batches(self) -> list[InputBatch]:
        """Return the files divided into tasks by their sizes alone."""
        batches: list[InputBatch] = []
        for index, file in enumerate(self.files):
            last = batches[-1] if batches else None
            joins = (
                last is not None
                and file.address is not None
                and last.files[0].address is not None
                and last.size + file.size <= BATCH_BYTES
            )
            if joins and last is not None:
                batches[-1] = InputBatch(last.first, (*last.files, file))
            else:
                batches.append(InputBatch(index, (file,)))
        return batches


def find_input(patterns: str | Sequence[str], kind: Kind | None = None) -> BuildInput:
    """Find the files of paths and patterns; a folder means the documents in it and below.

    Symbolic links in a folder aren't followed, so that nothing outside is read, no loop is entered, and no file is read
    twice.

    Args:
      patterns: Paths or patterns of files and folders.
      kind: The kind of file to take from folders; None takes HTML, Markdown and text.

    Raises:
      ValueError: A path doesn't exist, a pattern matches nothing, a folder has no such file, or two folders have the
        same name.
    """
    paths = list(dict.fromkeys(find_files(patterns)))
    folders = [path for path in paths if "://" not in path and os.path.isdir(path)]
    files = [InputFile(path, as_path(path).stat().length) for path in paths if path not in folders]
    left_out: Counter[str] = Counter()
    seen = {os.path.realpath(file.path) for file in files} if folders else set()
    for folder, name in zip(folders, _names(folders), strict=True):
        documents, others = _documents(folder, name, ("text",) if kind == "lines" else one_or_several(kind))
        left_out += others
        for document in documents:
            real = os.path.realpath(document.path)  # one folder may be given below another
            if real not in seen:
                files.append(document)
                seen.add(real)
    return BuildInput(tuple(sorted(files, key=lambda file: file.name)), left_out)


def describe_left_out(left_out: Counter[str] | dict[str, int]) -> str:
    """Return counts in words, the most frequent first: ``12 .png, 3 hidden and 4 others``."""
    ordered = sorted(left_out.items(), key=lambda item: (-item[1], item[0]))
    words = [f"{count:,} {reason}" for reason, count in ordered[:_MOST_SHOWN]]
    others = sum(count for _, count in ordered[_MOST_SHOWN:])
    return ", ".join([*words, *([f"{others:,} others"] if others else [])])


def _names(folders: Sequence[str]) -> list[str]:
    """Return the first part of the addresses of each folder's files."""
    names = [_as_text(os.path.basename(os.path.abspath(folder))) or "root" for folder in folders]
    for (first, name), (second, other) in itertools.combinations(zip(folders, names, strict=True), 2):
        if name == other:
            raise ValueError(
                f"the folders {first!r} and {second!r} have the same name, so their pages would have the same "
                "addresses; rename one, or give a folder that holds both"
            )
    return names


def _documents(folder: str, name: str, kinds: Sequence[str | None]) -> tuple[list[InputFile], Counter[str]]:
    wanted = [kind for kind in kinds if kind] or DOCUMENT_KINDS
    documents: list[InputFile] = []
    left_out: Counter[str] = Counter()
    for path, reason in _walk(folder):
        if reason is None and kind_from_name(path) not in wanted:
            reason = _ending(path)
        if reason is not None:
            left_out[reason] += 1
            continue
        address = "/".join((name, *os.path.relpath(path, folder).split(os.sep)))
        documents.append(InputFile(path, os.path.getsize(path), _as_text(address)))
    if not documents:
        others = f" (left out: {describe_left_out(left_out)})" if left_out else ""
        raise ValueError(
            f"{folder!r} is a folder without a file to read{others}; needed are names that end in "
            ".html, .md or .txt, or in these and .gz or .zst. Name other files by a pattern, such as "
            f"'{folder.rstrip('/')}/*.jsonl'"
        )
    return documents, left_out


def _walk(folder: str) -> Iterator[tuple[str, str | None]]:
    """Yield every file below a folder in order, with the reason why it can't be a document."""
    for parent, folders, names in os.walk(folder, onerror=_raise):
        entries = {name: os.path.join(parent, name) for name in (*folders, *names)}
        hidden = {name for name in entries if name.startswith(".")}
        links = {name for name, path in entries.items() if os.path.islink(path)}
        folders[:] = sorted(set(folders) - hidden - links)
        for name in sorted({*names, *hidden, *links}):
            yield entries[name], _reason(entries[name], is_hidden=name in hidden, is_link=name in links)


def _reason(path: str, *, is_hidden: bool, is_link: bool) -> str | None:
    if is_hidden:
        return HIDDEN
    if is_link:
        return LINK
    if not os.path.isfile(path):
        return SPECIAL
    return EMPTY if not os.path.getsize(path) else None


def _raise(error: OSError) -> None:
    raise ValueError(f"the folder {error.filename!r} can't be read: {error.strerror}") from error


def _ending(path: str) -> str:
    name = os.path.basename(path).lower()
    for ending in COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    return _as_text(os.path.splitext(name)[1]) or _NO_ENDING


def _as_text(name: str) -> str:
    """Return a name of any bytes as Unicode, which JSON can hold."""
    return os.fsencode(name).decode("utf-8", "replace")


def all_files(batches: Iterable[InputBatch]) -> list[InputFile]:
    """Return the files of batches in order."""
    return [file for batch in batches for file in batch.files]
