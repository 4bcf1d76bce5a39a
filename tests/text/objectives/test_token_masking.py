from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.objective import Lengths, Text
from t5x_like.text.objectives.word_masking import TokenMasking
from tests.text.objectives.encoder_rows import IDS, MASK, SEP, STARTS_WORD, chosen, runs, seeds

LENGTHS = Lengths(4096, 2)


def make(masking, tokens, count, ids=IDS):
    tokens = np.asarray(tokens, np.int32)
    return MaskedLM(masking=masking).make([Text(tokens, len(tokens))] * count, seeds(count), LENGTHS, ids)


@given(length=st.integers(1, 600), noise_density=st.floats(0.01, 0.99))
def test_bert_predicts_its_share_of_the_row_rounded_but_at_least_one_token(length, noise_density):
    (example,) = make(TokenMasking(noise_density=noise_density), np.arange(length) % 600 + 104, 1)
    assert example.weights.sum() == min(max(1, round(noise_density * (length + 2))), length)


def test_512_tokens_have_77_predictions_with_8_in_10_masked_1_random_and_1_unchanged():
    tokens = np.arange(510) % 600 + 104
    examples = make(TokenMasking(), tokens, 1000)
    assert {int(example.weights.sum()) for example in examples} == {77}
    inputs = np.stack([example.inputs[1:-1] for example in examples])
    is_target = np.stack([example.weights[1:-1] for example in examples]) == 1
    shares = [
        (inputs == MASK)[is_target].mean(),
        ((inputs != MASK) & (inputs != tokens))[is_target].mean(),
        (inputs == tokens)[is_target].mean(),
    ]
    # A random word is the word itself once in 896 draws. Of 77,000 targets, 0.005 is over 3 standard deviations.
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.005)
    np.testing.assert_allclose(is_target.mean(axis=0), 77 / 510, atol=0.05)
    assert abs(is_target[:, :5].mean() - 77 / 510) < 0.02
    drawn = inputs[is_target & (inputs != MASK) & (inputs != tokens)]
    counts = np.bincount(drawn, minlength=1000)
    assert counts[[0, 100, 101, 102, 103]].tolist() == [0] * 5
    assert (counts[:100] > 0).mean() > 0.9  # ids before the words are ordinary ones too
    assert abs(np.mean(drawn) - 500) < 15


def test_all_pieces_of_a_word_are_masked_or_none():
    pieces = np.random.Generator(np.random.Philox(3)).integers(104, 1000, 200)
    begins = STARTS_WORD[pieces].copy()
    begins[0] = True
    word = np.cumsum(begins)
    for example in make(TokenMasking(whole_words=True), pieces, 50):
        hidden = example.weights[1:-1] == 1
        for number in np.unique(word):
            assert len(set(hidden[word == number])) == 1
        assert 25 <= hidden.sum() <= 30  # round(0.15 · 202); the rest is filled with shorter words


def test_words_longer_than_the_share_are_skipped_and_shorter_ones_taken():
    word = [200, 900, 900, 900, 900]  # 5 pieces, and space for 3 predictions
    (example,) = make(TokenMasking(whole_words=True), [*word, *word, *word, 201, 202], 1)
    assert chosen(example).tolist() == [16, 17]
    (example,) = make(TokenMasking(whole_words=True), word, 1)
    assert not example.weights.any()  # no word fits


def test_ngrams_of_n_words_have_shares_of_one_over_n():
    # One word in seven is masked at most, so that two n-grams are seldom neighbors.
    examples = make(TokenMasking(noise_density=0.02, max_ngram=3, whole_words=True), [150] * 1998, 300)
    lengths = np.concatenate([np.diff(runs(chosen(example)), axis=1)[:, 0] for example in examples])
    shares = np.bincount(lengths, minlength=4)[1:4] / len(lengths)
    np.testing.assert_allclose(shares, np.array([6, 3, 2]) / 11, atol=0.03)


def test_ngrams_count_words_and_not_pieces():
    tokens = [150, 900, 900] * 100
    for example in make(TokenMasking(max_ngram=3, whole_words=True), tokens, 20):
        for start, end in runs(chosen(example)).tolist():
            assert (start - 1) % 3 == 0
            assert (end - start) % 3 == 0


def test_special_ids_in_a_text_stay_and_no_ngram_reaches_over_them():
    tokens = [150, SEP] * 50
    for example in make(TokenMasking(max_ngram=3, noise_density=0.9), tokens, 20):
        assert (example.inputs[2::2] == SEP).all()
        assert example.weights[1:-1:2].all()
        assert not example.weights[2:-1:2].any()


def test_sentinels_used_as_masks_of_t5_vocabularies_are_special():
    ids = replace(IDS, vocab_size=400, first_sentinel=399, num_sentinels=90, starts_word=None)
    masking = TokenMasking(noise_density=0.9, mask_rate=0.0, random_rate=1.0)
    inputs = np.concatenate([example.inputs[1:-1] for example in make(masking, [150] * 200, 50, ids)])
    assert inputs.max() == 309
    assert 104 in inputs


@pytest.mark.parametrize("max_ngram", [0, -1])
def test_empty_ngrams_are_refused(max_ngram):
    with pytest.raises(ValueError, match="max_ngram must be at least 1"):
        TokenMasking(max_ngram=max_ngram)
