"""Local and bucket paths, atomic writes and JSON."""

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from etils import epath

PathLike = str | os.PathLike[str]


def as_path(path: PathLike) -> epath.Path:
    """Return a path object for a local path or a bucket (``gs://…``, ``s3://…``)."""
    return epath.Path(path)


def write_text(path: PathLike, text: str) -> None:
    """Write text atomically: readers see the old file or the new one."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: PathLike, content: bytes) -> None:
    """Write bytes atomically: to a temporary file in the same folder, which is then renamed."""
    target = as_path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name}.{uuid.uuid4().hex[:8]}"
    try:
        temporary.write_bytes(content)
        temporary.replace(target)
    except OSError as error:
        if error.filename is None:  # a full disk is noticed by a write, which names no file
            error.filename = os.fspath(target)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: PathLike, value: Any) -> None:
    """Write indented JSON atomically; NaN, which JSON can't represent, is refused."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: PathLike) -> Any:
    """Read a JSON file.

    Raises:
      ValueError: The file is not valid JSON; the message names it.
    """
    try:
        return json.loads(as_path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{os.fspath(path)} is not valid JSON: {error}") from error


def write_jsonl(path: PathLike, rows: Iterable[Any]) -> None:
    """Write one JSON object on each line, atomically."""
    write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read_jsonl(path: PathLike, *, on_damage: Callable[[str], None] | None = None) -> Iterator[Any]:
    """Yield the objects of a JSONL file; an incomplete last line, left by a killed writer, is skipped.

    Args:
      path: The file.
      on_damage: Called with the message of each line that is not JSON, which is then skipped.

    Raises:
      ValueError: A line is not JSON, and there is no ``on_damage``.
    """
    lines = as_path(path).read_bytes().split(b"\n")  # str.splitlines would split at U+2028 too
    lines = lines if lines[-1] else lines[:-1]
    for number, line in enumerate(lines, start=1):
        try:
            yield json.loads(line.decode("utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            if number == len(lines):
                return
            message = f"{os.fspath(path)}:{number} is not valid JSON: {error}"
            if on_damage is None:
                raise ValueError(message) from error
            on_damage(message)


def shipped_directory(name: str) -> Path:
    """Return the folder ``gin`` or ``data``: in the repository of a checkout, or inside the installed package."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package.parent / name, package / "_installed" / name):
        if candidate.is_dir() and (
            (package.parent / "pyproject.toml").is_file() or "_installed" in candidate.parts
        ):
            return candidate
    raise FileNotFoundError(f"neither {package.parent / name} nor {package / '_installed' / name} exists")
