from dataclasses import replace

import numpy as np
import pytest
import seqio

from t5x_like.text.seqio_bridge.seqio_vocabulary import load_vocabulary
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.text.vocabularies.vocabulary_ids import VocabularyIds, ids_of


def without_starts(ids: VocabularyIds) -> VocabularyIds:
    return replace(ids, starts_word=None)


def test_bytes_lend_their_last_sentinels_to_mask_cls_sep_and_bos():
    ids = ids_of(open_tokenizer("bytes", 100))
    assert (ids.vocab_size, ids.pad, ids.eos, ids.unk) == (359, 0, 1, 2)
    assert (ids.mask, ids.cls, ids.sep, ids.bos) == (259, 260, 261, 262)
    assert (ids.first_sentinel, ids.num_sentinels) == (358, 96)
    assert ids.starts_word is not None
    assert ids.starts_word.shape == (359,)


def test_own_special_ids_are_not_replaced_by_sentinels(every_kind):
    tokenizer = open_tokenizer(every_kind["wordpiece"], 10)
    ids = ids_of(tokenizer)
    assert (ids.pad, ids.unk, ids.cls, ids.sep, ids.mask) == (0, 1, 2, 3, 4)
    assert ids.bos == ids.vocab_size - 10
    assert ids.num_sentinels == 9


@pytest.mark.parametrize(
    ("num_sentinels", "replaced"),
    [(0, (None, None, None, None)), (1, (259, None, None, None)), (3, (259, 260, 261, None))],
)
def test_too_few_sentinels_replace_the_first_ids_in_order(num_sentinels, replaced):
    ids = ids_of(open_tokenizer("bytes", num_sentinels))
    assert (ids.mask, ids.cls, ids.sep, ids.bos) == replaced
    assert ids.num_sentinels == 0


def test_replaced_ids_and_remaining_sentinels_are_disjoint(path_of_kind):
    ids = ids_of(open_tokenizer(path_of_kind, 10))
    left = {ids.first_sentinel - place for place in range(ids.num_sentinels)}
    others = [ids.mask, ids.cls, ids.sep, ids.bos, ids.pad, ids.eos, ids.unk]
    assert not left.intersection(token_id for token_id in others if token_id is not None)
    assert all(token_id is None or 0 <= token_id < ids.vocab_size for token_id in others)


def test_a_vocabulary_for_seqio_has_the_ids_of_its_tokenizer(path_of_kind):
    mine, reference = (
        ids_of(open_tokenizer(path_of_kind, 10)),
        ids_of(load_vocabulary(path_of_kind, num_sentinels=10)),
    )
    assert without_starts(mine) == without_starts(reference)
    np.testing.assert_array_equal(mine.starts_word, reference.starts_word)


def test_seqios_own_vocabularies_have_ids_too(pieces_path):
    mine = ids_of(load_vocabulary(pieces_path))
    reference = ids_of(seqio.SentencePieceVocabulary(str(pieces_path), extra_ids=100))
    assert without_starts(mine) == without_starts(reference)
    of_bytes = ids_of(seqio.ByteVocabulary(100)), ids_of(load_vocabulary("bytes"))
    assert without_starts(of_bytes[0]) == without_starts(of_bytes[1])
    passed = ids_of(seqio.PassThroughVocabulary(size=50, eos_id=1))
    assert (passed.vocab_size, passed.eos, passed.num_sentinels, passed.mask) == (50, 1, 0, None)
