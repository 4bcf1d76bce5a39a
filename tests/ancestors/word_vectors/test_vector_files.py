"""Files of GloVe and word2vec: their literal forms, numbers to the bit, and what is refused with which words."""

import struct

import numpy as np
import pytest

from t5x_like.ancestors.word_vectors.vector_files import (
    VECTOR_FORMATS,
    format_of_name,
    read_vectors,
    write_vectors,
)
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.io.files import read_json
from tests.references import ROOT

GENSIM = ROOT / "tests" / "fixtures" / "word_vectors"
ROWS = struct.pack("<2f", 0.5, -1.25), struct.pack("<2f", 1e-3, 7.0)
LITERAL = {
    "glove.txt": b"the 0.5 -1.25\nna\xc3\xafve 0.001 7\n",
    "word2vec.txt": b"2 2\nthe 0.500000 -1.250000 \nna\xc3\xafve 0.001000 7.000000 \n",  # its program ends lines so
    "word2vec.bin": b"2 2\nthe " + ROWS[0] + b"\nna\xc3\xafve " + ROWS[1] + b"\n",
    "without_line_ends.bin": b"2 2\nthe " + ROWS[0] + b"na\xc3\xafve " + ROWS[1],
    "windows.txt": b"2 2\r\nthe 0.5 -1.25\r\nna\xc3\xafve 0.001 7.0\r\n",
}


@pytest.mark.parametrize("name", LITERAL)
def test_each_form_is_recognized_and_read(tmp_path, name):
    (tmp_path / name).write_bytes(LITERAL[name])
    vectors = read_vectors(tmp_path / name)
    assert vectors.words == ("the", "naïve")
    np.testing.assert_array_equal(vectors.table, np.array([[0.5, -1.25], [1e-3, 7.0]], np.float32))
    assert vectors.table.dtype == np.float32


@pytest.mark.parametrize("vector_format", VECTOR_FORMATS)
def test_any_finite_number_comes_back_to_the_bit(tmp_path, vector_format):
    bits = np.random.default_rng(0).integers(0, 2**32, 30_000, dtype=np.uint32).view(np.float32)
    special = np.array(
        [0.0, -0.0, 1e-45, -3.4028235e38, 0.1, 16777216.0], np.float32
    )  # the third is subnormal
    table = np.concatenate([special, bits[np.isfinite(bits)][: 24_000 - len(special)]]).reshape(-1, 8)
    words = (*(f"w{row}" for row in range(len(table) - 3)), "1", "\x85", "a\u00a0b\u2028c")
    write_vectors(tmp_path / "vectors", WordVectors(words, table), vector_format)
    again = read_vectors(tmp_path / "vectors", vector_format)
    assert again.words == words
    np.testing.assert_array_equal(again.table.view(np.uint32), table.view(np.uint32))
    assert read_vectors(tmp_path / "vectors").words == words


def test_the_written_bytes_are_those_of_the_formats(tmp_path):
    vectors = WordVectors(("the", "naïve"), np.array([[0.5, -1.25], [1e-3, 7.0]], np.float32))
    for name, content in {
        "a.bin": LITERAL["word2vec.bin"],
        "a.txt": b"2 2\nthe 0.5 -1.25\nna\xc3\xafve 0.001 7.0\n",
    }.items():
        write_vectors(tmp_path / name, vectors)
        assert (tmp_path / name).read_bytes() == content
    write_vectors(tmp_path / "a.txt", vectors, "glove")
    assert (tmp_path / "a.txt").read_bytes() == b"the 0.5 -1.25\nna\xc3\xafve 0.001 7.0\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bin", "a.txt"]
    assert format_of_name("x/y.bin") == "word2vec_binary"


def test_gensims_files_are_read(tmp_path):
    text, binary = read_vectors(GENSIM / "gensim.txt"), read_vectors(GENSIM / "gensim.bin")
    assert text.words == binary.words
    assert len(text.words) == 24
    assert text.words[12] == "mäny0"
    np.testing.assert_array_equal(text.table, binary.table)
    nearest = text.nearest(["mäny3", "one4"], minus=["one3"], number=5)
    for (word, cosine), (expected, value) in zip(
        nearest, read_json(GENSIM / "expected.json")["nearest"], strict=True
    ):
        assert word == expected
        assert cosine == pytest.approx(value, abs=1e-6)


def test_words_with_spaces_are_read_from_glove_and_left_out_of_what_is_written(tmp_path, caplog):
    (tmp_path / "g.txt").write_bytes(b"at 1 2\nat name@domain.com 3 4\n. . . 5 6\n")
    vectors = read_vectors(tmp_path / "g.txt")
    assert vectors.words == ("at", "at name@domain.com", ". . .")
    write_vectors(tmp_path / "w.txt", vectors)
    assert (tmp_path / "w.txt").read_bytes() == b"1 2\nat 1.0 2.0\n"
    assert "2 words with a space or a line end are left out" in caplog.text


def test_the_first_vector_of_a_word_is_kept_with_a_warning(tmp_path, caplog):
    (tmp_path / "v.txt").write_bytes(b"4 1\na 1\nb 2\na 3\na 4\n")
    vectors = read_vectors(tmp_path / "v.txt")
    assert (vectors.words, vectors.table.tolist()) == (("a", "b"), [[1.0], [2.0]])
    assert (
        "2 vectors are of words that have one already, such as 'a'; the first of each is kept" in caplog.text
    )


