"""Decompression of Unix compress files."""

import pytest

from data.prepare import unix_compress


def test_unix_compress_is_decompressed_beyond_its_first_code_width(as_unix_compressed):
    text = " ".join(f"verse {index} of {index * 7919 % 1000}" for index in range(1500)).encode()
    assert unix_compress.decompress(as_unix_compressed(text)) == text


def test_unix_compress_knows_a_string_that_is_still_being_built(as_unix_compressed):
    assert unix_compress.decompress(as_unix_compressed(b"aaaaaaaaaa")) == b"a" * 10


def test_damaged_unix_compress_data_is_refused():
    with pytest.raises(ValueError, match="does not start with the bytes 1f 9d"):
        unix_compress.decompress(b"PK\x03\x04")
    with pytest.raises(ValueError, match=r"damaged \.Z data"):
        unix_compress.decompress(b"\x1f\x9d\x90" + b"\xff" * 9)
