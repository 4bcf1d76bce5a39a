"""Characters of words, by the ids of AllenNLP's ELMoCharacterMapper."""

import numpy as np
import pytest

from t5x_like.ancestors.word_vectors.character_table import character_ids, character_table, sentence_boundary
from t5x_like.io.files import write_json
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import ids_of

BEGIN, END, PADDING = 259, 260, 261


def test_a_word_is_its_bytes_between_boundaries():
    assert character_ids("cat").tolist() == [BEGIN, *(byte + 1 for byte in b"cat"), END, *[PADDING] * 45]
    assert character_ids("日").tolist()[:6] == [BEGIN, 0xE6 + 1, 0x97 + 1, 0xA5 + 1, END, PADDING]
    assert character_ids("x").dtype == np.int32


def test_long_words_keep_48_bytes():
    long = character_ids("a" * 47 + "é")  # the last letter is cut in two
    assert long.tolist() == [BEGIN, *[ord("a") + 1] * 47, 0xC3 + 1, END]
    np.testing.assert_array_equal(character_ids("a" * 48), character_ids("a" * 49))
    assert character_ids("a" * 48).tolist() != character_ids("a" * 47).tolist()


def test_an_empty_word_is_refused():
    with pytest.raises(ValueError, match="a word is empty, and has no characters"):
        character_ids("")


def test_boundaries_of_sentences_have_ids_of_their_own():
    assert sentence_boundary(begins=True).tolist() == [BEGIN, 257, END, *[PADDING] * 47]
    assert sentence_boundary(begins=False).tolist() == [BEGIN, 258, END, *[PADDING] * 47]


@pytest.fixture
def tokenizer(tmp_path):
    pieces = ["<pad>", "</s>", "<unk>", "one", "two"]
    words = {"format": "t5x_like words", "lower_case": True, "punctuation_apart": True, "pieces": pieces}
    write_json(tmp_path / "words.json", words)
    return open_tokenizer(str(tmp_path / "words.json"), 100)


def test_a_table_has_a_row_for_each_id(tokenizer):
    table, ids = character_table(tokenizer, 128), ids_of(tokenizer)
    assert table.shape == (128, 50)
    for token_id, word in ((3, "one"), (4, "two"), (2, "<unk>")):
        np.testing.assert_array_equal(table[token_id], character_ids(word))
    assert ids.bos is not None
    for token_id, begins in ((ids.cls, True), (ids.bos, True), (ids.sep, False), (1, False)):
        np.testing.assert_array_equal(table[token_id], sentence_boundary(begins=begins))
    used = {1, 2, 3, 4, ids.cls, ids.bos, ids.sep}
    assert set(np.flatnonzero(table.any(axis=1))) == used


def test_other_vocabularies_and_sizes_are_refused(tokenizer):
    with pytest.raises(
        ValueError, match="the vocabulary has 105 ids, and the model 64; give a model of that"
    ):
        character_table(tokenizer, 64)
    with pytest.raises(
        ValueError, match="'bytes' is of the kind bytes; word vectors and models that read characters"
    ):
        character_table(open_tokenizer("bytes"), 512)
