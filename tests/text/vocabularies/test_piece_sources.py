"""Pieces of an old vocabulary that a new one's are made of, for vocabularies of every kind."""

import numpy as np
import pytest

from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.piece_sources import piece_sources, texts_of
from tests.references import ROOT

SENTENCE = "the people went up into the city"


@pytest.fixture
def tokenizer(path_of_kind):
    return open_tokenizer(path_of_kind, 10)


def test_texts_of_the_pieces_of_a_sentence_are_the_sentence(tokenizer):
    texts = texts_of(tokenizer)
    ids = [token_id for token_id in tokenizer.encode(SENTENCE) if token_id != tokenizer.special.unk]
    written = b"".join(texts[token_id] for token_id in ids).decode().strip()
    assert written == " ".join(SENTENCE.split()) or tokenizer.special.unk in tokenizer.encode(SENTENCE)
    assert len(written) > 10


def test_special_ids_and_sentinels_have_no_text(tokenizer):
    texts = texts_of(tokenizer)
    special = {token_id for token_id in tokenizer.special.by_role.values() if token_id is not None}
    assert special | set(filter(tokenizer.is_sentinel, range(tokenizer.vocab_size))) <= {
        token_id for token_id, text in enumerate(texts) if text is None
    }


def test_a_vocabulary_has_all_of_its_own_pieces(tokenizer):
    sources, texts = piece_sources(tokenizer, tokenizer), texts_of(tokenizer)
    for token_id, source in enumerate(sources.ids):
        assert len(source) == 1
        assert source[0] == token_id or texts[source[0]] == texts[token_id]
    assert (sources.num_copied, sources.num_composed, sources.num_averaged) == (len(texts), 0, 0)


def test_words_are_made_of_bytes_with_the_space_before_them():
    old, new = open_tokenizer("bytes"), open_tokenizer(ROOT / "data/vocabulary/spiece.model")
    sources = piece_sources(old, new)
    by_piece = {new.piece(token_id): source for token_id, source in enumerate(sources.ids)}
    assert by_piece["▁the"] == tuple(old.encode(" the"))
    assert by_piece["a"] == tuple(old.encode("a"))
    assert by_piece["</s>"] == (old.special.eos,)
    assert by_piece["<extra_id_7>"] == (old.vocab_size - 8,)
    assert sources.num_averaged == 0
    assert sources.summary == (
        f"of 4,100 ids {sources.num_copied} are copied, {sources.num_composed:,} are means of the old pieces of their "
        "text, and 0 are the mean of all"
    )


def test_parts_of_words_are_made_of_pieces_inside_of_words(every_kind):
    old = open_tokenizer(ROOT / "data/vocabulary/spiece.model")
    new = open_tokenizer(every_kind["wordpiece"])
    sources = piece_sources(old, new)
    by_piece = {
        new.piece(token_id): [old.piece(each) for each in source]
        for token_id, source in enumerate(sources.ids)
    }
    assert by_piece["the"] == ["▁the"]
    assert by_piece["##e"] == ["e"]
    assert by_piece["[SEP]"] == ["</s>"]
    assert by_piece["[MASK]"] == []
    for piece, source in by_piece.items():
        if source and piece[0] != "[" and "<" not in piece:
            text = piece[2:] if piece.startswith("##") else f"▁{piece}"
            assert "".join(source) == text


def test_pieces_that_the_old_vocabulary_cannot_cut_have_no_sources(every_kind):
    old, new = open_tokenizer(every_kind["words"]), open_tokenizer(every_kind["bytebpe"])
    sources = piece_sources(old, new)
    assert sources.num_averaged > 200  # most bytes
    counted = np.array([len(each) for each in sources.ids])
    assert (counted == 0).sum() == sources.num_averaged
