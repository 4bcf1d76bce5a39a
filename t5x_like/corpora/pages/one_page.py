"""Files that are one page each."""

from collections.abc import Iterable

from t5x_like.corpora.pages.reading_log import FileLog
from t5x_like.io.decompression import Cut, Piece


def content_of_page(
    pieces: Iterable[Piece], log: FileLog, *, max_page_bytes: int, hint: str = ""
) -> bytes | None:
    """All bytes of the file; None, after telling ``log``, of one that is damaged or too long. ``hint`` ends the latter.

    Raises:
      ValueError: damage, under ``on_corruption="fail"``.
    """
    parts, size = [], 0
    for piece in pieces:
        if isinstance(piece, Cut):
            log.damage(piece.kind, 1, piece.reason)
            return None
        parts.append(piece)
        size += len(piece)
        if size > max_page_bytes:
            log.damage("too_long", 1, f"longer than the {max_page_bytes:,} bytes of max_page_bytes{hint}")
            return None
    return b"".join(parts)
