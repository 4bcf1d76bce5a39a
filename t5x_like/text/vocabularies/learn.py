"""Learning a SentencePiece vocabulary from text files, with T5's normalisation and special ids."""

import io
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from t5x_like.io.files import write_bytes
from t5x_like.text.vocabularies.training_corpus import Corpus

# SentencePiece skips longer sentences (bytes); ours are cut before that, at a space where there is one.
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
    """Learns ``size`` pieces from UTF-8 text files and writes the model to ``output``, whole or not at all.

    ``size`` counts the three special ids but no sentinels, which ``load_vocabulary`` adds. Ids are T5's: 0
    padding, 1 end of sequence, 2 unknown, no beginning of sequence; normalisation is T5's ``nmt_nfkc``. The
    same files and seed give the same model. Files are read line by line; of more than ``max_sentences`` lines
    about so many are drawn at random, so they may be larger than memory.

    ``pieces`` are strings that become one piece each whatever their count, such as label words.

    Raises:
      ValueError: a file is missing, empty or not UTF-8 (named by file and line); too many or too few pieces
        asked.
    """
    import sentencepiece

    if kind not in ("unigram", "bpe"):
        raise ValueError(f"kind must be 'unigram' or 'bpe', got {kind!r}")
    # SentencePiece would draw too, but other lines every time, as its seed doesn't reach that draw: it never gets more
    # than it takes.
    sentences = Corpus(
        inputs, longest=_MAX_SENTENCE_BYTES, most_lines=max_sentences, seed=seed, progress=progress
    )
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(seed)
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=islice(_until_wrong(sentences), max_sentences),
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


def _until_wrong(sentences: Corpus) -> Iterator[str]:
    """SentencePiece would end the process' reading with a message of its own; the corpus keeps the error."""
    before = ""
    try:
        for sentence in sentences:
            # Of parts of one endless repetition only one: SentencePiece takes quadratic time for them.
            if sentence != before or len(sentence) < _LONG_REPETITION:
                yield sentence
            before = sentence
    except ValueError:
        return
