"""Detection of files that aren't UTF-8 text, and of unreadable JSON, with messages that name the remedy."""

import codecs

from t5x_like.io.files import as_path, lfs_advice

# Longer marks come first: UTF-32's begins with UTF-16's.
WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_PACKINGS = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
}
_TABLES = {b"PAR1": "parquet", b"ARROW1": "arrow"}


def refuse_foreign(beginning: bytes, file: str) -> None:
    """Refuse a file that isn't UTF-8 text, by its first bytes.

    Args:
      beginning: The first bytes.
      file: Name of the file, for the message.

    Raises:
      ValueError: The file is UTF-16 or UTF-32, an archive or a table under another name, or a pointer of Git LFS.
    """
    if advice := lfs_advice(beginning):
        raise ValueError(f"{file} {advice}")
    for mark, encoding in WIDE_MARKS.items():
        if beginning.startswith(mark):
            raise ValueError(_wide(file, encoding, "as its byte-order mark says"))
    if len(beginning) > 1 and (beginning[0] == 0) != (beginning[1] == 0):
        encoding = "UTF-16LE" if beginning[0] else "UTF-16BE"
        raise ValueError(_wide(file, encoding, "to judge by its first bytes"))
    for mark, packing in _PACKINGS.items():
        if beginning.startswith(mark):
            raise ValueError(f"{file} is a {packing} file under another name; unpack it, so that it is text")
    for mark, kind in _TABLES.items():
        if beginning.startswith(mark):
            raise ValueError(f"{file} is a table of {kind} under another name; give it the ending .{kind}")


def windows_remedy(file: str) -> str:
    """Return the command for a file that isn't UTF-8; Excel writes Windows-1252 in western countries."""
    return f"if it is Windows-1252, as Excel writes: {_conversion(file, 'WINDOWS-1252')}"


def _conversion(file: str, encoding: str) -> str:
    return f"iconv -f {encoding} -t UTF-8 '{file}' > OTHER_FILE"


def _wide(file: str, encoding: str, reason: str) -> str:
    return f"{file} is {encoding} text, {reason}; UTF-8 is needed: {_conversion(file, encoding)}"


def text_of(file: str) -> str:
    """Read a whole file as text, without a byte-order mark.

    Raises:
      ValueError: It isn't UTF-8; the message names the line.
    """
    content = as_path(file).read_bytes()
    refuse_foreign(content, file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # error.start doesn't count a byte-order mark, so it isn't an offset in content.
        before = error.object[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n") - 1
        raise ValueError(
            f"{file}:{line}: invalid UTF-8 at byte {column} of the line; {windows_remedy(file)}"
        ) from None
