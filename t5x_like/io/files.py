"""Local and bucket paths, atomic writes, JSON. Everything that lands on disk whole or not at all goes through here."""

import json
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from etils import epath

PathLike = str | os.PathLike[str]


def as_path(path: PathLike) -> epath.Path:
    """A path that works for local folders and for buckets (``gs://…``, ``s3://…``) alike."""
    return epath.Path(path)


def write_text(path: PathLike, text: str) -> None:
    """Writes ``text`` so that a reader sees the old file or the new one, never a half."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: PathLike, content: bytes) -> None:
    """Writes ``content`` atomically: into a neighbour first, then renamed over ``path``."""
    target = as_path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    neighbour = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}"
    try:
        neighbour.write_bytes(content)
        neighbour.replace(target)
    finally:
        neighbour.unlink(missing_ok=True)


def write_json(path: PathLike, value: Any) -> None:
    """Writes ``value`` as indented JSON, atomically. Values JSON has no word for (NaN) are refused."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: PathLike) -> Any:
    """Reads JSON, naming the file when it is not.

    Raises:
      ValueError: the file is not valid JSON.
    """
    try:
        return json.loads(as_path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{os.fspath(path)} is not valid JSON: {error}") from error


def write_jsonl(path: PathLike, rows: Iterable[Any]) -> None:
    """Writes one JSON object a line, atomically."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read_jsonl(path: PathLike) -> Iterator[Any]:
    """Yields the objects of a JSONL file; a line cut short by a kill at the very end is left out."""
    lines = (
        as_path(path).read_bytes().split(b"\n")
    )  # not where else str.splitlines would: texts hold U+2028 and such
    lines = lines if lines[-1] else lines[:-1]
    for number, line in enumerate(lines, start=1):
        try:
            yield json.loads(line.decode("utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            if number == len(lines):
                return
            raise ValueError(f"{os.fspath(path)}:{number} is not valid JSON: {error}") from error


def shipped_directory(name: str) -> Path:
    """The folder ``gin`` or ``data``: at the repository's root in a checkout, inside the package once installed."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package.parent / name, package / "_installed" / name):
        if candidate.is_dir() and (
            (package.parent / "pyproject.toml").is_file() or "_installed" in candidate.parts
        ):
            return candidate
    raise FileNotFoundError(f"neither {package.parent / name} nor {package / '_installed' / name} exists")
