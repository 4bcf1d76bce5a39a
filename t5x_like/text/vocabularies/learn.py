"""Learning a SentencePiece vocabulary from text files, with T5's normalisation and special ids."""

import io
import os
from collections.abc import Iterator, Sequence
from typing import Literal

from t5x_like.files import as_path, write_bytes
from t5x_like.text.paths import find_files

# SentencePiece skips longer sentences (bytes); ours are cut before that, at a space where there is one.
_MAX_SENTENCE_BYTES = 4192
# Fixed, because the pieces depend on how the counts were split over threads.
_NUM_THREADS = 8


def learn_sentencepiece(
    inputs: str | Sequence[str],
    output: str | os.PathLike[str],
    *,
    size: int,
    kind: Literal["unigram", "bpe"] = "unigram",
    character_coverage: float = 0.9995,
    byte_fallback: bool = False,
    pieces: Sequence[str] = (),
    max_sentences: int = 5_000_000,
    seed: int = 0,
) -> None:
    """Learns ``size`` pieces from UTF-8 text files and writes the model to ``output``, whole or not at all.

    ``size`` counts the three special ids but no sentinels, which ``load_vocabulary`` adds. Ids are T5's: 0
    padding, 1 end of sequence, 2 unknown, no beginning of sequence; normalisation is T5's ``nmt_nfkc``. The
    same files and seed give the same model. Files are read line by line; of more than ``max_sentences`` lines
    a random sample is used, so they may be larger than memory.

    ``pieces`` are strings that become one piece each whatever their count, such as label words.

    Raises:
      ValueError: a file is missing, empty or not UTF-8 (named by file and line); too many or too few pieces
        asked.
    """
    import sentencepiece

    if kind not in ("unigram", "bpe"):
        raise ValueError(f"kind must be 'unigram' or 'bpe', got {kind!r}")
    sentences = _Sentences(find_files(inputs))
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(seed)
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            character_coverage=character_coverage,
            byte_fallback=byte_fallback,
            user_defined_symbols=list(pieces),
            input_sentence_size=max_sentences,
            shuffle_input_sentence=True,
            max_sentence_length=_MAX_SENTENCE_BYTES,
            normalization_rule_name="nmt_nfkc",
            num_threads=_NUM_THREADS,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        if sentences.error is not None:
            raise sentences.error from None
        raise ValueError(
            f"SentencePiece cannot learn {size} pieces from {sentences.files}: {error}"
        ) from error
    if sentences.error is not None:
        raise sentences.error
    write_bytes(output, model.getvalue())


class _Sentences:
    """Lines of files, cut to SentencePiece's longest. Keeps its own error, which SentencePiece would
    swallow."""

    def __init__(self, files: Sequence[str]) -> None:
        self.files = list(files)
        self.error: ValueError | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for file in self.files:
                yield from _lines(file)
        except ValueError as error:
            self.error = error
            return


def _lines(file: str) -> Iterator[str]:
    found = False
    with as_path(file).open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                text = line.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{file}:{number}: invalid UTF-8 at byte {error.start} of the line"
                ) from None
            if text:
                found = True
                yield from _cut(text)
    if not found:
        raise ValueError(f"{file} holds no text")


def _cut(text: str) -> Iterator[str]:
    """Parts of at most ``_MAX_SENTENCE_BYTES``; a character takes at most 4 bytes."""
    most = _MAX_SENTENCE_BYTES // 4
    while len(text.encode("utf-8")) > _MAX_SENTENCE_BYTES:
        end = text.rfind(" ", 1, most)
        end = end if end > 0 else most
        yield text[:end]
        text = text[end:].lstrip()
    if text:
        yield text
