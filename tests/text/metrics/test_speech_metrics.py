import math
import subprocess
import sys
from functools import partial

import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text import metrics
from t5x_like.text.metrics.by_name import LOWER_IS_BETTER, metric_function
from t5x_like.text.metrics.speech_metrics import normalized_transcript
from t5x_like.text.tasks.text_task import TextTask

WORDS = st.lists(st.text("ab c", min_size=1).filter(str.strip), min_size=1, max_size=4)


def test_edits_of_all_rows_are_divided_by_all_words():
    targets, predictions = ["the king spoke to us", "yes"], ["the kin spoke us now", ""]
    assert metric_function("wer")(targets, predictions) == {"wer": pytest.approx(100 * 4 / 6)}
    assert metric_function("cer")(["king", "a b"], ["kin", "ab"]) == {"cer": pytest.approx(100 * 2 / 7)}


@given(WORDS, st.data())
def test_rates_are_those_of_jiwer_and_of_the_edit_distance(targets, data):
    predictions = data.draw(st.lists(st.text("ab c"), min_size=len(targets), max_size=len(targets)))
    clean = [[" ".join(text.split()) for text in texts] for texts in (targets, predictions)]
    assert metrics.word_error_rate(targets, predictions)["wer"] == pytest.approx(100 * jiwer.wer(*clean))
    assert metrics.character_error_rate(targets, predictions)["cer"] == pytest.approx(100 * jiwer.cer(*clean))
    expected = metrics.token_error_rate(targets, predictions)["token_error_rate"]
    assert metrics.word_error_rate(targets, predictions)["wer"] == pytest.approx(expected)


def test_case_and_punctuation_count_until_they_are_ignored():
    pair = ["Well, it's so."], ["well its so"]
    assert metrics.word_error_rate(*pair)["wer"] == pytest.approx(100)
    assert metrics.word_error_rate(*pair, lower=True)["wer"] == pytest.approx(100)
    assert metrics.word_error_rate(*pair, lower=True, remove_punctuation=True)["wer"] == pytest.approx(
        100 / 3
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  a\t b\n", "a b"),
        ("e\u0301te\u0301", "été"),
        ("‘Tis the dogs’ — “don’t”, 3.5!", "tis the dogs don't 35"),
    ],
)
def test_transcripts_are_normalized(text, expected):
    assert normalized_transcript(text, lower=True, remove_punctuation=True) == expected


def test_options_are_keywords_of_a_partial_function():
    metric = partial(metrics.word_error_rate, lower=True)
    task = TextTask(
        name="t",
        vocabulary="bytes",
        files={"train": "t.tsv"},
        input_template="{a}",
        target_template="{b}",
        metrics=(metric, "cer"),
    )
    assert [function(["A"], ["a"]) for function in task.metric_functions] == [{"wer": 0.0}, {"cer": 100.0}]


def test_silence_alone_has_no_rate():
    assert math.isnan(metrics.word_error_rate([""], ["words"])["wer"])


def test_a_lower_rate_is_better():
    assert {"wer", "cer"} <= LOWER_IS_BETTER


def test_several_references_are_refused():
    with pytest.raises(ValueError, match="metric 'wer' compares with one target"):
        metric_function("wer")([["a", "b"]], ["a"])


def test_without_jiwer_a_task_that_names_the_metric_is_refused():
    program = (
        "import sys; sys.modules['jiwer'] = None\n"
        "from t5x_like.text.metrics.by_name import check_metric\n"
        "check_metric('bleu')\n"
        "try:\n    check_metric('wer')\n"
        "except ValueError as error:\n    print(error)\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert output == (
        "metric 'wer' or 'cer' needs the library jiwer, which isn't installed: pip install 't5x-like[speech]'\n"
    )
