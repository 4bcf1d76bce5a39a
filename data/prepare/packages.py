"""Reads single files from packages (.deb, .whl, .zip, .tar.gz) without installing them."""

import fnmatch
import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

PathLike = str | os.PathLike[str]

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER_BYTES = 60


def read_member(package: PathLike, member: str) -> bytes:
    """Return the content of one file in a package.

    Args:
      package: The package.
      member: Path of the file inside, such as ``usr/share/wordnet/data.noun``.

    Raises:
      ValueError: The package has an unsupported format, is damaged, or lacks the file.
    """
    path = Path(package)
    try:
        if path.suffix == ".deb":
            return _from_tar(_debian_data(path), member)
        if path.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(path) as archive:
                return archive.read(member)
        if path.name.endswith((".tar.gz", ".tgz", ".tar.xz")):
            return _from_tar(path.read_bytes(), member)
    except KeyError as error:
        raise ValueError(f"{path} has no file {member}; is it the package the card names?") from error
    except (tarfile.TarError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged or not what its name says: {error}") from error
    raise ValueError(f"{path}: expected a .deb, .whl, .zip or .tar.gz package")


def read_members(package: PathLike, pattern: str) -> list[tuple[str, bytes]]:
    """Return names and contents of a Debian package's files that match a pattern, in alphabetical order.

    Args:
      package: The package.
      pattern: As of ``fnmatch``, such as ``usr/share/doc/*.html``.

    Raises:
      ValueError: The package is none of Debian's, is damaged, or has no such file.
    """
    path = Path(package)
    try:
        with tarfile.open(fileobj=io.BytesIO(_debian_data(path))) as archive:
            members = {member.name.removeprefix("./"): member for member in archive if member.isfile()}
            names = sorted(fnmatch.filter(members, pattern))
            found = [(name, archive.extractfile(members[name])) for name in names]
            contents = [(name, file.read()) for name, file in found if file is not None]
    except tarfile.TarError as error:
        raise ValueError(f"{path} is damaged or not what its name says: {error}") from error
    if not contents:
        raise ValueError(f"{path} has no file {pattern}; is it the package the card names?")
    return contents


def stream_members(package: PathLike) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of all regular files of a Debian package, in its order; links are left out.

    Args:
      package: The package.

    Raises:
      ValueError: The package is none of Debian's, or is damaged.
    """
    path = Path(package)
    try:
        with tarfile.open(fileobj=io.BytesIO(_debian_data(path)), mode="r|*") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                if file is not None:
                    yield member.name.removeprefix("./"), file.read()
    except (tarfile.TarError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"{path} is damaged or not what its name says: {error}") from error


def read_control(package: PathLike) -> dict[str, str]:
    """Return the one-line fields of a Debian package's control file, such as ``Package`` and ``Version`` (deb(5)).

    Raises:
      ValueError: The package is none of Debian's, or is damaged.
    """
    path = Path(package)
    for name, content in _ar_members(path):
        if name.startswith("control.tar"):
            try:
                text = _from_tar(content, "control").decode("utf-8")
            except (tarfile.TarError, KeyError) as error:
                raise ValueError(f"{path} is damaged or not what its name says: {error}") from error
            fields = (line.partition(":") for line in text.splitlines() if not line[:1].isspace())
            return {field: value.strip() for field, _, value in fields}
    raise ValueError(f"{path} has no control.tar inside: it is not a Debian binary package")


def _from_tar(content: bytes, member: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        names = archive.getnames()
        stored_as = f"./{member}" if f"./{member}" in names else member
        file = archive.extractfile(stored_as)
        if file is None:
            raise KeyError(member)
        return file.read()


def _debian_data(path: Path) -> bytes:
    """Return the ``data.tar.*`` inside a Debian package, which is an ``ar`` archive (deb(5))."""
    for name, content in _ar_members(path):
        if name.startswith("data.tar"):
            if name.endswith(".zst"):
                raise ValueError(f"{path} is packed with zstandard; take Debian's package, which uses xz")
            return content
    raise ValueError(f"{path} has no data.tar inside: it is not a Debian binary package")


def _ar_members(path: Path) -> Iterator[tuple[str, bytes]]:
    content = path.read_bytes()
    if not content.startswith(_AR_MAGIC):
        raise ValueError(f"{path} is not a Debian package: it does not start with {_AR_MAGIC!r}")
    position = len(_AR_MAGIC)
    while position + _AR_HEADER_BYTES <= len(content):
        header = content[position : position + _AR_HEADER_BYTES]
        name, size = header[:16].decode("ascii").strip().rstrip("/"), int(header[48:58])
        start = position + _AR_HEADER_BYTES
        yield name, content[start : start + size]
        position = start + size + size % 2  # members start at even offsets
