"""The documents of Debian packages as files of HTML, Markdown and text, in a folder for each package."""

import hashlib
import itertools
import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from data.prepare.documentation_text import dictionary_pages, pod_as_html, xml_as_html
from data.prepare.open_docs_sources import LEFT_OUT, Source
from data.prepare.packages import read_control, stream_members
from t5x_like.corpora.pages.file_kinds import kind_from_name

PathLike = str | os.PathLike[str]

_AS_HTML = {".page": xml_as_html, ".docbook": xml_as_html, ".pod": pod_as_html}


class PackageFiles(NamedTuple):
    """What a package gives to the corpus.

    Attributes:
      package: Its name.
      version: Its version.
      sha256: Of the package.
      package_bytes: Size of the package.
      files: Number of documents.
      bytes: Size of the documents.
    """

    package: str
    version: str
    sha256: str
    package_bytes: int
    files: int
    bytes: int


def unpack(source: Source, package: PathLike, folder: PathLike, copyrights: PathLike) -> PackageFiles:
    """Write a package's documents to ``folder/PACKAGE``, and its copyright file to ``copyrights/PACKAGE``.

    Args:
      source: The package, and which of its files are documents.
      package: The package's file.
      folder: Folder of all packages.
      copyrights: Folder of copyright files.

    Raises:
      ValueError: The file is another package, is damaged, or has no document.
    """
    control = read_control(package)
    if control.get("Package") != source.package:
        raise ValueError(f"{package} is the package {control.get('Package')!r}, not {source.package!r}")
    files = size = 0
    for name, content in _documents(source, package, Path(copyrights)):
        target = Path(folder, source.package, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        files, size = files + 1, size + len(content)
    if not files:
        raise ValueError(f"{package} has no document of {source.include}; is it Debian 12's package?")
    stored = Path(package).read_bytes()
    sha256 = hashlib.sha256(stored).hexdigest()
    return PackageFiles(source.package, control["Version"], sha256, len(stored), files, size)


def _documents(source: Source, package: PathLike, copyrights: Path) -> Iterator[tuple[str, bytes]]:
    dictionaries: dict[str, dict[str, bytes]] = {}
    for name, content in stream_members(package):
        if name == f"usr/share/doc/{source.package}/copyright":
            (copyrights / source.package).write_bytes(content)
        path = PurePosixPath(name)
        if not _is_wanted(source, name):
            continue
        if path.parent.name == "dictd":
            stem, _, ending = path.name.partition(".")
            dictionaries.setdefault(stem, {})[ending] = content
        elif path.suffix in _AS_HTML:
            text = _AS_HTML[path.suffix](content.decode("utf-8", "replace"))
            yield f"{name}.html", text.encode()
        elif kind_from_name(name) in ("html", "markdown", "text"):
            yield name, content
    for stem, files in sorted(dictionaries.items()):
        pages = dictionary_pages(files["index"], files["dict.dz"])
        for name, text in itertools.islice(pages, 0, None, source.every):
            yield f"{stem}/{name}", text.encode()


def _is_wanted(source: Source, name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in source.include) and not any(
        fnmatch(name, pattern) for pattern in (*LEFT_OUT, *source.exclude)
    )