def test_a_word_that_was_cut_inside_a_character_is_read_with_a_warning(tmp_path, caplog):
    (tmp_path / "v.bin").write_bytes(b"1 1\nna\xc3 " + struct.pack("<f", 1.0))
    assert read_vectors(tmp_path / "v.bin").words == ("na\ufffd",)
    assert "1 words are invalid UTF-8" in caplog.text


def binary(header: bytes, *rows: tuple[bytes, list[float]], end: bytes = b"") -> bytes:
    return header + b"".join(word + b" " + struct.pack(f"<{len(row)}f", *row) for word, row in rows) + end


A, B = (b"a", [1.0, 2.0, 3.0]), (b"b", [4.0, 5.0, 6.0])
BAD = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\n", "is empty"),
    "fewer_numbers": (
        b"a 1 2 3\nb 1 2\n",
        ":2: the vector of 'b' has 2 numbers, and the first line has 3; all vectors",
    ),
    "more_numbers": (
        b"a 1 2 3\nb 1 2 3 4\n",
        ":2: the vector of 'b' has 4 numbers, and the first line has 3",
    ),
    "no_vector": (b"word\n", ":1: 'word\\n' has no numbers"),
    "blank_line": (b"a 1 2\n\nb 1 2\n", ":2: the vector of '' has 0 numbers, and the first line has 2"),
    "other_than_the_header": (
        b"2 3\na 1 2\nb 1 2\n",
        ":2: the vector of 'a' has 2 numbers, and the header says 3",
    ),
    "fewer_rows": (b"3 1\na 1\nb 2\n", "the header says 3 words of 1 dimensions, the file has 2;"),
    "more_rows": (b"1 1\na 1\nb 2\n", "the header says 1 words of 1 dimensions, the file has 2;"),
    "no_number": (b"a 1 2\nb 1 zwei\n", ":2: 'zwei' in the vector of 'b' is no number"),
    "underscore": (b"a 1 2\nb 1 2_0\n", ":2: '2_0' in the vector of 'b' is no number"),
    "nan": (b"2 2\na 1 2\nb 1 nan\n", ":3: the vector of 'b' has NaN or an infinite number"),
    "inf": (b"a 1 inf\nb -inf 1\n", ":1: the vector of 'a' has NaN or an infinite number, and 1 more"),
    "too_large": (b"a 1 1e39\n", ":1: the vector of 'a' has NaN or an infinite number"),
    "header_zero": (b"0 3\n", "the header says 0 words of 3 dimensions; both must be at least 1"),
    "gzip": (b"\x1f\x8b\x08rest", "is compressed; unpack it"),
    "zip": (b"PK\x03\x04rest", "is compressed; unpack it"),
    "truncated_binary": (
        binary(b"2 3\n", A, B)[:-1],
        "the header says 2 words of 3 dimensions, the file has 27 bytes",
    ),
    "truncated_long_words": (
        binary(b"2 3\n", (b"aaaa", A[1]), B)[:-1],
        "the file has 1; the file is incomplete, or its header wrong: it ends inside the vector of 'b'",
    ),
    "fewer_binary_rows": (
        binary(b"9 3\n", A, B),
        "the header says 9 words of 3 dimensions, the file has 28 bytes",
    ),
    "more_binary_rows": (binary(b"1 3\n", A, B), "the file has 14 bytes more"),
    "smaller_dimension": (binary(b"2 2\n", A, B), "no word begins at byte 14, where vector 2 of 2 should"),
    "larger_dimension": (binary(b"1 4\n", A, B), "the file has 10 bytes more"),
    "huge_header": (binary(b"999999999999 999999999\n", A), "which is too few"),
    "binary_nan": (binary(b"2 3\n", A, (b"b", [0.0, float("nan"), 0.0])), "vector 2 of 'b' has NaN"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_by_its_name_and_place(tmp_path, name):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the message is compared below
        read_vectors(tmp_path / name)
    assert message in str(refused.value)
    assert str(tmp_path / name) in str(refused.value)


@pytest.mark.parametrize("header", [b"the 1 2\n", b"2 two\n", b"2\n", b"2 2 2\n"])
def test_a_wrong_header_is_refused_where_the_format_has_one(tmp_path, header):
    (tmp_path / "v.bin").write_bytes(binary(header, A, B))
    with pytest.raises(
        ValueError, match="word2vec's files begin with the number of words and the number of dim"
    ):
        read_vectors(tmp_path / "v.bin", "word2vec_binary")


def test_a_word_that_is_unknown_or_missing_is_said(tmp_path):
    vectors = WordVectors(("king", "queen"), np.eye(2, dtype=np.float32))
    with pytest.raises(ValueError, match="no vector of 'kingg' among 2 words; did you mean 'king'"):
        vectors.nearest(["kingg"])
    with pytest.raises(ValueError, match="name at least one word"):
        vectors.nearest([])
    with pytest.raises(ValueError, match="does not exist"):
        read_vectors(tmp_path / "nowhere.txt")


def test_words_asked_for_are_not_among_the_nearest():
    table = np.array([[1, 0], [2, 0.1], [0, 3], [0, 0], [-1, 0]], np.float32)
    vectors = WordVectors(("a", "b", "c", "zero", "d"), table)
    assert [word for word, _ in vectors.nearest(["a"])] == ["b", "c", "zero", "d"]
    word, cosine = vectors.nearest(["a"], number=1)[0]
    assert (word, round(cosine, 6)) == ("b", round(2 / np.hypot(2, 0.1), 6))
    assert vectors.nearest(["a"], minus=["a"], number=9)[0][1] == 0.0
