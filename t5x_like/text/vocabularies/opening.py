"""Opening of vocabularies by path or name."""

import functools
import os
from pathlib import PurePosixPath
from typing import NamedTuple

from etils import epath

from t5x_like.configuration_names import config_function
from t5x_like.io.files import as_path, changed_seconds, lfs_advice, read_json
from t5x_like.io.paths import find_file
from t5x_like.text.vocabularies.added_tokens import ordinary_contents
from t5x_like.text.vocabularies.byte_tokenizer import ByteTokenizer
from t5x_like.text.vocabularies.gguf_vocabulary import holds_vocabulary, is_gguf, read_gguf_vocabulary
from t5x_like.text.vocabularies.read_vocabulary import (
    CHAT_TEMPLATE,
    OUR_CHARACTERS,
    OUR_WORDS,
    SPM_CHAR,
    Files,
    read_vocabulary,
)
from t5x_like.text.vocabularies.tiktoken_tokenizer import open_by_name
from t5x_like.text.vocabularies.tokenizer import Tokenizer, pad_size

BYTES = "bytes"
# tiktoken's own names, listed here so that opening a file doesn't import the library.
TIKTOKEN_NAMES = ("gpt2", "r50k_base", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base", "o200k_harmony")
# Main file of a directory, the first that exists. Not sentencepiece.bpe.model: XLM-R's ids are not that file's.
_MAIN_FILES = (
    "tokenizer.json", "spiece.model", "tokenizer.model", "spm.model", "sentencepiece.model", "vocab.json", "vocab.txt",
    "words.json", "characters.json", SPM_CHAR,
)  # fmt: skip
_OUR_FILES = {OUR_WORDS: "words.json", OUR_CHARACTERS: "characters.json"}
# Classes whose tokenizer.json was made from the model by rules that changed with transformers' versions.
_MADE_FROM_A_MODEL = ("T5Tokenizer", "T5TokenizerFast", "MT5Tokenizer", "MT5TokenizerFast")
_COMPANIONS = (
    "vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt",
    CHAT_TEMPLATE,
)  # fmt: skip


class _Stamp(NamedTuple):
    """File with the properties that change when it is rewritten."""

    path: str
    modified: float
    size: int


def open_tokenizer(
    path_or_name: str | os.PathLike[str], num_sentinels: int = 100, *, lower_case: bool | None = None
) -> Tokenizer:
    """Open the tokenizer of a vocabulary, without TensorFlow; for the possible kinds see ``load_vocabulary``.

    Args:
      path_or_name: File, directory, "bytes" or the name of a tiktoken encoding.
      num_sentinels: Number of sentinels to add, unless the vocabulary has its own.
      lower_case: Convert text to lower case; None follows the vocabulary's configuration.

    Raises:
      ValueError: No such file, an unknown kind, or a damaged file.
    """
    if num_sentinels < 0:
        raise ValueError(f"num_sentinels must not be negative, got {num_sentinels}")
    name = os.fspath(path_or_name)
    if name == BYTES or (name in TIKTOKEN_NAMES and not as_path(name).exists()):
        return _open_name(name, num_sentinels)
    return _open_files(name, _stamps(find_file(name)), num_sentinels, lower_case)


@config_function
def padded_vocab_size(vocabulary: str, num_sentinels: int = 100) -> int:
    """Return the rows of a model's embedding table for a vocabulary: its ids, rounded up to a multiple of 128.

    >>> padded_vocab_size("bytes")  # 256 bytes, 3 special ids and 100 sentinels
    384

    Args:
      vocabulary: Name or path of the vocabulary.
      num_sentinels: Sentinel ids that are added to it.

    Raises:
      ValueError: The vocabulary can't be opened.
    """
    try:
        return pad_size(open_tokenizer(vocabulary, num_sentinels).vocab_size)
    except (ValueError, OSError) as error:
        raise ValueError(f"vocabulary {vocabulary!r}: {error}; VOCAB_SIZE follows from it") from error


def vocabulary_files(path_or_name: str | os.PathLike[str]) -> dict[str, str]:
    """Return the files of a vocabulary, keyed by their standard names in a directory.

    Empty for names such as ``bytes``, and for a directory or a GGUF file without a vocabulary.
    """
    name = os.fspath(path_or_name)
    try:
        main, *others = [stamp.path for stamp in _stamps(find_file(name))]
    except ValueError:
        return {}
    if is_gguf(main) and not holds_vocabulary(main):
        return {}
    standard = PurePosixPath(main).name
    if standard not in _MAIN_FILES:
        if standard.endswith(".model"):
            standard = "spiece.model"
        elif standard.endswith(".json"):
            standard = _OUR_FILES.get(read_json(main, dict).get("format"), standard)
    return {standard: main} | {PurePosixPath(path).name: path for path in others}


def vocabulary_contents(path_or_name: str | os.PathLike[str]) -> dict[str, bytes]:
    """Return the contents of a vocabulary's files, keyed by their standard names in a directory.

    The tokenizer of a GGUF file becomes a ``tokenizer.json`` with its configuration.

    Raises:
      ValueError: The tokenizer of a GGUF file can't be read.
    """
    contents: dict[str, bytes] = {}
    for name, path in vocabulary_files(path_or_name).items():
        contents |= (
            read_gguf_vocabulary(path).files() if is_gguf(path) else {name: as_path(path).read_bytes()}
        )
    return contents


def contents_of(vocabulary: object) -> dict[str, bytes]:
    """Return the files of a tokenizer or of seqio's own vocabulary; see ``vocabulary_contents``.

    Of seqio's own vocabularies only SentencePiece models can be opened again.
    """
    path = getattr(vocabulary, "name", None) or getattr(vocabulary, "sentencepiece_model_file", None)
    return vocabulary_contents(path) if path else {}


@functools.lru_cache(maxsize=16)
def _open_name(name: str, num_sentinels: int) -> Tokenizer:
    if name == BYTES:
        return ByteTokenizer(num_sentinels)
    return open_by_name(name, num_sentinels)


@functools.lru_cache(maxsize=16)
def _open_files(
    name: str, stamps: tuple[_Stamp, ...], num_sentinels: int, lower_case: bool | None
) -> Tokenizer:
    main, *others = stamps
    with as_path(main.path).open("rb") as file:
        if advice := lfs_advice(file.read(64)):
            raise ValueError(f"{main.path} {advice}")
    companions = {PurePosixPath(stamp.path).name: stamp.path for stamp in others}
    return read_vocabulary(Files(name, main.path, companions), num_sentinels, lower_case)


def _stamps(path: str) -> tuple[_Stamp, ...]:
    """Return the main file, followed by companion files that it may need."""
    vocabulary = as_path(path)
    folder = vocabulary if vocabulary.is_dir() else vocabulary.parent
    main = _main_file(path) if vocabulary.is_dir() else vocabulary
    names = () if is_gguf(main) else _COMPANIONS
    files = [main] + [folder / name for name in names if name != main.name and (folder / name).exists()]
    return tuple(_Stamp(os.fspath(file), changed_seconds(file), file.stat().length) for file in files)


def _main_file(directory: str) -> epath.Path:
    folder = as_path(directory)
    configuration, ids = (
        read_json(folder / name, dict) if (folder / name).exists() else {}
        for name in ("tokenizer_config.json", "added_tokens.json")
    )
    is_made_from_model = configuration.get("tokenizer_class") in _MADE_FROM_A_MODEL
    # A model lacks tokens that were added to it.
    first = ("spiece.model",) if is_made_from_model and not ordinary_contents(configuration, ids, {}) else ()
    for name in (*first, *_MAIN_FILES):
        if (folder / name).exists():
            return folder / name
    others = sorted([*folder.glob("*.model"), *folder.glob("*.tiktoken")])
    if len(others) == 1:
        return others[0]
    raise ValueError(
        f"the directory {directory!r} holds no vocabulary: none of {', '.join(_MAIN_FILES)}"
        + (f"; name one of its files: {', '.join(file.name for file in others)}" if others else "")
    )
