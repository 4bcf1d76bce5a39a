import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.metrics.perplexity import cost_of, perplexities, windows


def test_the_same_cost_is_spread_over_tokens_words_and_bytes():
    result = perplexities(cost_of("naïve words", nats=12.0, tokens=4))
    assert result["token_perplexity"] == pytest.approx(math.exp(3))
    assert result["word_perplexity"] == pytest.approx(math.exp(6))
    assert result["byte_perplexity"] == pytest.approx(math.exp(1))  # ï is two bytes
    assert result["bits_per_byte"] == pytest.approx(1 / math.log(2))


def test_costs_add_up_over_texts():
    assert cost_of("a b", 1.0, 2) + cost_of("c", 2.0, 1) == (3.0, 3, 3, 4)


def test_what_costs_too_much_is_infinite_and_nothing_is_refused():
    assert perplexities(cost_of("x", nats=1e6, tokens=1))["token_perplexity"] == math.inf
    with pytest.raises(ValueError, match="no text to measure"):
        perplexities(cost_of("", nats=0.0, tokens=0))


@given(st.integers(1, 500), st.integers(1, 40), st.data())
def test_windows_score_every_token_once_with_enough_before_it(num_tokens, length, data):
    stride = data.draw(st.integers(1, length))
    result = list(windows(num_tokens, length=length, stride=stride))
    scored = [place for window in result for place in range(window.scored_from, window.end)]
    assert scored == list(range(num_tokens))
    assert all(window.end - window.start <= length for window in result)
    assert all(
        window.scored_from - window.start >= min(window.scored_from, length - stride) for window in result
    )


def test_a_stride_longer_than_the_window_would_leave_tokens_out():
    with pytest.raises(ValueError, match="stride=9 must be between 1 and the window's length=8"):
        list(windows(10, length=8, stride=9))
