import pytest
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.text.cache.record_offsets import read_record, record_offsets
from t5x_like.text.cache.shards import OPTIONS

BLOCK = 65536
# Around the edges of blocks, where headers interrupt a record.
sizes = st.one_of(
    st.integers(0, 50), st.integers(BLOCK - 120, BLOCK + 10), st.integers(2 * BLOCK, 2 * BLOCK + 99)
)


def write(path, records):
    writer = ArrayRecordWriter(str(path), OPTIONS)
    for record in records:
        writer.write(record)
    writer.close()
    return path.read_bytes()


@given(st.lists(sizes, max_size=30), st.integers(0, 255))
@settings(max_examples=60, deadline=None)
def test_records_are_found_by_offset_without_the_files_own_index(tmp_path_factory, lengths, start):
    path = tmp_path_factory.mktemp("offsets") / "a.array_record"
    records = [bytes((start + k) % 251 for k in range(length)) for length in lengths]
    content = write(path, records)
    offsets = record_offsets(memoryview(content), lengths)
    results = [
        read_record(
            lambda place, length: content[place : place + length], int(offsets[k]), int(offsets[k + 1]), size
        )
        for k, size in enumerate(lengths)
    ]
    assert results == records
    if records:
        assert ArrayRecordReader(str(path)).read_all() == records


def test_another_layout_is_refused_and_not_misread(tmp_path):
    content = write(tmp_path / "a.array_record", [b"x" * 10, b"y" * 20])
    with pytest.raises(ValueError, match="record 1 of 21 bytes is not at byte"):
        record_offsets(memoryview(content), [10, 21])
    with pytest.raises(ValueError, match="no signature"):
        record_offsets(memoryview(bytes(BLOCK)), [10])
