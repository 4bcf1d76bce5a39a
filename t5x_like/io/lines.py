"""Lines of files, packed or not, of any length in bounded memory."""

from collections.abc import Iterable, Iterator

from t5x_like.io.decompression import Cut, Piece

Line = bytes | Cut


def in_lines(pieces: Iterable[Piece], *, max_bytes: int) -> Iterator[tuple[int, Line]]:
    """Lines without their ends (``\\n`` or ``\\r\\n``) and their numbers from 1.

    A line that is too long comes as a Cut of kind ``too_long``. A line that a Cut of the pieces ends is left out.
    """
    number, parts, size = 1, [], 0
    for piece in pieces:
        if isinstance(piece, Cut):
            yield number, piece
            number, parts, size = number + (size > 0), [], 0
            continue
        lines = piece.split(b"\n")
        for line in lines[:-1]:
            parts.append(line)
            size += len(line)
            yield number, _line(parts, size, max_bytes)
            number, parts, size = number + 1, [], 0
        parts.append(lines[-1])
        size += len(lines[-1])
        if size > max_bytes:
            parts = []
    if size:
        yield number, _line(parts, size, max_bytes)


def _line(parts: list[bytes], size: int, limit: int) -> Line:
    if size > limit:
        return Cut("too_long", f"{size:,} bytes, more than the {limit:,} of max_page_bytes")
    return b"".join(parts).removesuffix(b"\r")
