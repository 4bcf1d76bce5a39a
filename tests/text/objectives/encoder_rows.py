"""A BERT-style vocabulary, windows, and examples of objectives."""

import numpy as np

from t5x_like.text.objectives.cutting import lay_window, texts_of
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.objectives.random_bits import seeds_of_rows
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds

PAD, UNKNOWN, CLS, SEP, MASK = 0, 100, 101, 102, 103
VOCAB_SIZE = 1000
FIRST_WORD = 104
# WordPiece's: ids over 800 are written with ## before them.
STARTS_WORD = np.arange(VOCAB_SIZE) < 800
IDS = VocabularyIds(
    vocab_size=VOCAB_SIZE,
    pad=PAD,
    eos=SEP,
    unk=UNKNOWN,
    cls=CLS,
    sep=SEP,
    mask=MASK,
    first_sentinel=VOCAB_SIZE - 1,
    num_sentinels=0,
    starts_word=STARTS_WORD,
)
SPECIAL = [PAD, CLS, SEP, MASK]
KEY = np.array([7, 8], np.uint64)


def seeds(count, start=0):
    """Return seeds, uint64 [count, 2]."""
    return seeds_of_rows(KEY, np.arange(start, start + count))


def window_of(documents, *, pieces=None, eos=None, spans=None):
    """Return documents of given sentence lengths; tokens count up from 104, or cycle through ``pieces``."""
    records = []
    count = 0
    for index, sentences in enumerate(documents):
        size = sum(sentences)
        words = pieces if pieces is not None else np.arange(FIRST_WORD, 800)
        tokens = words[np.arange(count, count + size) % len(words)]
        record = {"tokens": tokens.astype(np.int32), "sentence_ends": np.cumsum(sentences)}
        if spans is not None:
            record["spans"] = np.array(spans[index], np.int64).reshape(-1, 2)
        records.append(record)
        count += size
    return lay_window(records, chunks=np.zeros(len(records), np.uint64), eos=eos)


def examples_of(objective, window, limit, *, key=KEY, ids=IDS, targets=2):
    """Return texts and examples of a window."""
    lengths = Lengths(limit, targets)
    objective.check(lengths, ids)
    cuts = objective.cut(window, lengths, key)
    numbers = np.arange(len(cuts.starts))
    texts = texts_of(window, cuts, numbers)
    return texts, objective.make(texts, seeds_of_rows(key, numbers), lengths, ids)


def chosen(example):
    """Return the predicted positions."""
    return np.flatnonzero(example.weights)


def runs(places):
    """Return start and end of each run of adjacent ``places``, int64 [N, 2]."""
    breaks = np.flatnonzero(np.diff(places) > 1)
    first, last = np.append(0, breaks + 1), np.append(breaks, len(places) - 1)
    return np.stack([places[first], places[last] + 1], axis=1)
