import pickle

import numpy as np
import pytest
import sentencepiece
import seqio
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from t5x_like.text.seqio_bridge.seqio_vocabulary import first_sentinel, load_vocabulary

SENTINEL_TEXT = "I saw <extra_id_0> and <extra_id_99>, then <extra_id_5>"


@pytest.fixture(params=["bytes", "pieces"])
def vocabulary(request, pieces_path):
    return load_vocabulary("bytes" if request.param == "bytes" else pieces_path)


def test_special_ids_are_t5s(vocabulary):
    assert (vocabulary.pad_id, vocabulary.eos_id, vocabulary.unk_id) == (0, 1, 2)


def test_sizes_count_the_sentinels(pieces_path):
    assert load_vocabulary("bytes").vocab_size == 3 + 256 + 100
    plain = sentencepiece.SentencePieceProcessor(model_file=str(pieces_path)).GetPieceSize()
    assert load_vocabulary(pieces_path).vocab_size == plain + 100
    assert load_vocabulary(pieces_path, num_sentinels=0).vocab_size == plain


def test_sentinel_strings_in_users_text_never_become_sentinel_ids(vocabulary):
    lowest_sentinel = first_sentinel(vocabulary) - 99
    ids = vocabulary.encode(SENTINEL_TEXT)
    assert max(ids) < lowest_sentinel
    assert max(vocabulary.encode_tf(SENTINEL_TEXT).numpy()) < lowest_sentinel
    assert max(max(some) for some in vocabulary.encode_all([SENTINEL_TEXT] * 2)) < lowest_sentinel


def test_sentinel_strings_survive_a_round_trip_as_bytes():
    vocabulary = load_vocabulary("bytes")
    assert vocabulary.decode(vocabulary.encode(SENTINEL_TEXT)) == SENTINEL_TEXT


def test_sentinel_ids_print_as_extra_ids(vocabulary):
    first = first_sentinel(vocabulary)
    ids = [*vocabulary.encode("one"), first, *vocabulary.encode("two"), first - 1, 1, first - 2]
    assert "".join(vocabulary.decode(np.array(ids)).split()) == "one<extra_id_0>two<extra_id_1>"


def test_python_and_tensorflow_agree(vocabulary):
    text = "The quick brown fox, naïve — 123"
    assert vocabulary.encode(text) == vocabulary.encode_tf(text).numpy().tolist()
    assert vocabulary.encode_all([text, ""]) == [vocabulary.encode(text), vocabulary.encode("")]


def test_ordinary_text_has_the_ids_of_seqios_vocabulary(pieces_path):
    text = "That is good. This is a test."
    reference = seqio.SentencePieceVocabulary(str(pieces_path), extra_ids=100)
    assert load_vocabulary(pieces_path).encode(text) == reference.encode(text)
    assert load_vocabulary(pieces_path).decode([19, 5, 1099]) == reference.decode([19, 5, 1099])


@given(st.text(max_size=40))
@settings(max_examples=200, deadline=None)
def test_bytes_keep_every_text(text):
    vocabulary = load_vocabulary("bytes")
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_a_lone_surrogate_is_named(vocabulary):
    with pytest.raises(ValueError, match=r"character 2 is a lone surrogate \(U\+D800\)"):
        vocabulary.encode("ab\ud800c")


def test_invalid_utf8_is_named(vocabulary):
    with pytest.raises(ValueError, match="invalid UTF-8 at byte 2"):
        vocabulary.encode(b"ab\xffc")


def test_a_missing_file_and_a_wrong_file_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"no-such\.model' does not exist"):
        load_vocabulary(tmp_path / "no-such.model")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(
        ValueError, match=r"notes\.txt' is no vocabulary; what can be opened is a SentencePiece .model, "
    ):
        load_vocabulary(tmp_path / "notes.txt")


def test_models_with_their_own_sentinels_get_no_others(pieces_path, tmp_path):
    model = sentencepiece_model_pb2.ModelProto.FromString(pieces_path.read_bytes())
    for number in (1, 0):
        model.pieces.add(piece=f"▁<extra_id_{number}>", score=0.0, type=model.SentencePiece.USER_DEFINED)
    path = tmp_path / "own.model"
    path.write_bytes(model.SerializeToString())
    vocabulary = load_vocabulary(path)
    assert vocabulary.vocab_size == load_vocabulary(pieces_path, num_sentinels=2).vocab_size
    assert max(vocabulary.encode(SENTINEL_TEXT)) < first_sentinel(vocabulary) - 1
    assert vocabulary.decode([first_sentinel(vocabulary)]) == "<extra_id_0>"


def test_vocabularies_can_be_pickled_and_compared(vocabulary):
    vocabulary.encode("warm")
    again = pickle.loads(pickle.dumps(vocabulary))
    assert again == vocabulary
    assert again.encode("warm") == vocabulary.encode("warm")
