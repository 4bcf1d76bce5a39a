"""Whole-word masks of text without spaces, whose words are annotated or found by jieba."""

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from t5x_like.text import fields
from t5x_like.text.objectives.framing import frame
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.masking import word_starts
from t5x_like.text.objectives.objective import Lengths, Text
from t5x_like.text.objectives.replaced_token_detection import ReplacedTokenDetection
from t5x_like.text.objectives.word_masking import SpanMasking, TokenMasking
from t5x_like.text.tasks import word_segmentation
from t5x_like.text.tasks.documents import Document
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.vocabularies.vocabulary_ids import ids_of
from tests.text.objectives.encoder_rows import FIRST_WORD, IDS, chosen, examples_of, runs, seeds, window_of

SPANS = [[1, 3], [3, 6], [7, 8]]  # words of ten tokens; the others are none's
NO_STARTS = replace(IDS, starts_word=np.zeros(IDS.vocab_size, bool))  # as SentencePiece has it without spaces


def text(second=10):
    return Text(np.arange(FIRST_WORD, FIRST_WORD + 10, dtype=np.int32), second, spans=np.array(SPANS))


def starts(each, ids):
    framed = frame([each], ids)
    return word_starts(framed, ids)[0][framed.is_text[0]].astype(int).tolist()


def test_annotated_words_begin_where_they_are_annotated_whatever_the_vocabulary_says():
    assert starts(text(), IDS) == [1, 1, 0, 1, 0, 0, 1, 1, 1, 1]
    assert starts(text(), NO_STARTS) == [1, 1, 0, 1, 0, 0, 1, 1, 1, 0]
    assert starts(text(second=3), IDS) == [1, 1, 0, 1, 0, 0, 1, 1, 1, 1]
    assert starts(text(second=8), NO_STARTS) == [1, 1, 0, 1, 0, 0, 1, 1, 1, 0]
    assert starts(text()._replace(spans=None), NO_STARTS) == [1, *[0] * 9]


@pytest.mark.parametrize(
    "masking", [TokenMasking(whole_words=True, noise_density=0.3), SpanMasking(max_span=2)]
)
def test_words_are_masked_whole(masking):
    rows: Any = MaskedLM(masking=masking).make([text()] * 200, seeds(200), Lengths(64, 2), IDS)
    edges = {0, 1, 3, 6, 7, 8, 9, 10}
    results = {tuple(run - 1) for row in rows if row.weights.any() for run in runs(chosen(row))}
    assert {(1, 3), (7, 8)} <= results
    assert {edge for run in results for edge in run} <= edges


def test_replaced_tokens_are_those_of_whole_words():
    objective = ReplacedTokenDetection(whole_words=True, noise_density=0.25)
    rows: Any = objective.make([text()] * 200, seeds(200), Lengths(64, 2), IDS)
    is_replaced = np.stack([row.inputs for row in rows])[:, 1:-1] != text().tokens
    assert is_replaced.any()
    np.testing.assert_array_equal(is_replaced[:, 1], is_replaced[:, 2])
    np.testing.assert_array_equal(is_replaced[:, 3], is_replaced[:, 5])


def test_words_that_a_row_cuts_are_left_to_the_vocabulary():
    window = window_of([[10]], spans=[SPANS])
    texts: Any
    examples: Any
    texts, examples = examples_of(MaskedLM(masking=TokenMasking(whole_words=True)), window, 7)
    assert texts[0].spans.tolist() == [[1, 3]]
    assert all(len(example.inputs) <= 7 for example in examples)


CHINESE = "我来到北京清华大学，GPT-2很好。"


def task(**settings):
    return PretrainingTask(name="a", vocabulary="bytes", files={"train": "a.txt"}, **settings)


def test_jieba_finds_words_and_every_vocabulary_masks_them_whole():
    pytest.importorskip("jieba", reason="needs the extra 'chinese'")
    spans = word_segmentation.word_spans(CHINESE)
    assert [CHINESE[start:end] for start, end in spans] == ["我", "来到", "北京", "清华大学", "很", "好"]
    segmented = task(word_segmentation="jieba")
    assert segmented.features() == (fields.TOKENS, fields.SPANS)
    (record,) = segmented.tokenize([Document(CHINESE, "a.txt:1")])
    ids = ids_of(segmented.tokenizer)
    tokens = np.array(record["tokens"], np.int32)
    framed = frame([Text(tokens, len(tokens), spans=np.array(record["spans"]))], ids)
    parts = np.split(tokens, np.flatnonzero(word_starts(framed, ids)[0][1:-1])[1:])
    words = [segmented.tokenizer.decode(part.tolist()) for part in parts]
    assert words == ["我", "来到", "北京", "清华大学", "，GPT-2", "很", "好", "。"]
    assert segmented.fingerprint()["spans"].startswith("words by jieba 0.")
    assert task().fingerprint()["spans"] == "none"


def test_a_segmenter_that_isnt_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(
        ValueError, match=r"needs the library jieba; install it: pip install 't5x-like\[chinese\]'"
    ):
        task(word_segmentation="jieba")
    with pytest.raises(ValueError, match="word_segmentation needs 'jieba' or None, got 'ltp'"):
        task(word_segmentation="ltp")
    with pytest.raises(ValueError, match="give spans_column, whose spans may be words, or word_segmentation"):
        task(word_segmentation="jieba", spans_column="spans")
