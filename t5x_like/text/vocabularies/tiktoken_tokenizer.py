"""OpenAI's vocabularies, opened by name or from ``.tiktoken`` files."""

import base64
import binascii
import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from t5x_like.text.vocabularies.roles import find_special
from t5x_like.text.vocabularies.tokenizer import Tokenizer, check_ids, visible

if TYPE_CHECKING:
    import tiktoken

_WHITE_SPACE = b" \t\n\r\v\f"
_END = "<|endoftext|>"
# Special pieces, which files lack; encodings not listed here have <|endoftext|> after the ranks.
_SPECIAL = {
    "p50k_base": {_END: 50256},
    "cl100k_base": {
        _END: 100257,
        "<|fim_prefix|>": 100258,
        "<|fim_middle|>": 100259,
        "<|fim_suffix|>": 100260,
        "<|endofprompt|>": 100276,
    },
}

# Regular expressions that split text before merging, as published (openai/tiktoken, openai_public.py; QwenLM/Qwen).
_GPT_2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
_GPT_4 = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"""
    r"""\s+(?!\S)|\s"""
)
_PATTERNS = {
    "gpt2": _GPT_2,
    "r50k_base": _GPT_2,
    "p50k_base": _GPT_2,
    "cl100k_base": _GPT_4,
    "qwen": _GPT_4.replace("{1,3}+", ""),
}


class TiktokenTokenizer(Tokenizer):
    """Byte pair encoding by ranks; special strings in text are encoded as ordinary text."""

    kind = "tiktoken"

    def __init__(
        self,
        name: str,
        ranks: Mapping[bytes, int],
        *,
        pattern: str,
        special_pieces: Mapping[str, int],
        num_sentinels: int,
    ) -> None:
        self.ranks, self.pattern, self.special_pieces = dict(ranks), pattern, dict(special_pieces)
        self._bytes_of = {token_id: piece for piece, token_id in ranks.items()}
        self._names = {token_id: piece for piece, token_id in special_pieces.items()}
        super().__init__(
            name,
            num_own=max([*ranks.values(), *special_pieces.values()]) + 1,
            special=find_special(self.special_pieces.get),
            num_sentinels=num_sentinels,
        )

    @functools.cached_property
    def _engine(self) -> "tiktoken.Encoding":
        import tiktoken

        return tiktoken.Encoding(
            self.fingerprint,
            pat_str=self.pattern,
            mergeable_ranks=self.ranks,
            special_tokens=self.special_pieces,
        )

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [self._engine.encode_ordinary(text) for text in texts]

    def _decode(self, ids: list[int]) -> str:
        parts = (self._written(token_id) for token_id in visible(ids, self.special))
        return b"".join(parts).decode("utf-8", errors="replace")

    def _written(self, token_id: int) -> bytes:
        if token_id in self._bytes_of:
            return self._bytes_of[token_id]
        is_known = token_id in self._names or self.is_sentinel(token_id)
        return self.piece(token_id).encode() if is_known else "\N{REPLACEMENT CHARACTER}".encode()

    def _piece(self, token_id: int) -> str:
        if token_id in self._bytes_of:
            return self._bytes_of[token_id].decode("utf-8", errors="replace")
        return self._names.get(token_id, f"<{token_id}>")

    def _text(self, token_id: int, piece: str) -> bytes | None:
        del piece
        return self._bytes_of.get(token_id)

    def starts_word(self) -> np.ndarray:
        begins = [
            self._bytes_of.get(token_id, b" ")[:1] in _WHITE_SPACE for token_id in range(self.vocab_size)
        ]
        return np.array(begins, bool)

    def _contents(self) -> Iterable[bytes]:
        ranks = b"\n".join(b"%b %d" % (piece.hex().encode(), rank) for piece, rank in self.ranks.items())
        return (self.pattern.encode(), repr(sorted(self.special_pieces.items())).encode(), ranks)


def open_by_name(name: str, num_sentinels: int) -> TiktokenTokenizer:
    """Open a published encoding from ``TIKTOKEN_CACHE_DIR``, or download it.

    Args:
      name: Name of the encoding.
      num_sentinels: Sentinel ids that are added to it.

    Raises:
      ValueError: It can't be downloaded.
    """
    import tiktoken

    try:
        encoding = tiktoken.get_encoding(name)
    except Exception as error:  # requests raises many types
        raise ValueError(
            f"the tiktoken encoding {name!r} could not be fetched ({type(error).__name__}): name a .tiktoken file, or "
            "set TIKTOKEN_CACHE_DIR to a folder that tiktoken filled on a machine with a network"
        ) from error
    return TiktokenTokenizer(
        name,
        encoding._mergeable_ranks,
        pattern=encoding._pat_str,
        special_pieces=encoding._special_tokens,
        num_sentinels=num_sentinels,
    )


def open_ranks(name: str, content: bytes, *, stem: str, num_sentinels: int) -> TiktokenTokenizer:
    """Open a ``.tiktoken`` file, with a base64-encoded piece and its rank on each line.

    Args:
      name: Path as the user wrote it, for messages.
      content: Content of the file.
      stem: File name without extension: the encoding that decides how text is split.
      num_sentinels: Number of sentinels to add.

    Raises:
      ValueError: A line has another form, or the encoding is unknown.
    """
    ranks = parse_ranks(name, content)
    if stem not in _PATTERNS:
        raise ValueError(
            f"{name!r} doesn't define how text is split before merging; name the file after its encoding: "
            + ", ".join(f"{known}.tiktoken" for known in _PATTERNS)
        )
    special = _SPECIAL.get(stem, {_END: max(ranks.values()) + 1})
    return TiktokenTokenizer(
        name, ranks, pattern=_PATTERNS[stem], special_pieces=special, num_sentinels=num_sentinels
    )


def parse_ranks(name: str, content: bytes) -> dict[bytes, int]:
    """Return the rank of each piece.

    Args:
      name: Path of the file, for messages.
      content: Content of the file.

    Raises:
      ValueError: A line has another form; the message names it.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(content.splitlines(), start=1):
        if not line:
            continue
        try:
            piece, rank = line.split()
            ranks[base64.b64decode(piece, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise ValueError(f"{name}:{number} is not base64 and a rank: {line[:40]!r}") from error
    check_ids(name, ranks)
    return ranks
