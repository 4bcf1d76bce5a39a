"""Downloads of benchmark files: checked and complete before anything is put in place."""

import gzip
import hashlib
import lzma
import os
import sys
import tarfile
import tempfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pooch

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.source import Download
from t5x_like.text.benchmarks.split_files import data_directory, find_split

_TIMEOUT_S = 60
_CHUNK_BYTES = 2**16
_PARTS = ".downloads"

# Text shrinks to a tenth or less. An archive that unpacks to far more is made to fill the disk.
_LARGEST_RATIO = 100
_LEAST_UNPACKED_BYTES = 2**28

# Exceptions for files that are not archives, are damaged, or use an unknown compression.
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
)

Report = Callable[[str], None]


def fetch(names: Sequence[str], data_dir: str | None = None, *, report: Report = print) -> int:
    """Download the missing files of benchmarks and return the number of downloads.

    An interrupted download continues where it stopped, if the server supports that. A published checksum is compared
    before anything is put in place. A failed download doesn't prevent the others.

    Args:
      names: Names of benchmarks.
      data_dir: Data folder, see ``data_directory``.
      report: Called with lines of progress.

    Raises:
      ValueError: No connection, a server refuses, the content differs from the published one, or the disk is full.
    """
    folder = data_directory(data_dir)
    if "://" in folder:
        raise ValueError(f"files are fetched into a local folder, not {folder}; copy them there afterwards")
    wanted: dict[str, Download] = {}
    for name in names:
        benchmark = catalogue.benchmark(name)
        source = benchmark.source
        missing = [split for split in benchmark.splits if find_split(source, split, folder) is None]
        if missing and not source.downloads:
            report(f"{name}: nothing can be fetched by itself; see {source.home}")
        elif missing:
            wanted |= {each.url: each for each in source.downloads}
    failed = []
    for download in wanted.values():
        report(f"fetching {download.url}")
        try:
            fetch_one(download, Path(folder), report=report)
        except ValueError as error:
            failed.append(str(error))
    if failed:
        listed = "\n  ".join(failed)
        raise ValueError(
            f"{len(failed)} of {len(wanted)} downloads failed:\n  {listed}\n"
            f"Fetch them elsewhere and put their files into {folder}: t5x-like data status says "
            "under which names"
        )
    return len(wanted)


def fetch_one(download: Download, folder: Path, *, report: Report = print) -> None:
    """Download one file into ``folder`` and unpack it.

    Args:
      download: File to fetch, with its size and checksum.
      folder: Folder for the unpacked files.
      report: Called with lines about progress.

    Raises:
      ValueError: See ``fetch``.
    """
    part = folder / _PARTS / f"{hashlib.sha256(download.url.encode()).hexdigest()[:12]}.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        _receive(download, part)
    except OSError as error:
        reason = getattr(getattr(error, "response", None), "reason", None) or error
        if size := part.stat().st_size:
            reason = f"{reason}; once more continues after {size:,} bytes"
        else:
            _discard(part)
        raise ValueError(
            f"{download.url} could not be fetched ({reason}); nothing was put in place"
        ) from None
    try:
        _check(download, part, report)
        _place(download, part, folder, report)
    except _DAMAGED as error:
        _discard(part)
        raise ValueError(f"{download.url} is not the archive that it should be: {error}") from None
    except OSError as error:  # disk full or no permission: the download is complete, and is kept
        raise ValueError(
            f"{download.url} was fetched, but could not be put into {folder} ({error}); it is kept as {part}. Make "
            "room, or give another data_dir, and fetch again"
        ) from None
    except ValueError:
        _discard(part)
        raise
    _discard(part)


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    if not any(part.parent.iterdir()):
        part.parent.rmdir()


