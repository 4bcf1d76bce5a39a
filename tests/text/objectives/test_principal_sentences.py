from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from t5x_like.text.objectives.cutting import texts_of
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.objectives.principal_sentences import PrincipalSentences, sentence_scores
from tests.text.objectives.encoder_rows import IDS, KEY, MASK, SEP, seeds, window_of

PLAIN = PrincipalSentences(score_noise=0.0, keep_rate=0.0, least_share=1.0)
LENGTHS = Lengths(64, 64)


def made(objective, window, lengths=LENGTHS):
    objective.check(lengths, IDS)
    cuts = objective.cut(window, lengths, KEY)
    texts = texts_of(window, cuts, np.arange(len(cuts.starts)))
    return texts, objective.make(texts, seeds(len(texts)), lengths, IDS)


def words_of(tokens):
    return " ".join(f"w{token}" for token in tokens)


@pytest.mark.parametrize("counts_once", [False, True])
@given(sentences=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=2, max_size=5))
def test_scores_are_rouge_1_against_the_other_sentences(counts_once, sentences):
    edges = np.cumsum([0, *map(len, sentences)])
    result = sentence_scores(np.concatenate(sentences), edges, counts_once=counts_once)
    scorer = RougeScorer(["rouge1"])
    for index, sentence in enumerate(sentences):
        others = [token for other, each in enumerate(sentences) if other != index for token in each]
        chosen, rest = (sorted(set(part)) if counts_once else part for part in (sentence, others))
        wanted = scorer.score(words_of(rest), words_of(chosen))["rouge1"].fmeasure
        assert result[index] == pytest.approx(wanted)


def test_the_sentence_most_like_the_others_is_masked_and_predicted():
    pieces = np.array([200, 201, 202, 300, 301, 302, 200, 301, 201, 400, 401, 402])
    window = window_of([[3, 3, 3, 3]], pieces=pieces, eos=SEP)
    _, (example,) = made(PLAIN, window)
    assert example.inputs.tolist() == [200, 201, 202, 300, 301, 302, MASK, 400, 401, 402, SEP]
    assert example.targets.tolist() == [200, 301, 201, SEP]


def test_sentences_are_joined_in_the_order_of_the_document():
    texts, examples = made(
        PrincipalSentences(gap_rate=0.5, least_share=1.0, keep_rate=0.0), window_of([[4] * 8], eos=SEP)
    )
    (text,), (example,) = texts, examples
    assert np.count_nonzero(example.inputs == MASK) == 4
    gaps = example.targets[:-1]
    assert len(gaps) == 16
    assert np.all(np.diff(gaps) > 0), "tokens count up in the document"
    rest = example.inputs[:-1][example.inputs[:-1] != MASK]
    assert sorted([*gaps.tolist(), *rest.tolist()]) == text.tokens.tolist()


@given(
    documents=st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=1, max_size=6),
    inputs=st.integers(8, 60),
    targets=st.integers(8, 40),
    keep_rate=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_every_example_fits_and_masks_a_sentence_of_several(documents, inputs, targets, keep_rate):
    objective = PrincipalSentences(gap_rate=0.4, keep_rate=keep_rate)
    texts, examples = made(objective, window_of(documents, eos=SEP), Lengths(inputs, targets))
    for text, example in zip(texts, examples, strict=True):
        assert len(text.sentence_ends) >= 1
        assert 2 <= len(example.targets) <= targets
        assert len(example.inputs) <= inputs
        assert example.inputs[-1] == example.targets[-1] == SEP
        num_masks = np.count_nonzero(example.inputs == MASK)
        assert (
            num_masks == 0 if keep_rate == 1.0 else num_masks <= max(0.4 * (len(text.sentence_ends) + 1), 1)
        )
        if keep_rate == 0.0:
            assert num_masks >= 1


def test_a_text_of_one_sentence_has_no_rest_and_is_left_out():
    texts, _ = made(PLAIN, window_of([[9], [3, 4], [7]], eos=SEP))
    assert [len(text.tokens) for text in texts] == [7]


def test_noise_share_and_kept_sentences_are_those_asked_for():
    window = window_of([[3] * 12] * 400, eos=SEP)
    _, examples = made(PrincipalSentences(gap_rate=0.5, least_share=0.5, keep_rate=0.25), window)
    gaps = np.array([(len(example.targets) - 1) / 3 for example in examples])
    masks = np.array([np.count_nonzero(example.inputs == MASK) for example in examples])
    assert set(gaps) == {3.0, 4.0, 5.0}
    assert masks.sum() / gaps.sum() == pytest.approx(0.75, abs=0.05)
    alike = window_of([[3] * 12] * 50, pieces=np.array([200, 201, 202]), eos=SEP)
    chosen = [
        {tuple(np.flatnonzero(example.inputs == MASK)) for example in made(objective, alike)[1]}
        for objective in (PLAIN, PrincipalSentences(least_share=1.0, keep_rate=0.0))
    ]
    assert len(chosen[0]) == 1
    assert len(chosen[1]) > 20


def test_a_document_without_sentences_and_short_rows_are_refused():
    window = window_of([[4, 4]], eos=SEP)._replace(sentence_ends=None)
    with pytest.raises(ValueError, match="don't mark where they end"):
        PLAIN.cut(window, LENGTHS, KEY)
    with pytest.raises(ValueError, match="use at least 8"):
        PLAIN.check(Lengths(64, 4), IDS)
    with pytest.raises(ValueError, match="no id for mask"):
        PLAIN.check(LENGTHS, replace(IDS, mask=None))
    with pytest.raises(ValueError, match="gap_rate must lie between 0 and 1"):
        PrincipalSentences(gap_rate=1.0)
    with pytest.raises(ValueError, match="keep_rate must lie from 0 to 1"):
        PrincipalSentences(keep_rate=2.0)
