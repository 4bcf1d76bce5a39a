"""Local and bucket paths, atomic writes and JSON."""

import functools
import importlib.util
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from etils import epath

from t5x_like.nested_values import parts_of

PathLike = str | os.PathLike[str]

MAX_JSON_BYTES = 256 * 2**20  # the largest tokenizer.json that is published has 33 MB
MAX_JSON_DEPTH = 64
_BUCKET_LIBRARIES = {"gs": "gcsfs", "s3": "s3fs"}

# etils reads every bucket by TensorFlow where that is installed, and TensorFlow knows no s3://. etils looks at this
# variable once, at its first path.
if any(map(importlib.util.find_spec, _BUCKET_LIBRARIES.values())):
    os.environ.setdefault("EPATH_USE_TF", "0")


def as_path(path: PathLike) -> epath.Path:
    """Return a path object for a local path or a bucket (``gs://…``, ``s3://…``).

    Raises:
      ValueError: No library that reads the bucket is installed.
    """
    scheme, separator, _ = os.fspath(path).partition("://")
    if separator and scheme in _BUCKET_LIBRARIES and not _reads_buckets(scheme):
        library = _BUCKET_LIBRARIES[scheme]
        raise ValueError(
            f"{os.fspath(path)}: {scheme}:// needs {library}: pip install {library}"
            + (
                ". TensorFlow reads it, too: pip install 't5x-like[seqio]'"
                if _tensorflow_reads(scheme)
                else ""
            )
        )
    return epath.Path(path)


@functools.cache
def _reads_buckets(scheme: str) -> bool:
    if importlib.util.find_spec(_BUCKET_LIBRARIES[scheme]):
        import fsspec.config

        # Kept listings would hide what other processes write.
        fsspec.config.conf.setdefault(scheme, {}).setdefault("use_listings_cache", False)
        return True
    return _tensorflow_reads(scheme) and importlib.util.find_spec("tensorflow") is not None


def _tensorflow_reads(scheme: str) -> bool:
    return scheme == "gs" and os.environ.get("EPATH_USE_TF") != "0"


def changed_seconds(path: PathLike) -> float:
    """Return the time of a file's last change, in seconds since 1970.

    Args:
      path: Local file or one in a bucket.
    """
    file = as_path(path)
    seconds = file.stat().mtime
    if seconds or "://" not in os.fspath(path):
        return seconds
    import fsspec  # etils looks for the time under a name that gcsfs and s3fs don't use

    return fsspec.url_to_fs(os.fspath(path))[0].modified(os.fspath(path)).timestamp()


def write_text(path: PathLike, text: str) -> None:
    """Write text atomically: readers see the old file or the new one.

    Args:
      path: Local file or one in a bucket.
      text: Whole content, written as UTF-8.
    """
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: PathLike, content: bytes) -> None:
    """Write bytes atomically: to a temporary file in the same folder, which is then renamed.

    Buckets show a file when it has been received as a whole.

    Args:
      path: Local file or one in a bucket.
      content: Whole content.
    """
    target = as_path(path)
    if "://" in os.fspath(path):
        target.write_bytes(content)
        return
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


def write_json(path: PathLike, value: object) -> None:
    """Write indented JSON atomically; NaN, which JSON can't represent, is refused.

    Args:
      path: Local file or one in a bucket.
      value: Value that JSON can represent.
    """
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def lfs_advice(beginning: bytes) -> str | None:
    """Return what to do about a file that Git LFS holds elsewhere, by its first bytes; ``None`` for other files."""
    if not beginning.startswith(b"version https://git-lfs"):
        return None
    return "is a Git LFS pointer, not the file itself: run `git lfs pull` where it was cloned"


def read_json(path: PathLike, kind: type = object) -> Any:
    """Read a JSON file, which somebody else may have written.

    Args:
      path: The file.
      kind: Type of the whole value: ``dict`` for a JSON object, ``list``; by default any.

    Raises:
      ValueError: The file is too large, is not valid JSON, is nested too deeply, names a key twice, or holds a value
        of another type. The message names the file.
    """
    file, name = as_path(path), os.fspath(path)
    size = file.stat().length
    if size > MAX_JSON_BYTES:
        raise ValueError(f"{name} has {size:,} bytes; a JSON file of at most {MAX_JSON_BYTES:,} is read")
    try:
        text = file.read_text(encoding="utf-8")
        value = json_value(text, object_pairs_hook=_refuse_double_keys, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        advice = lfs_advice(file.read_bytes())
        raise ValueError(f"{name} {advice or f'is not valid JSON: {error}'}") from error
    if not isinstance(value, kind):
        wanted = {dict: "an object", list: "a list"}.get(kind, kind.__name__)
        raise ValueError(f"{name} holds a value of type {type(value).__name__}, not {wanted}")
    return value


def json_value(text: str, **options: Any) -> Any:
    """Parse JSON; values nested too deeply and numbers with too many digits are invalid too.

    Args:
      text: The whole value.
      **options: For ``json.loads``.

    Raises:
      JSONDecodeError: The text is not JSON.
    """
    try:
        value = json.loads(text, **options)
        if _is_deep(value):
            raise RecursionError
        return value
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError(f"nested deeper than {MAX_JSON_DEPTH} levels", text, 0) from None
    except ValueError as error:  # such as a number with too many digits
        raise json.JSONDecodeError(str(error), text, 0) from None


def json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
      JSONDecodeError: The text is not JSON.
      ValueError: It is another value.
    """
    value = json_value(text)
    if not isinstance(value, dict):
        raise ValueError(f"an object {{…}} is expected, found {type(value).__name__}")
    return value


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [part for each in level for part in (parts_of(each) or {}).values()]
        if not level:
            return False
    return any(parts_of(each) is not None for each in level)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON's")


def _refuse_double_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice!r} occurs twice in an object")
    return value


def write_jsonl(path: PathLike, rows: Iterable[object]) -> None:
    """Write one JSON object on each line, atomically.

    Args:
      path: Local file or one in a bucket.
      rows: Values that JSON can represent.
    """
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
            yield json_value(line.decode("utf-8"))
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