def _receive(download: Download, part: Path) -> None:
    """Download into ``part``, after the bytes that it already holds.

    Raises:
      OSError: No connection, the server refuses, or the connection ends early.
    """
    start = part.stat().st_size if part.exists() else 0
    if start and start == download.num_bytes:
        return
    headers = {"User-Agent": "t5x-like", "Accept-Encoding": "identity"}
    with part.open("ab") as stream:

        def begin_again(response: Any, **_: object) -> None:
            if response.status_code == 200:  # the server can't continue, and sends everything
                stream.truncate(0)

        get = pooch.HTTPDownloader(
            progressbar=sys.stderr.isatty(),
            chunk_size=_CHUNK_BYTES,
            timeout=_TIMEOUT_S,
            headers=headers | ({"Range": f"bytes={start}-"} if start else {}),
            hooks={"response": begin_again},
        )
        try:
            get(download.url, stream, None)
        except OSError as error:
            if not start or getattr(getattr(error, "response", None), "status_code", None) != 416:
                raise
            stream.truncate(0)  # the server's file ends before ``start``: begin again
            _receive(download, part)


def _check(download: Download, part: Path, report: Report) -> None:
    size, checksum = part.stat().st_size, pooch.file_hash(str(part))
    if download.sha256 is None:
        if download.num_bytes not in (None, size):
            raise ValueError(
                f"{download.url} gave {size:,} bytes, where {download.num_bytes:,} are published"
            )
        report(f"  no checksum is published; its SHA-256 is {checksum}")
    elif checksum != download.sha256:
        raise ValueError(
            f"{download.url} gave {size:,} bytes with the SHA-256 {checksum}, where {download.sha256} is published; "
            "nothing was put in place. Try again; if it stays so, the server's file was changed or is a page of errors"
        )


def _place(download: Download, part: Path, folder: Path, report: Report) -> None:
    """Move files to their places after all are unpacked. Existing files are kept: they may be the user's own."""
    with tempfile.TemporaryDirectory(dir=part.parent) as unpacked:
        ready: list[tuple[Path, Path]] = []
        num_left = max(_LEAST_UNPACKED_BYTES, _LARGEST_RATIO * part.stat().st_size)
        for name, stream in _files_in(download, part):
            target = _target(download, name, folder)
            if target is None:
                continue
            waiting = Path(unpacked) / str(len(ready))
            with waiting.open("wb") as out:
                while chunk := stream.read(_CHUNK_BYTES):
                    num_left -= len(chunk)
                    if num_left < 0:
                        raise ValueError(
                            f"{download.url} unpacks to more than {_LARGEST_RATIO} times its size; nothing was put in "
                            "place"
                        )
                    out.write(chunk)
            ready.append((waiting, target))
        if not ready:
            raise ValueError(f"{download.url} holds none of the files {', '.join(download.unpack)}")
        for waiting, target in ready:
            if target.exists():
                report(f"  {target} is there already, and stays as it is")
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(waiting, target)


def _target(download: Download, name: str, folder: Path) -> Path | None:
    if name in download.unpack:
        relative = download.unpack[name]
    elif "" in download.unpack and not Path(name).name.startswith(".") and "__MACOSX" not in name:
        relative = download.unpack[""] + name
    else:
        return None
    target = (folder / relative).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise ValueError(f"{download.url} has a file named {name!r}, which is outside the data folder")
    return target


def _files_in(download: Download, part: Path) -> Iterator[tuple[str, BinaryIO]]:
    """Yield the files of an archive; a plain file has the name ``""``."""
    path = urllib.parse.urlparse(download.url).path
    if path.endswith(".zip"):
        with zipfile.ZipFile(part) as archive:
            for name in archive.namelist():
                if not name.endswith("/"):
                    with archive.open(name) as stream:
                        yield name, stream  # pyright: ignore[reportReturnType] - it reads bytes
    elif path.endswith((".tar.gz", ".tgz", ".tar")):
        with tarfile.open(part) as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is not None:
                    yield member.name.removeprefix("./"), stream  # pyright: ignore[reportReturnType]
    else:
        with part.open("rb") as stream:
            yield "", stream
