"""Files between two stages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.corpora.building.blocks import BlockWriter, read_blocks


def write(path, blocks, num_readers=4):
    with BlockWriter.open(str(path), num_readers=num_readers) as writer:
        for reader, content in blocks:
            writer.write(reader, content)
    return str(path)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=50))))
def test_every_reader_gets_its_blocks_in_order(tmp_path_factory, blocks):
    path = write(tmp_path_factory.mktemp("blocks") / "a", blocks)
    for reader in range(4):
        assert list(read_blocks(path, reader)) == [content for number, content in blocks if number == reader]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_damage_goes_unnoticed(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damage") / "a"
    blocks = [(n % 4, bytes([n]) * 40) for n in range(8)]
    good = bytearray((write(path, blocks), path.read_bytes())[1])
    place = data.draw(st.integers(0, len(good) - 1))
    good[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(good[: data.draw(st.sampled_from([len(good), place]))])
    right = [[content for number, content in blocks if number == reader] for reader in range(4)]
    for reader in range(4):
        assert read(str(path), reader) in (right[reader], "damaged, with the remedy")


def test_an_index_that_leaves_out_a_block_of_its_reader_is_damaged(tmp_path):
    path = tmp_path / "a"
    write(path, [(n % 4, bytes([n])) for n in range(8)])
    good = path.read_bytes()
    starts = len(good) - 24 - 8 * 5
    for place, value in ((starts + 8, 3), (starts + 16, 3), (starts + 8, 4), (starts + 16, 2)):
        path.write_bytes(good[:place] + bytes([value]) + good[place + 1 :])
        assert read(str(path), 1) == "damaged, with the remedy"


def read(path, reader):
    try:
        return list(read_blocks(path, reader))
    except ValueError as error:
        known = "is damaged" in str(error) and "delete that file and start the same command again" in str(
            error
        )
        return "damaged, with the remedy" if known else str(error)


def write_half(path):
    with BlockWriter.open(str(path), num_readers=1) as writer:
        writer.write(0, b"half")
        raise KeyError


def test_an_error_while_writing_leaves_no_file(tmp_path):
    with pytest.raises(KeyError):
        write_half(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
