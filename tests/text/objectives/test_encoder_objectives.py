"""Properties of all encoder objectives."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t5x_like.text.objectives.knowledge_masking import KnowledgeMasking
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.objectives.objective import Lengths, Objective, lengths_of
from t5x_like.text.objectives.replaced_token_detection import ReplacedTokenDetection
from t5x_like.text.objectives.sentence_order import SentenceOrder
from t5x_like.text.objectives.sentence_pairs import SentencePairs
from t5x_like.text.objectives.word_masking import SpanMasking, TokenMasking
from tests.text.objectives.encoder_rows import (
    CLS,
    IDS,
    MASK,
    SEP,
    SPECIAL,
    UNKNOWN,
    examples_of,
    seeds,
    window_of,
)

MASKED = {
    "tokens": MaskedLM(),
    "documents": MaskedLM(input_format="documents"),
    "words": MaskedLM(masking=TokenMasking(whole_words=True)),
    "n-grams": MaskedLM(masking=TokenMasking(whole_words=True, max_ngram=3, noise_density=0.4)),
    "spans": MaskedLM(masking=SpanMasking(), input_format="full_sentences"),
    "phrases": MaskedLM(masking=KnowledgeMasking(), input_format="doc_sentences"),
    "pairs": SentencePairs(),
    "short pairs": SentencePairs(segments="sentences", masking=SpanMasking(whole_words=False)),
    "order": SentenceOrder(),
}
OBJECTIVES = {
    **MASKED,
    "replaced": ReplacedTokenDetection(),
    "replaced words": ReplacedTokenDetection(whole_words=True),
}
DOCUMENTS = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=8), min_size=2, max_size=6)
PIECES = np.random.Generator(np.random.Philox(1)).integers(104, 1000, 997)


def window_for(objective, documents):
    eos = SEP if objective.spec.ends_documents else None
    spans = [[[0, 2]] if sum(sentences) > 3 else [] for sentences in documents]
    return window_of(documents, pieces=PIECES, eos=eos, spans=spans)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
@given(documents=DOCUMENTS, limit=st.integers(8, 80), key=st.integers(0, 2**63))
@settings(max_examples=25, deadline=None)
def test_examples_fit_and_learn_from_ordinary_tokens_only(objective, documents, limit, key):
    window = window_for(objective, documents)
    texts, examples = examples_of(objective, window, limit, key=np.array([key, 3], np.uint64))
    assert isinstance(objective, Objective)
    for text, example in zip(texts, examples, strict=True):
        size = len(example.inputs)
        assert size <= limit
        for name in ("targets", *objective.spec.fields):
            field = getattr(example, name)
            assert name == "label" or len(field) == size
        assert (example.inputs[0], example.inputs[-1]) == (CLS, SEP)
        is_special = np.ones(size, bool)
        is_special[1 : text.second + 1] = False
        is_special[text.second + 2 : -1] = False
        where_text = np.flatnonzero(~is_special)
        is_special[where_text] = np.isin(text.tokens, SPECIAL)
        assert not example.weights[is_special].any()
        changed = example.inputs[where_text] != text.tokens
        assert (example.weights[where_text][changed] == 1).all()
        drawn = example.inputs[where_text][changed & (example.inputs[where_text] != MASK)]
        assert not np.isin(drawn, [*SPECIAL, UNKNOWN]).any()
        assert (drawn < IDS.vocab_size).all()


@pytest.mark.parametrize("objective", MASKED.values(), ids=MASKED)
@given(documents=DOCUMENTS, limit=st.integers(8, 80))
@settings(max_examples=15, deadline=None)
def test_targets_are_the_whole_text_and_no_more_than_the_share_is_predicted(objective, documents, limit):
    texts, examples = examples_of(objective, window_for(objective, documents), limit)
    pairs = objective.spec.fills_rows
    for text, example in zip(texts, examples, strict=True):
        first, second = text.tokens[: text.second].tolist(), text.tokens[text.second :].tolist()
        whole = [CLS, *first, SEP, *second, *([SEP] if pairs else [])]
        assert example.targets.tolist() == whole
        noise_density = objective.masking.noise_density
        assert example.weights.sum() <= max(1, round(noise_density * len(whole)))
        if pairs:
            assert example.token_types.tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)
            assert example.label in (0, 1)
        else:
            assert example.label == -1


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_rows_do_not_depend_on_each_other_and_are_their_seeds(objective):
    window = window_for(objective, [[30, 20, 9], [5, 2, 17, 30], [4], [30, 8]] * 3)
    texts, together = examples_of(objective, window, 64)
    for row in range(len(texts)):
        (alone,) = objective.make(texts[row : row + 1], seeds(1, row), Lengths(64, 2), IDS)
        for name in ("inputs", "targets", "weights", "token_types"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(together[row], name), err_msg=name)
    others = objective.make(texts, seeds(len(texts), 1000), Lengths(64, 2), IDS)
    assert any((one.inputs != other.inputs).any() for one, other in zip(together, others, strict=True))
    assert objective.make([], seeds(0), Lengths(64, 2), IDS) == []
    assert len(lengths_of(together)) == len(texts)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_a_window_without_documents_has_no_texts(objective):
    texts, examples = examples_of(objective, window_for(objective, []), 32)
    assert (texts, examples) == ([], [])


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_unsuitable_vocabularies_and_lengths_are_refused_with_what_is_needed(objective):
    special = 3 if objective.spec.fills_rows else 2
    needed = special + (2 if objective.spec.fills_rows else 1)
    with pytest.raises(ValueError, match=f"set it to {needed} or more"):
        objective.check(Lengths(needed - 1, 2), IDS)
    objective.check(Lengths(needed, 2), IDS)
    with pytest.raises(
        ValueError, match=r"no id for mask, sep; raise num_sentinels .* or use a vocabulary of BERT's kind"
    ):
        objective.check(Lengths(64, 2), replace(IDS, mask=None, sep=None))
    masking = getattr(objective, "masking", objective)
    if masking.whole_words:
        with pytest.raises(ValueError, match="set whole_words to False"):
            objective.check(Lengths(64, 2), replace(IDS, starts_word=None))


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_wrong_settings_are_refused(objective):
    with pytest.raises(ValueError, match="num_copies must be at least 1"):
        dataclasses.replace(objective, num_copies=0)
    for name in ("short_rate", "swap_rate", "random_next_rate"):
        if hasattr(objective, name):
            with pytest.raises(ValueError, match=f"{name} must lie between 0 and 1, got 2"):
                dataclasses.replace(objective, **{name: 2})
    if hasattr(objective, "input_format"):
        with pytest.raises(ValueError, match="must be one of runs, documents, full_sentences, doc_sentences"):
            dataclasses.replace(objective, input_format="pages")
    if hasattr(objective, "masking"):
        with pytest.raises(ValueError, match="masking must be TokenMasking"):
            dataclasses.replace(objective, masking=TokenMasking)
        with pytest.raises(ValueError, match="noise_density must lie between 0 and 1, got 0"):
            dataclasses.replace(objective.masking, noise_density=0.0)
        with pytest.raises(ValueError, match="nor be over 1 together"):
            dataclasses.replace(objective.masking, mask_rate=0.95)


@pytest.mark.parametrize("limit", [12, 40])
def test_masked_next_token_prediction_has_the_same_masks_and_targets_one_place_earlier(limit):
    window = window_of([[7], [20, 9], [3]], pieces=PIECES, eos=SEP)
    masking = TokenMasking(noise_density=0.3)
    _, own = examples_of(MaskedLM(masking=masking), window, limit)
    _, earlier = examples_of(MaskedLM(masking=masking, predicted_from="previous"), window, limit)
    assert sum(example.weights.sum() for example in earlier) > 5
    for same, shifted in zip(own, earlier, strict=True):
        np.testing.assert_array_equal(shifted.inputs, same.inputs)
        np.testing.assert_array_equal(shifted.weights[:-1], same.weights[1:])
        np.testing.assert_array_equal(shifted.targets[:-1], same.targets[1:])
        assert shifted.weights[-1] == same.weights[0] == 0


def test_another_place_of_prediction_is_refused():
    with pytest.raises(ValueError, match="predicted_from must be one of mask, previous, got 'next'"):
        MaskedLM(predicted_from="next")
