"""Preparation of the King James Bible from a small container in the format of the Debian package."""

import re
import struct

import pytest

from data.prepare import king_james


def bible_data(windows: list[bytes], compress) -> bytes:
    packed = [compress(window)[3:] for window in windows]
    start = 0x5C + 4 * (len(windows) + 1) + 3
    offsets = [start]
    for window in packed:
        offsets.append(offsets[-1] + len(window))
    header = b"EC02Compressed Data File".ljust(0x54, b"\0")
    numbers = struct.pack(f">2I{len(offsets)}I", 65536, len(windows), *offsets)
    return header + numbers + b"\x1f\x9d\x90" + b"".join(packed)


def chapters_text(num_chapters: int) -> str:
    verses = [
        f"Ge{chapter}:{verse} And he saw the {chapter} and {verse}."
        for chapter in range(1, num_chapters + 1)
        for verse in (1, 2)
    ]
    return "A title.\n" + "\n".join(verses) + "\n"


def test_king_james_becomes_one_line_for_each_chapter_without_verse_numbers(
    tmp_path, debian_package, as_unix_compressed
):
    text = chapters_text(100).encode()
    package = debian_package(
        tmp_path / "bible.deb",
        {"usr/lib/bible.data": bible_data([text[:1000], text[1000:]], as_unix_compressed)},
    )
    king_james.prepare(package, tmp_path / "out")
    train = (tmp_path / "out/train.txt").read_text().splitlines()
    validation = (tmp_path / "out/validation.txt").read_text().splitlines()
    assert (len(train), len(validation)) == (40, 60)
    assert not set(train) & set(validation)
    assert all(
        re.fullmatch(r"And he saw the (\d+) and 1\. And he saw the \1 and 2\.", line) for line in train
    )


def test_chapters_that_share_a_long_verse_are_never_held_out():
    long_verse = "and it came to pass in those days that he went up to the city"
    chapters = {f"Ge{index}": [f"verse {index}"] for index in range(20)}
    chapters |= {"1Ki1": [long_verse + ":"], "1Chr1": [long_verse.capitalize() + "."]}
    validation = king_james.split_chapters(chapters, num_validation=19)["validation"]
    assert not any("came to pass" in document for document in validation)


def test_a_line_that_is_no_verse_is_named():
    with pytest.raises(ValueError, match=r"line 3 is not a verse .*'nonsense'"):
        king_james.read_chapters("title\nGe1:1 In the beginning\nnonsense\n")
