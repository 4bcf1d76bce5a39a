import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t5x_like.text.objectives.phrases import Phrases

TOKENS = st.integers(0, 3)


def one_by_one(phrases, tokens, allowed):
    result, place = [], 0
    while place < len(tokens):
        fitting = [
            p for p in phrases if len(p) > 1 and tokens[place : place + len(p)] == p and allowed[place]
        ]
        if fitting:
            longest = max(map(len, fitting))
            result.append([place, place + longest])
            place += longest
        else:
            place += 1
    return result


@given(
    phrases=st.lists(st.lists(TOKENS, min_size=1, max_size=4), min_size=1, max_size=5).filter(
        lambda phrases: any(len(phrase) > 1 for phrase in phrases)
    ),
    tokens=st.lists(TOKENS, max_size=60),
    data=st.data(),
)
@example(phrases=[[1, 2], [2, 3], [3, 1]], tokens=[1, 2, 3, 1, 2], data=None)
@settings(max_examples=300)
def test_the_longest_phrase_at_each_place_is_found_from_left_to_right(phrases, tokens, data):
    allowed = [True] * len(tokens)
    if data is not None:
        allowed = data.draw(st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens)))
    result = Phrases(phrases, 4).find(np.array(tokens, np.int32), np.array(allowed, bool))
    assert result.tolist() == one_by_one(phrases, tokens, allowed)


def test_phrases_of_one_token_are_left_out():
    assert len(Phrases([[1], [1, 2], [1, 2], [3, 3, 3]], 5)) == 2
