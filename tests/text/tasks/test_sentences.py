import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.seqio_bridge.seqio_vocabulary import load_vocabulary
from t5x_like.text.tasks.documents import (
    Document,
    read_documents,
    sentences_of,
    split_sentences,
    tokenize_sentences,
)
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.rows import BadRow


@given(st.text("aB .?!\"'”)\n。", max_size=60))
def test_sentences_joined_are_the_text(text):
    sentences = split_sentences(text)
    assert "".join(sentences) == text
    assert all(sentences)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It rained. We left!  Why?", ["It rained.", " We left!", "  Why?"]),
        ('"Go." He went.', ['"Go."', " He went."]),
        ("Version 2.5 is out", ["Version 2.5 is out"]),
        ("The end.\n", ["The end.\n"]),
        ("下雨了。我們走！", ["下雨了。", "我們走！"]),
        ("", []),
    ],
)
def test_sentences_end_at_marks_before_white_space(text, sentences):
    assert split_sentences(text) == sentences


def test_lines_are_the_sentences_of_a_corpus_with_blank_lines(tmp_path):
    (tmp_path / "a.txt").write_text("One. Two\nthree\n\nFour\n")
    first, second = read_documents(str(tmp_path / "a.txt"), separator="blank_line", column="text")
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert first.text == "One. Two three"
    assert sentences_of(first) == ["One. Two", " three"]
    assert "".join(sentences_of(first)) == first.text
    assert sentences_of(second) == ["Four"]


@pytest.mark.seqio
def test_tokenized_sentences_are_the_documents_tokens_and_say_where_they_end():
    vocabulary = load_vocabulary("bytes")
    text = "One. Two."
    (tokens, ends), empty = tokenize_sentences(vocabulary, [text, ""])
    assert tokens == list(vocabulary.encode(text))
    assert ends == [4, 9]
    assert empty == ([], [])


def write(path, content):
    path.write_text(content)
    return str(path)


def test_supplied_spans_come_with_their_documents(tmp_path):
    file = write(tmp_path / "a.jsonl", '{"text": "Mount Etna erupts", "spans": [[11, 17], [0, 10]]}\n')
    task = PretrainingTask(name="a", vocabulary="bytes", files={"train": file}, spans_column="spans")
    assert next(task.read("train")).spans == ((0, 10), (11, 17))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            "[[0, 99]]",
            r"the span \[0, 99\] is empty, overlaps another, or ends after the text's 4 characters",
        ),
        ("[[0, 2], [1, 3]]", r"the span \[1, 3\] .* overlaps"),
        ("[[2, 2]]", "is empty"),
        ('[["a", 2]]', "two whole numbers for each span"),
        ("7", "two whole numbers for each span"),
        ('"x"', "not JSON"),
    ],
)
def test_spans_that_cant_be_are_named_by_file_and_line(tmp_path, cell, message):
    file = write(tmp_path / "a.jsonl", f'{{"text": "Etna", "spans": {cell}}}\n')
    (bad,) = read_documents(file, separator="line", column="text", spans_column="spans")
    assert isinstance(bad, BadRow)
    assert bad.location == f"{file}:1"
    with pytest.raises(ValueError, match=message):
        raise ValueError(str(bad))


def test_rows_without_the_column_of_spans_say_so(tmp_path):
    file = write(tmp_path / "a.jsonl", '{"text": "Etna"}\n')
    (bad,) = read_documents(file, separator="line", column="text", spans_column="spans")
    assert "no column 'spans'; the columns are text" in str(bad)
