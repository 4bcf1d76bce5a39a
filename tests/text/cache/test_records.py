import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.cache.record_encoding import decode, encode, record_sizes, sort_features
from t5x_like.text.fields import Feature, token_dtype

FEATURES = sort_features(
    [
        Feature(name="tokens", dtype="uint16"),
        Feature(name="spans", dtype="int32", width=2),
        Feature(name="sentence_ends", dtype="int32"),
    ]
)
whole = st.integers(0, 2**31 - 1)
examples = st.fixed_dictionaries(
    {
        "tokens": st.lists(st.integers(0, 2**16 - 1), max_size=9),
        "spans": st.lists(st.tuples(whole, whole), max_size=4),
        "sentence_ends": st.lists(whole, max_size=5),
    }
)


@given(st.lists(examples, max_size=5))
def test_examples_come_back_as_they_were(examples):
    encoded = encode(examples, FEATURES)
    assert [len(record) for record in encoded.records] == record_sizes(encoded.lengths, FEATURES).tolist()
    for example, result in zip(examples, decode(encoded.records, encoded.lengths, FEATURES), strict=True):
        assert result["tokens"].dtype == np.uint16
        assert result["spans"].shape == (len(example["spans"]), 2)
        assert {name: array.tolist() for name, array in result.items()} == {
            **example,
            "spans": [list(span) for span in example["spans"]],
        }


def test_ids_that_do_not_fit_their_type_are_refused():
    with pytest.raises(ValueError, match=r"'tokens' holds numbers from 3 to 70000, which uint16 can't"):
        encode([{"tokens": np.array([3, 70_000])}], [Feature(name="tokens", dtype="uint16")])
    with pytest.raises(ValueError, match="from -1 to 5"):
        encode([{"tokens": [5, -1]}], [Feature(name="tokens", dtype="uint16")])


def test_arrays_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"has the shape \(1, 3\)"):
        encode([{"spans": [[1, 2, 3]]}], [Feature(name="spans", dtype="int32", width=2)])


def test_ids_take_two_bytes_if_they_fit():
    assert token_dtype(2**16) == "uint16"
    assert token_dtype(2**16 + 1) == "int32"
