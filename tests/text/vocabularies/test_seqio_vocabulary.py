import pickle

import numpy as np
import pytest
import seqio
import tensorflow as tf

from t5x_like.text.seqio_bridge.seqio_vocabulary import load_vocabulary

TEXTS = ["the king spoke", "", "naïve </s> [MASK] <extra_id_0>"]


@pytest.fixture
def vocabulary(path_of_kind):
    return load_vocabulary(path_of_kind, num_sentinels=10)


def test_tensorflow_gives_the_ids_of_python(vocabulary):
    for text in TEXTS:
        ids = vocabulary.encode_tf(tf.constant(text))
        assert ids.dtype == tf.int32
        assert ids.numpy().tolist() == vocabulary.encode(text)


def test_a_graph_tokenises_and_writes_as_python_does(vocabulary):
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).map(vocabulary.encode_tf)
    results = [ids.tolist() for ids in dataset.as_numpy_iterator()]
    assert results == [vocabulary.encode(text) for text in TEXTS]
    written = dataset.map(vocabulary.decode_tf).as_numpy_iterator()
    assert [text.decode() for text in written] == [vocabulary.decode(ids) for ids in results]


def test_rows_are_written_one_by_one(vocabulary):
    ids = vocabulary.encode("the king")
    rows = np.array([ids, ids[::-1]], np.int32)
    written = vocabulary.decode_tf(tf.constant(rows)).numpy().tolist()
    assert [text.decode() for text in written] == [vocabulary.decode(row) for row in rows]
    assert vocabulary.decode(tf.constant(ids)) == vocabulary.decode(ids)


def test_seqio_takes_it_as_a_feature_and_finds_equal_ones_equal(vocabulary, path_of_kind):
    feature = seqio.Feature(vocabulary=vocabulary, add_eos=True)
    again = seqio.Feature(vocabulary=pickle.loads(pickle.dumps(vocabulary)), add_eos=True)
    assert feature == again
    assert feature != seqio.Feature(vocabulary=load_vocabulary(path_of_kind, num_sentinels=11)) or (
        "json" in path_of_kind
    )
    assert vocabulary.vocab_size == vocabulary._base_vocab_size + vocabulary.extra_ids


def test_tokenization_by_seqio_adds_the_end(vocabulary):
    features = {"targets": seqio.Feature(vocabulary=vocabulary, add_eos=True)}
    dataset = tf.data.Dataset.from_tensor_slices({"targets": TEXTS})
    dataset = seqio.preprocessors.tokenize(dataset, features, copy_pretokenized=False)
    dataset = seqio.preprocessors.append_eos(dataset, features)
    results = [example["targets"].tolist() for example in dataset.as_numpy_iterator()]
    assert results == [[*vocabulary.encode(text), vocabulary.eos_id] for text in TEXTS]


def test_special_ids_are_named_as_seqio_names_them(every_kind):
    pieces = load_vocabulary(every_kind["wordpiece"], num_sentinels=10)
    assert (pieces.pad_id, pieces.unk_id, pieces.eos_id, pieces.bos_id, pieces.extra_ids) == (0, 1, 3, -1, 10)
    ranks = load_vocabulary(every_kind["tiktoken"], num_sentinels=10)
    assert (ranks.pad_id, ranks.unk_id, ranks.eos_id) == (0, None, 261)
    assert "tiktoken, 272 ids, 10 sentinels" in str(ranks)
