"""Sentences that match a summary best, compared with rouge_score."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rouge_score import rouge_scorer

from t5x_like.text.metrics.oracle_sentences import oracle_sentences

texts = st.lists(st.sampled_from("abcde"), min_size=1, max_size=8).map(" ".join)


def rouge_of(text: str, summary: str) -> float:
    scores = rouge_scorer.RougeScorer(["rouge1", "rouge2"]).score(summary, text)
    return sum(each.fmeasure for each in scores.values())


@given(sentences=st.lists(texts, min_size=1, max_size=6), summary=texts)
def test_the_first_choice_has_the_highest_rouge(sentences, summary):
    best = max(rouge_of(each, summary) for each in sentences)
    chosen = oracle_sentences(sentences, summary, max_sentences=1)
    assert len(chosen) == (best > 0)
    for number in chosen:
        assert abs(rouge_of(sentences[number], summary) - best) < 1e-9


@given(sentences=st.lists(texts, min_size=1, max_size=6), summary=texts)
def test_more_sentences_are_chosen_only_if_they_match_more_of_the_summary(sentences, summary):
    def matched(numbers: tuple[int, ...]) -> int:
        chosen = Counter(" ".join(sentences[number] for number in numbers).split())
        return (chosen & Counter(summary.split())).total()

    sizes = [oracle_sentences(sentences, summary, max_sentences=size) for size in (1, 2, 3)]
    for fewer, more in pairwise(sizes):
        assert set(fewer) <= set(more)
        assert fewer == more or matched(fewer) < matched(more)


def test_a_repeated_sentence_is_chosen_once():
    assert oracle_sentences(["a b c", "a b c", "d"], "a b c\nd") == (0, 2)


def test_words_of_other_scripts_are_compared():
    assert oracle_sentences(["Мы ехали.", "Солнце светит ярко."], "ярко светит солнце") == (1,)


def test_no_sentence_is_chosen_where_no_word_matches():
    assert oracle_sentences(["a b", "c"], "x y z") == ()
