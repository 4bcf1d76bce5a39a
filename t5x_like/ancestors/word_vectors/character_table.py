"""Characters of a vocabulary's words, which models read in place of word embeddings.

Ids are those of AllenNLP's ``ELMoCharacterMapper`` and of bilm-tf's ``UnicodeCharsVocabulary``: the bytes of a word, or
the id of a boundary of sentences, between two boundaries of words. Each id is one more than there, so that 0 is free
for tokens that are no words.
"""

from typing import Any

import numpy as np

from t5x_like.ancestors.layers.character_cnn import CHARACTER_IDS, CHARACTERS_PER_WORD
from t5x_like.ancestors.word_vectors.word_text import words_of
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

CHARACTER_TABLE = f"embedding/{CHARACTER_IDS}"  # path of the table among a model's weights

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = range(256, 261)


def character_ids(word: str) -> np.ndarray:
    """Return the ids of a word's characters, int32 [50].

    >>> character_ids("é")[:5].tolist()
    [259, 196, 170, 260, 261]

    Args:
      word: A word, of whose UTF-8 bytes the first 48 are taken.

    Raises:
      ValueError: The word is empty.
    """
    if not word:
        raise ValueError("a word is empty, and has no characters; leave it out of the vocabulary")
    return _framed(list(word.encode("utf-8", "surrogatepass")[: CHARACTERS_PER_WORD - 2]))


def sentence_boundary(*, begins: bool) -> np.ndarray:
    """Return the ids of the token that begins or ends a sentence, int32 [50]."""
    return _framed([BEGIN_SENTENCE if begins else END_SENTENCE])


def _framed(characters: list[int]) -> np.ndarray:
    ids = np.full(CHARACTERS_PER_WORD, PADDING, np.int32)
    ids[: len(characters) + 2] = [BEGIN_WORD, *characters, END_WORD]
    return ids + 1


def character_table(vocabulary: Any, vocab_size: int) -> np.ndarray:
    """Return the character ids of each id of a vocabulary, int32 [vocab_size, 50].

    Beginnings of sentences are ``[CLS]`` and ``<s>``, ends ``[SEP]`` and ``</s>``. Padding and ids without a word have
    zeros. The unknown word has the characters of its piece.

    Args:
      vocabulary: A tokenizer of whole words, or a vocabulary that has one.
      vocab_size: Rows of the table; the model's number of ids.

    Raises:
      ValueError: The vocabulary's pieces are no whole words, there are more than rows, or a word is empty.
    """
    words, special = words_of(vocabulary), ids_of(vocabulary)
    if special.vocab_size > vocab_size:
        raise ValueError(
            f"the vocabulary has {special.vocab_size} ids, and the model {vocab_size}; give a model of that vocab_size"
        )
    table = np.zeros((vocab_size, CHARACTERS_PER_WORD), np.int32)
    for token_id, word in words.items():
        table[token_id] = character_ids(word)
    if special.unk is not None:
        tokenizer = getattr(vocabulary, "core", vocabulary)
        table[special.unk] = character_ids(tokenizer.piece(special.unk))
    for begins, numbers in ((True, (special.bos, special.cls)), (False, (special.eos, special.sep))):
        for token_id in numbers:
            if token_id is not None:
                table[token_id] = sentence_boundary(begins=begins)
    return table
