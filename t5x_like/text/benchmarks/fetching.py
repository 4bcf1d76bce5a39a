"""Downloads a benchmark's files to where they are looked for: whole and checked, or not at all."""

import gzip
import hashlib
import http.client
import lzma
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from t5x_like.io.progress import Progress
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.finding import data_directory, find_split
from t5x_like.text.benchmarks.source import Download

_TIMEOUT_S = 60
_CHUNK_BYTES = 2**20
_PARTS = ".downloads"

# What an archive raises that isn't one, is damaged, or is packed in a way that isn't known.
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
)

Tell = Callable[[str], None]


def fetch(names: Sequence[str], data_dir: str | None = None, *, tell: Tell = print) -> int:
    """Downloads what benchmarks lack, and returns how many files that were.

    A download that was cut short goes on where it stopped, if the server can do that. Its checksum is compared, where
    one is published, before anything is put in place. One that fails doesn't keep the others from being fetched.

    Raises:
      ValueError: no connection, a server refuses, what came is not what was published, or there is no room for it.
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
            tell(f"{name}: nothing can be fetched by itself; see {source.home}")
        elif missing:
            wanted |= {each.url: each for each in source.downloads}
    failed = []
    for download in wanted.values():
        tell(f"fetching {download.url}")
        try:
            fetch_one(download, Path(folder), tell=tell)
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


def fetch_one(download: Download, folder: Path, *, tell: Tell = print) -> None:
    """Downloads one file into ``folder`` and unpacks it.

    Raises:
      ValueError: as ``fetch``.
    """
    part = folder / _PARTS / f"{hashlib.sha256(download.url.encode()).hexdigest()[:12]}.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        _receive(download, part)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if part.exists() and not part.stat().st_size:
            part.unlink()
        _remove_if_empty(part.parent)
        raise ValueError(
            f"{download.url} could not be fetched ({reason}); nothing was put in place"
        ) from None
    try:
        _check(download, part, tell)
        _place(download, part, folder, tell)
    except _DAMAGED as error:
        _discard(part)
        raise ValueError(f"{download.url} is not the archive that it should be: {error}") from None
    except OSError as error:  # no room, or no right to write: what came is whole, and is kept
        raise ValueError(
            f"{download.url} was fetched, but could not be put into {folder} ({error}); it is kept as {part}. Make "
            "room, or give another --data_dir, and fetch again"
        ) from None
    except ValueError:
        _discard(part)
        raise
    _discard(part)


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _remove_if_empty(part.parent)


def _remove_if_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


def _receive(download: Download, part: Path) -> None:
    there = part.stat().st_size if part.exists() else 0
    if there and there == download.num_bytes:
        return
    request = urllib.request.Request(download.url, headers={"User-Agent": "t5x-like"})
    if there:
        request.add_header("Range", f"bytes={there}-")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            goes_on = there and getattr(response, "status", None) == 206
            there = there if goes_on else 0
            coming = int(response.headers.get("Content-Length") or 0) + there
            with (
                part.open("ab" if goes_on else "wb") as stream,
                Progress("  received", coming or None, "bytes") as progress,
            ):
                progress.skip(there)
                while chunk := response.read(_CHUNK_BYTES):
                    stream.write(chunk)
                    progress.add(len(chunk))
        if part.stat().st_size < coming:
            raise OSError(
                f"the connection ended after {part.stat().st_size:,} of {coming:,} bytes; once more goes on from there"
            )
    except urllib.error.HTTPError as error:
        if error.code != 416:  # what was asked for lies behind the end: begin again
            raise
        part.unlink()
        _receive(download, part)


def _check(download: Download, part: Path, tell: Tell) -> None:
    size = part.stat().st_size
    if download.num_bytes is not None and size != download.num_bytes and download.sha256 is None:
        raise ValueError(f"{download.url} gave {size:,} bytes, where {download.num_bytes:,} are published")
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if download.sha256 is None:
        tell(f"  no checksum is published; its SHA-256 is {found}")
    elif found != download.sha256:
        raise ValueError(
            f"{download.url} gave {size:,} bytes with the SHA-256 {found}, where {download.sha256} is published; "
            "nothing was put in place. Try again; if it stays so, the server's file was changed or is a page of errors"
        )


def _place(download: Download, part: Path, folder: Path, tell: Tell) -> None:
    """Puts files in place when all of them are unpacked. Those that are there stay: they may be a user's own."""
    with tempfile.TemporaryDirectory(dir=part.parent) as unpacked:
        ready: list[tuple[Path, Path]] = []
        for name, stream in _files_in(download, part):
            target = _target(download, name, folder)
            if target is None:
                continue
            waiting = Path(unpacked) / str(len(ready))
            with waiting.open("wb") as out:
                shutil.copyfileobj(stream, out, _CHUNK_BYTES)
            ready.append((waiting, target))
        if not ready:
            raise ValueError(f"{download.url} holds none of the files {', '.join(download.unpack)}")
        for waiting, target in ready:
            if target.exists():
                tell(f"  {target} is there already, and stays as it is")
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
        raise ValueError(f"{download.url} has a file named {name!r}, which lies outside the data folder")
    return target


def _files_in(download: Download, part: Path) -> Iterator[tuple[str, BinaryIO]]:
    """The files of an archive; a plain file is the one without a name."""
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
