import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.tasks.documents import Document, token_spans, tokenize_with_spans
from t5x_like.text.vocabularies.opening import open_tokenizer

STARTS = np.array([0, 0, 5, 9])  # a piece without text, "Mount", " Etn", "a"
ENDS = np.array([0, 5, 9, 10])


def test_a_span_takes_every_token_that_holds_some_of_it():
    assert token_spans(STARTS, ENDS, ((0, 5),)) == [(1, 2)]
    assert token_spans(STARTS, ENDS, ((6, 10),)) == [(2, 4)]
    assert token_spans(STARTS, ENDS, ((8, 9),)) == [(2, 3)]


def test_a_token_belongs_to_one_span():
    assert token_spans(STARTS, ENDS, ((0, 6), (7, 10))) == [(1, 3), (3, 4)]
    assert token_spans(STARTS, ENDS, ((0, 6), (7, 9))) == [(1, 3)]


@given(st.data())
def test_spans_of_bytes_hold_the_bytes_of_their_characters(data):
    text = data.draw(st.text("aé漢😀 .", min_size=1))
    edges = sorted(data.draw(st.sets(st.integers(0, len(text)), min_size=2 if len(text) else 0, max_size=6)))
    spans = tuple(zip(edges[::2], edges[1::2], strict=False))
    for sentences in (False, True):
        document = Document(text, "a:1", spans=spans)
        result = tokenize_with_spans(open_tokenizer("bytes", 0), document, sentences=sentences)
        tokens = bytes(token - 3 for token in result["tokens"])
        assert tokens.decode() == text
        assert [tokens[start:end].decode() for start, end in result["spans"]] == [text[s:e] for s, e in spans]


def test_pieces_of_a_sentencepiece_model_keep_their_spans(pieces_path):
    tokenizer = open_tokenizer(str(pieces_path), 0)
    text = "this is a test. that is"
    document = Document(text, "a:1", spans=((10, 14), (16, 20)))
    for sentences in (False, True):
        result = tokenize_with_spans(tokenizer, document, sentences=sentences)
        words = [tokenizer.decode(result["tokens"][start:end]) for start, end in result["spans"]]
        assert words == ["test", "that"]
