"""Detection of a file's kind from its name and first bytes."""

import codecs
import re
from typing import Literal, get_args

from t5x_like.io.decompression import is_compressed
from t5x_like.io.text_encoding import WIDE_MARKS

Kind = Literal["wet", "warc", "jsonl", "parquet", "text", "lines", "html", "markdown"]
KINDS: tuple[str, ...] = get_args(Kind)

_BY_ENDING: dict[str, Kind] = {
    ".wet": "wet",
    ".warc": "warc",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "text",
    ".text": "text",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".md": "markdown",
    ".markdown": "markdown",
}
COMPRESSED_ENDINGS = (".gz", ".zst", ".zstd")
_FIRST_TYPE = re.compile(rb"^WARC-Type:[ \t]*(conversion|response)", re.MULTILINE | re.IGNORECASE)


def kind_from_name(file: str) -> Kind | None:
    """Return the kind that the file name indicates, if any."""
    name = file.lower()
    for ending in COMPRESSED_ENDINGS:
        name = name.removesuffix(ending)
    return next((kind for ending, kind in _BY_ENDING.items() if name.endswith(ending)), None)


def kind_from_content(start: bytes) -> Kind | None:
    """Return the kind that the first decompressed bytes indicate, if any."""
    start = start.removeprefix(codecs.BOM_UTF8)
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith(b"WARC/"):
        first_type = _FIRST_TYPE.search(start)
        return None if first_type is None else "wet" if first_type[1].lower() == b"conversion" else "warc"
    if start.lstrip()[:1] == b"{":
        return "jsonl"
    return None


def find_kind(file: str, compressed: bytes, start: bytes, required: Kind | None) -> Kind:
    """Return the kind of a file.

    Args:
      file: Its name.
      compressed: Its first bytes as stored.
      start: Its first bytes, decompressed.
      required: The kind that the user states.

    Raises:
      ValueError: Name, content and the given kind contradict each other, or none indicates a kind. The message doesn't
        name the file.
    """
    for mark, encoding in WIDE_MARKS.items():
        # HTML may have any encoding.
        if start.startswith(mark) and (required or kind_from_name(file)) != "html":
            raise ValueError(
                f"{encoding} text, as its byte-order mark says; UTF-8 is needed: iconv -f {encoding} -t UTF-8"
            )
    named, seen = required or kind_from_name(file), kind_from_content(start)
    if seen == "parquet" and named not in (None, "parquet"):
        raise ValueError(f"a parquet file, not {named}; rename it or give kind='parquet'")
    if named == "parquet" and seen != "parquet":
        raise ValueError("not a parquet file: those begin with PAR1")
    is_warc = start.removeprefix(codecs.BOM_UTF8).startswith(b"WARC/")
    if named in ("wet", "warc") and not is_warc and (seen or not _is_text(start)):
        raise ValueError(f"not a {named.upper()} file: those begin with WARC/1.0")
    if named not in (None, "wet", "warc") and is_warc:
        raise ValueError(f"a WET or WARC file, not {named}; rename it or give kind='wet' or kind='warc'")
    if (
        file.lower().endswith(COMPRESSED_ENDINGS)
        and not is_compressed(compressed)
        and seen is None
        and not is_warc
    ):
        raise ValueError("neither gzip nor zstd, as its name says, nor anything else that is known")
    if required is None and is_warc and seen is not None:
        return seen  # x.warc.gz may hold either
    if named is None and seen is None:
        raise ValueError(
            f"neither its name nor its content says what it is; give kind, one of {', '.join(KINDS)}"
        )
    return named or seen  # pyright: ignore[reportReturnType] - one of them is there


def _is_text(start: bytes) -> bool:
    return start[:1].isspace() or b"WARC" in start
