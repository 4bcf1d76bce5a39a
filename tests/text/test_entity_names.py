import pytest

from t5x_like.text.entity_names import entity_numbers, entity_spans, names_digest


def written(tmp_path, text, name="entities.txt"):
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(file)


@pytest.mark.parametrize(
    "text", ["ann\nbob\n", "ann 0.5 1\nbob 2 3\n", "2 2\nann 0.5 1\nbob 2 3\n", "ann\r\nbob"]
)
def test_names_are_numbered_by_lines_of_a_list_or_of_vectors(tmp_path, text):
    file = written(tmp_path, text)
    assert entity_numbers(file) == {"ann": 0, "bob": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; it needs the name of an entity on each line"),
        ("ann\n\nbob\n", "has a line without a name"),
        ("ann\nbob\nann\n", "has the entity 'ann' twice"),
        (b"\xff\xfe", "is not UTF-8 text"),
    ],
)
def test_files_without_distinct_names_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        entity_numbers(written(tmp_path, text))


def test_the_digest_depends_on_the_order(tmp_path):
    digests = [names_digest(written(tmp_path, text, f"{text[0]}.txt")) for text in ("a\nb\n", "b\na\n")]
    assert digests[0] != digests[1]


def test_mentions_are_sorted_and_those_without_an_entity_left_out(tmp_path):
    file = written(tmp_path, "ann\nbob\n")
    cell = '[[4, 7, "bob"], [0, 3, "ann"], [8, 9, null]]'
    assert entity_spans(cell, 9, file) == ((0, 3, 0), (4, 7, 1))
