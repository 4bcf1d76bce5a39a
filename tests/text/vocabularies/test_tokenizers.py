import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.roles import find_special
from t5x_like.text.vocabularies.tokenizer import LONGEST_CHARACTERS

BERTS, T5S = (
    "[MASK] [CLS] [SEP] [PAD] [UNK]",
    "<pad> </s> <s> <unk> <mask> <extra_id_0> <extra_id_1> <extra_id_99>",
)
SPECIAL_STRINGS = f"{BERTS} {T5S} <|endoftext|>"
LOSSLESS = ("bytes", "bytebpe", "tiktoken")


@pytest.fixture
def tokenizer(path_of_kind):
    return open_tokenizer(path_of_kind, 10)


def reserved(tokenizer):
    """Return the ids that no text may have: special ones except the unknown, and sentinels."""
    special = {token_id for token_id in tokenizer.special.by_role.values() if token_id is not None} - {
        tokenizer.special.unk
    }
    return special | set(range(tokenizer.vocab_size - tokenizer.num_sentinels, tokenizer.vocab_size))


def test_special_strings_in_text_stay_text(tokenizer):
    for text in (SPECIAL_STRINGS, SPECIAL_STRINGS.replace(" ", ""), *SPECIAL_STRINGS.split()):
        ids = tokenizer.encode(text)
        assert ids
        assert not reserved(tokenizer).intersection(ids)


@pytest.mark.parametrize("kind", LOSSLESS)
def test_special_strings_read_back_as_they_were(every_kind, kind):
    tokenizer = open_tokenizer(every_kind[kind], 10)
    assert tokenizer.decode(tokenizer.encode(SPECIAL_STRINGS)) == SPECIAL_STRINGS


@given(text=st.text(max_size=60))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_has_an_id_out_of_range_or_a_reserved_one(tokenizer, text):
    ids = tokenizer.encode(text)
    assert all(0 <= token_id < tokenizer.vocab_size for token_id in ids)
    assert not reserved(tokenizer).intersection(ids)


@given(text=st.text(max_size=60))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("kind", LOSSLESS)
def test_bytes_lose_nothing_however_they_are_merged(every_kind, kind, text):
    tokenizer = open_tokenizer(every_kind[kind], 10)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_many_texts_have_the_ids_they_have_one_by_one(tokenizer):
    texts = ["the king went up", "", " ", "they said: come!", "naïve 中文", "x" * 300]
    assert tokenizer.encode_all(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_all([]) == []


def test_known_text_reads_back(tokenizer):
    assert tokenizer.decode(tokenizer.encode("she said the land")).lower() == "she said the land"


def test_a_pickled_tokenizer_is_equal_and_has_the_same_ids(tokenizer):
    ids = tokenizer.encode("the king, naïve")
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again == tokenizer
    assert again.fingerprint == tokenizer.fingerprint
    assert again.encode("the king, naïve") == ids
    assert again.decode(ids) == tokenizer.decode(ids)


def test_vocabularies_of_other_contents_or_sentinels_are_not_equal(every_kind):
    tokenizers = [open_tokenizer(path, num) for path in every_kind.values() for num in (0, 3)]
    own = open_tokenizer(every_kind["unigram json"], 0)  # has its own sentinels, so no others
    different = {tokenizer.fingerprint for tokenizer in tokenizers}
    assert len(different) == len(tokenizers) - 1
    assert own == open_tokenizer(every_kind["unigram json"], 3)


def test_sentinels_count_down_from_the_last_id_and_print_as_extra_ids(tokenizer):
    last = tokenizer.vocab_size - 1
    ids = [*tokenizer.encode("the"), last, *tokenizer.encode("land"), last - 1]
    assert "".join(tokenizer.decode(ids).split()) == "the<extra_id_0>land<extra_id_1>"
    assert tokenizer.piece(last) == "<extra_id_0>"


def test_decoding_stops_at_the_end_of_sequence(tokenizer):
    end = tokenizer.special.eos
    assert tokenizer.decode([*tokenizer.encode("the"), end, *tokenizer.encode("king")]) == "the"
    assert tokenizer.decode([]) == ""


def test_ids_beyond_the_vocabulary_read_as_unknown_and_negative_ones_are_refused(tokenizer):
    written = tokenizer.decode([*tokenizer.encode("the"), tokenizer.vocab_size + 27])
    assert written.startswith("the")
    assert tokenizer.piece(tokenizer.vocab_size + 27) == f"<{tokenizer.vocab_size + 27}>"
    with pytest.raises(ValueError, match=r"id -1 is negative; ids lie between 0 and \d+"):
        tokenizer.decode(np.array([3, -1]))


def test_text_that_is_none_is_named(tokenizer):
    with pytest.raises(ValueError, match=r"character 2 is a lone surrogate \(U\+D800\)"):
        tokenizer.encode("ab\ud800c")
    with pytest.raises(ValueError, match="invalid UTF-8 at byte 2"):
        tokenizer.encode(b"ab\xffc")
    with pytest.raises(ValueError, match=r"this is UTF-16 .* iconv -f UTF-16 -t UTF-8"):
        tokenizer.encode("the king".encode("utf-16"))


def test_nul_and_white_space_are_read(tokenizer):
    for text in ("\0", "a\0b", "   ", "\n\t\r\n", "\ufeffthe"):
        assert all(0 <= token_id < tokenizer.vocab_size for token_id in tokenizer.encode(text))


def test_text_longer_than_is_read_at_once_has_the_ids_of_its_words(tokenizer):
    sentence = "the king spoke to his people and they went up "
    text = (sentence * (LONGEST_CHARACTERS // len(sentence) + 40)).strip()
    assert len(text) > LONGEST_CHARACTERS
    assert tokenizer.encode(text) == tokenizer._encode([text])[0]


def test_text_without_a_space_is_read_whatever_its_length(tokenizer):
    ids = tokenizer.encode("th" * 600_000)
    assert 1 <= len(ids) <= 1_200_002


def test_every_id_has_a_piece_and_words_begin_at_some(tokenizer):
    assert all(tokenizer.piece(token_id) for token_id in range(tokenizer.vocab_size))
    begins = tokenizer.starts_word()
    if tokenizer.kind == "tokenizer.json" and begins is None:
        assert tokenizer.piece(tokenizer.encode("the king")[-1]).endswith("</w>")
        return
    assert begins.shape == (tokenizer.vocab_size,)
    assert begins.any()
    assert begins[tokenizer.vocab_size - 1]


@pytest.mark.parametrize("kind", ["t5 pieces", "wordpiece", "bytebpe", "words", "unigram json", "tiktoken"])
def test_words_of_a_text_are_counted_by_the_pieces_that_begin_them(every_kind, kind):
    tokenizer = open_tokenizer(every_kind[kind], 10)
    ids = tokenizer.encode("the king spoke to his people")
    begins = tokenizer.starts_word()[ids]
    begins[0] = True
    assert begins.sum() == 6


def test_white_space_begins_words_of_bytes_and_characters(every_kind):
    for kind in ("bytes", "characters"):
        tokenizer = open_tokenizer(every_kind[kind], 10)
        assert tokenizer.starts_word()[tokenizer.encode("a b")].tolist() == [False, True, False]


def test_a_configuration_may_take_a_piece_for_the_mask():
    pieces = {"<s>": 1, "</s>": 2, "_": 9}
    special = find_special(pieces.get, configuration={"mask_token": "_"})
    assert (special.mask, special.cls, special.sep) == (9, 1, 2)
