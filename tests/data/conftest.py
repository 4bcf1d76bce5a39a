"""Writers of small Debian packages and Unix compress files."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def debian_package() -> Callable[[Path, dict[str, bytes]], Path]:
    return write_debian_package


@pytest.fixture
def as_unix_compressed() -> Callable[[bytes], bytes]:
    return unix_compress


def write_debian_package(path: Path, files: dict[str, bytes], *, version: str = "1.0-1") -> Path:
    control = (
        f"Package: {path.name.partition('_')[0]}\nVersion: {version}\nDescription: a test\n of scripts\n"
    )
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": _tar({"control": control.encode()}),
        "data.tar.xz": _tar(files),
    }
    packed = b"!<arch>\n"
    for name, content in members.items():
        packed += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        packed += content + b"\n" * (len(content) % 2)
    path.write_bytes(packed)
    return path


def _tar(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def unix_compress(content: bytes) -> bytes:
    """Return a plain ``.Z`` file: growing code widths, groups of eight codes, the dictionary never cleared."""
    strings = {bytes([value]): value for value in range(256)}
    width, next_code, bits, current, codes = 9, 257, [], b"", []
    for value in content:
        longer = current + bytes([value])
        if longer in strings:
            current = longer
            continue
        codes.append((strings[current], width))
        strings[longer] = next_code
        next_code += 1
        if next_code > 1 << width:
            codes += [(0, width)] * (-sum(1 for _, w in codes if w == width) % 8)
            width += 1
        current = bytes([value])
    codes.append((strings[current], width))
    for code, code_width in codes:
        bits += [code >> i & 1 for i in range(code_width)]
    bits += [0] * (-len(bits) % 8)
    body = bytes(sum(bit << i for i, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8))
    return b"\x1f\x9d\x90" + body
