"""Ranking of a pronoun's referents by a masked language model: rows, pairs, predictions and the margin loss."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.text.batches.head_examples import make_examples
from t5x_like.text.benchmarks.catalogue import benchmark_task
from t5x_like.text.benchmarks.pronouns import dpr_referent, wsc_referent
from t5x_like.text.benchmarks.wnli_pronouns import wnli_referent
from t5x_like.text.heads import ReferentRanking
from t5x_like.text.heads.noun_phrases import noun_phrases
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.training.losses import MarginRanking
from t5x_like.training.losses.total import measure_sequences

WORDS = ["the", "trophy", "does", "not", "fit", "in", "case", "because", "is", "too", "big", "brown", "."]
GIVEN = ReferentRanking(candidates="others")
TEXT = "the trophy does not fit in the brown case because [MASK] is too big ."


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    return open_tokenizer(str(file), 0)


def row(referent, label, *others):
    return GIVEN.read({"text": TEXT, "referent": referent, "label": label, "others": list(others)})


def pieces(tokenizer, ids):
    return " ".join(tokenizer.piece(int(number)) for number in ids)


def test_each_other_phrase_makes_a_pair_with_the_referent(tokenizer):
    rows = [row("the trophy", 1, "the brown case", "too big"), row("case", 0, "the trophy")]
    examples = make_examples(GIVEN, rows, tokenizer, length=32)
    assert examples.origins.tolist() == [0, 0, 1]
    assert examples.labels.tolist() == [0, 0, -1]  # a wrong phrase is not learned
    before, after = "[CLS] the trophy does not fit in the brown case because", "is too big . [SEP]"
    for number, phrases in enumerate([("the trophy", "the brown case"), ("the trophy", "too big")]):
        for choice, phrase in zip(examples.example(number).choices, phrases, strict=True):
            masks = ["[MASK]"] * len(phrase.split())
            assert pieces(tokenizer, choice.inputs) == " ".join([before, *masks, after])
            assert pieces(tokenizer, choice.targets[choice.targets > 0]) == phrase


def test_only_right_phrases_with_another_one_train():
    assert [GIVEN.trains(each) for each in (row("trophy", 1, "case"), row("trophy", 0, "case"))] == [
        True,
        False,
    ]
    assert not GIVEN.trains(row("trophy", 1))
    assert not GIVEN.trains(row("trophy", -1, "case"))
    assert GIVEN.is_labeled(row("trophy", 0, "case"))


def test_phrases_that_overlap_the_referent_are_left_out():
    found = row("The Trophy", 1, "the trophy", "trophy", "the trophy of gold", "case", "Case", "the case")
    assert found.candidates == ("The Trophy", "case", "the case")


def test_a_phrase_is_right_if_no_other_is_likelier(tokenizer):
    rows = [row("the trophy", 1, "case", "big"), row("case", 0, "trophy"), row("case", 1)]
    pairs = [(-1.0, -2.0), (-1.0, -0.5), (-1.0, -1.0), (-1.0, -1.0)]
    found = GIVEN.answers_of(rows, [np.array(pair) for pair in pairs], lambda number: np.arange(number))
    assert found == [0, 1, 1]
    assert len(make_examples(GIVEN, rows, tokenizer, length=32)) == len(pairs)
    assert [GIVEN.written(answer, ()) for answer in found] == ["False", "True", "True"]


def test_noun_phrases_of_the_text_are_the_others():
    form = ReferentRanking()
    values = {"text": "The trophy didn't fit in the brown suitcase because [MASK] was big.", "label": 1}
    found = form.read({**values, "referent": "the trophy"})
    assert found.candidates == ("the trophy", "the brown suitcase")
    assert found.input_text == f"{values['text']}\nthe trophy"
    assert noun_phrases("Jane gave Joan candy.") == ("Jane", "Joan candy")
    assert noun_phrases("") == ()


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "textblob.en", None)
    with pytest.raises(
        ValueError, match=r"install it: pip install 't5x-like\[pronouns\]'. Or give each row its"
    ):
        noun_phrases("a text that no other test has")


def test_bad_rows_are_refused():
    with pytest.raises(ValueError, match=r"write \[MASK\] once in column 'text', in the pronoun's place"):
        GIVEN.read({"text": "no pronoun", "referent": "a", "label": 1, "others": []})
    with pytest.raises(ValueError, match="no column 'others'; the columns are text, referent"):
        GIVEN.read({"text": TEXT, "referent": "a"})


def test_benchmarks_have_these_columns():
    wsc = {
        "text": "Ann told Bo that he won .",
        "span1_text": "Bo",
        "span2_text": "he",
        "span2_index": 4,
        "label": 1,
    }
    assert wsc_referent(wsc) == {"text": "Ann told Bo that [MASK] won .", "referent": "Bo", "label": 1}
    wnli = {"sentence1": "The cup fell, so I kept it.", "sentence2": "I kept the cup.", "label": 1}
    assert wnli_referent(wnli) == {
        "text": "The cup fell, so I kept [MASK] .",
        "referent": "the cup",
        "label": 1,
    }
    dpr = {"sentence": "Ann beat Bo, for she ran.", "pronoun": "she", "candidates": ["Ann", "Bo"], "label": 1}
    assert dpr_referent(dpr) == {
        "text": "Ann beat Bo, for [MASK] ran.",
        "referent": "Bo",
        "candidates": ["Ann"],
        "label": 1,
    }
    assert dpr_referent({**dpr, "label": -1})["label"] == -1
    with pytest.raises(ValueError, match="the label 2 names none of the 2 candidates"):
        dpr_referent({**dpr, "label": 2})
    with pytest.raises(ValueError, match="the pronoun 'it' is not in"):
        dpr_referent({**dpr, "pronoun": "it"})


def test_a_benchmark_takes_another_head():
    form = ReferentRanking(prepare=wsc_referent)
    task = benchmark_task("super_glue_wsc_v102_simple_eval", vocabulary="bytes", head=form)
    assert task.head_format() == form
    assert benchmark_task("super_glue_wsc_v102_simple_eval", vocabulary="bytes").head_format() != form


def test_the_margin_loss_is_that_of_the_paper():
    scores = jnp.log(jnp.array([[0.5], [0.4], [0.1], [0.6], [0.2], [0.7]]))  # three pairs
    batch = Batch(encoder_input_tokens=jnp.ones((6, 2), jnp.int32), sequence_labels=jnp.array([0, 0, -1]))
    ranking = MarginRanking(weight=5.0, margin=0.4)
    found = measure_sequences(batch, {"cloze": scores}, ranking)
    assert found is not None
    first = -np.log(0.5) + 5 * max(0.0, np.log(0.4) - np.log(0.5) + 0.4)
    second = -np.log(0.1) + 5 * max(0.0, np.log(0.6) - np.log(0.1) + 0.4)
    np.testing.assert_allclose(found.losses, [first, second, 0.0], rtol=1e-6)
    assert found.correct.tolist() == [1.0, 0.0, 0.0]
    far = measure_sequences(batch, {"cloze": jnp.array([[0.0], [-9.0]] * 3)}, ranking)
    assert far is not None
    np.testing.assert_allclose(far.losses, 0.0)


def test_the_margin_loss_needs_candidates_for_a_blank():
    batch = Batch(encoder_input_tokens=jnp.ones((2, 2), jnp.int32), sequence_labels=jnp.array([0]))
    with pytest.raises(
        ValueError, match="ranking compares candidates for a blank; the head is 'multiple_choice'"
    ):
        measure_sequences(batch, {"multiple_choice": jax.numpy.zeros((2, 1))}, MarginRanking())
    with pytest.raises(ValueError, match="give 0 or more"):
        MarginRanking(weight=-1.0)
