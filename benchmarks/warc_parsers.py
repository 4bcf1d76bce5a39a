"""Compare our parser of WARC records with fastwarc's: records of intact and of damaged files, and speed.

    python -m benchmarks.warc_parsers --output benchmarks/results/warc_parsers.json

Each file has response records, of which all but the damaged ones should be read. A parser that ends without an error
before the file's end has lost records silently. Speed is that of parsing alone: no HTTP, no HTML.
"""

import argparse
import gzip
import io
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from fastwarc.warc import ArchiveIterator

from benchmarks.machine import about
from t5x_like.corpora.pages.reading_log import FileLog, ReadLog
from t5x_like.corpora.pages.warc_records import read_records
from t5x_like.io.decompression import decompress
from t5x_like.io.files import write_json

_HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
_PAGE = b"<html><body><h1>Head</h1><p>One &amp; two.<p>Three.</body></html>"
_LIMIT = 16 * 2**20


def record(
    name: str, content: bytes = _HTTP + _PAGE, *, length: object = None, end: bytes = b"\r\n\r\n"
) -> bytes:
    """Return a response record.

    Args:
      name: Its URL.
      content: The bytes after the headers.
      length: Content-Length in place of the right one.
      end: The bytes between this record and the next.
    """
    size = len(content) if length is None else length
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {name}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
    )
    return f"{head}Content-Length: {size}\r\n\r\n".encode() + content + end


def files() -> dict[str, tuple[bytes, list[str]]]:
    """Return files by what is wrong with them, with the names of the records that aren't damaged."""
    u0, u1, u2, u3 = (record(f"u{index}") for index in range(4))
    size = len(_HTTP + _PAGE)
    head, body = u0.split(b"\r\n\r\n", 1)
    unix = head.replace(b"\r\n", b"\n") + b"\n\n" + body.removesuffix(b"\r\n\r\n") + b"\n\n"
    broken_member = bytearray(gzip.compress(u1))
    broken_member[len(broken_member) // 2] ^= 0xFF
    members = [gzip.compress(each) for each in (u0, u1, u2, u3)]
    made = {
        "nothing": (u0 + u1 + u2 + u3, ["u0", "u1", "u2", "u3"]),
        "nothing, a gzip member for each record": (b"".join(members), ["u0", "u1", "u2", "u3"]),
        "a record with line feeds": (unix + u1 + u2, ["u0", "u1", "u2"]),
        "a record ends without a line break": (record("u0", end=b"") + u1 + u2, ["u0", "u1", "u2"]),
        "a record ends with one line break": (record("u0", end=b"\r\n") + u1 + u2, ["u0", "u1", "u2"]),
        "a NUL after a record": (record("u0", end=b"\r\n\r\n\0") + u1 + u2, ["u0", "u1", "u2"]),
        "Content-Length no number": (u0 + record("u1", length="many") + u2 + u3, ["u0", "u2", "u3"]),
        "no WARC before the first record": (b"no record\r\n\r\n" + u1 + u2, ["u1", "u2"]),
        "the file ends in a record": ((u0 + u1 + u2)[:-60], ["u0", "u1"]),
        "the file ends in a gzip member": ((b"".join(members[:3]))[:-30], ["u0", "u1"]),
        "a byte of a gzip member is wrong": (
            members[0] + bytes(broken_member) + members[2] + members[3],
            ["u0", "u2", "u3"],
        ),
        "a gzip member has no beginning": (
            members[0] + members[1][12:] + members[2] + members[3],
            ["u0", "u2", "u3"],
        ),
    }
    for wrong in (1, 2, 4):
        name = f"Content-Length {wrong} too large, by counting line breaks"
        made[name] = (record("u0", length=size + wrong) + u1 + u2, ["u0", "u1", "u2"])
    for length in (5, 300, 5000):
        name = f"Content-Length {length} in place of {size}"
        made[name] = (u0 + record("u1", length=length) + u2 + u3, ["u0", "u2", "u3"])
    return made


def by_ours(data: bytes) -> tuple[list[str], bool]:
    """Return the names of the records that our parser reads, and whether it reports damage."""
    log = ReadLog()
    read = [each.url for each in _ours(data, log)]
    return read, log.num_damaged > 0


def by_fastwarc(data: bytes, *, strict: bool = True) -> tuple[list[str], bool]:
    """Return the names of the records that fastwarc reads whole, and whether it raises an error.

    Args:
      data: The file.
      strict: fastwarc's ``strict_mode``.
    """
    read: list[str] = []
    try:
        for each in ArchiveIterator(io.BytesIO(data), parse_http=False, strict_mode=strict):
            content = each.reader.read()
            if content.strip() == _HTTP + _PAGE:  # line breaks may be counted
                read.append(str(each.headers.get("WARC-Target-URI")))
    except Exception:  # whatever it raises is its report
        return read, True
    return read, False


def _ours(data: bytes, log: ReadLog) -> Iterator[Any]:
    log.on_corruption = "skip"
    file_log = FileLog(log, "file", "warc", "record at byte")
    return read_records(decompress(io.BytesIO(data)), file_log, max_bytes=_LIMIT)


def recovery() -> dict[str, Any]:
    """Return what each parser reads of each file."""
    parsers: dict[str, Callable[[bytes], tuple[list[str], bool]]] = {
        "ours": by_ours,
        "fastwarc": by_fastwarc,
        "fastwarc, strict_mode=False": lambda data: by_fastwarc(data, strict=False),
    }
    table: dict[str, Any] = {}
    for what, (data, intact) in files().items():
        row: dict[str, Any] = {"intact records": len(intact)}
        for name, parse in parsers.items():
            read, reported = parse(data)
            lost = [each for each in intact if each not in read]
            row[name] = {"read": len(intact) - len(lost), "reports damage": reported}
        table[what] = row
    return table


def speed(num_records: int, page_bytes: int, repeats: int) -> dict[str, Any]:
    """Return megabytes of decompressed records that each parser reads in a CPU second, of the best repeat."""
    words = b" ".join(b"word%d" % (index * 7919 % 5003) for index in range(page_bytes // 9))
    plain = b"".join(record(f"http://a.org/{index}", _HTTP + words) for index in range(num_records))
    packed = b"".join(
        gzip.compress(record(f"http://a.org/{index}", _HTTP + words), 6) for index in range(num_records)
    )
    rates: dict[str, Any] = {"records": num_records, "bytes of a record": len(plain) // num_records}
    for kind, data in (("plain", plain), ("gzip", packed)):
        for name, parse in (("ours", _count_ours), ("fastwarc", _count_fastwarc)):
            best = min(_seconds(parse, data, num_records) for _ in range(repeats))
            rates[f"{name}, {kind}, MB/s"] = round(len(plain) / best / 1e6, 1)
    return rates


def _count_ours(data: bytes) -> int:
    return sum(1 for _ in _ours(data, ReadLog()))


def _count_fastwarc(data: bytes) -> int:
    return sum(1 for each in ArchiveIterator(io.BytesIO(data), parse_http=False) if each.reader.read())


def _seconds(parse: Callable[[bytes], int], data: bytes, num_records: int) -> float:
    started = time.process_time()
    if parse(data) != num_records:
        raise RuntimeError("a parser lost records of an intact file")
    return time.process_time() - started


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--page_bytes", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", metavar="FILE")
    arguments = parser.parse_args()
    result = about() | {
        "recovery": recovery(),
        "speed": speed(arguments.records, arguments.page_bytes, arguments.repeats),
    }
    print(json.dumps(result, indent=2))
    if arguments.output:
        write_json(arguments.output, result)


if __name__ == "__main__":
    main()
