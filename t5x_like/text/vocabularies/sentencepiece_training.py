"""Training of SentencePiece vocabularies, with T5's normalization and special ids."""

import io
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from t5x_like.io.files import write_bytes
from t5x_like.text.vocabularies.training_corpus import Corpus

# SentencePiece skips longer sentences (bytes); ours are divided first, at spaces where possible.
_MAX_SENTENCE_BYTES = 4192
_LONG_REPETITION = 1000  # characters
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
    progress: bool = False,
) -> None:
    """Train a SentencePiece model, and write it atomically.

    Special ids are T5's: 0 padding, 1 end of sequence, 2 unknown, no beginning of sequence. Normalization is T5's
    ``nmt_nfkc``. The same files and seed give the same model. Files are streamed, so they may be larger than memory.

    Args:
      inputs: UTF-8 text files.
      output: Path of the ``.model`` file.
      size: Number of pieces, the three special ids included; sentinels are added by ``load_vocabulary``.
      kind: Algorithm.
      character_coverage: Fraction of all characters that get a piece.
      byte_fallback: Encode other characters as bytes instead of the unknown id.
      pieces: Strings that become one piece each whatever their count, such as label words.
      max_sentences: Number of lines; of more, about that many are sampled.
      seed: Seed of the sample.
      progress: Show a progress bar.

    Raises:
      ValueError: A file is missing, empty or not UTF-8 (located by file and line), or ``size`` doesn't fit the text.
    """
    import sentencepiece

    if kind not in ("unigram", "bpe"):
        raise ValueError(f"kind must be 'unigram' or 'bpe', got {kind!r}")
    # SentencePiece's own sampling ignores the seed, so it never gets more lines than it uses.
    sentences = Corpus(
        inputs, max_bytes=_MAX_SENTENCE_BYTES, max_lines=max_sentences, seed=seed, progress=progress
    )
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(seed)
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=islice(_until_error(sentences), max_sentences),
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


def _until_error(sentences: Corpus) -> Iterator[str]:
    """Yield sentences until an error, which the corpus keeps; SentencePiece would replace it by its own message."""
    before = ""
    try:
        for sentence in sentences:
            # Skip repeated parts of one long repetition, for which SentencePiece takes quadratic time.
            if sentence != before or len(sentence) < _LONG_REPETITION:
                yield sentence
            before = sentence
    except ValueError:
        return
