"""Ranking of a pronoun's referents by a masked language model: rows, pairs, predictions and the margin loss."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model.families.family import predict
from t5x_like.model.multiple_choice import flatten_choices
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.text.batches.batch_layout import BatchLayout
from t5x_like.text.batches.labeled_examples import make_examples
from t5x_like.text.benchmarks.catalogue import benchmark_task
from t5x_like.text.benchmarks.pronouns import DprReferents, WscReferents
from t5x_like.text.benchmarks.wnli_pronouns import WnliReferents
from t5x_like.text.heads import ReferentRanking
from t5x_like.text.heads.noun_phrases import noun_phrases
from t5x_like.text.objectives.objective import Lengths
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.training.losses import MarginRanking
from t5x_like.training.losses.sequences import measure_sequences

WORDS = ["the", "trophy", "does", "not", "fit", "in", "case", "because", "is", "too", "big", "brown", "."]
GIVEN = ReferentRanking(candidates="others", num_choices=3)
TEXT = "the trophy does not fit in the brown case because [MASK] is too big ."


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    return open_tokenizer(str(file), 0)


def row(referent, label, *others, form=GIVEN):
    return form.read({"text": TEXT, "referent": referent, "label": label, "others": list(others)})


def pieces(tokenizer, ids):
    return " ".join(tokenizer.piece(int(token_id)) for token_id in ids)


def test_an_example_is_a_choice_between_the_referent_and_others(tokenizer):
    rows = [row("the trophy", 1, "the brown case", "too big", "trophy not"), row("case", 0, "the trophy")]
    examples = make_examples(GIVEN, rows, tokenizer, length=32)
    assert examples.origins.tolist() == [0, 0, 1]
    assert examples.labels.tolist() == [0, 0, -1]  # a wrong phrase is not learned
    before, after = "[CLS] the trophy does not fit in the brown case because", "is too big . [SEP]"
    expected = [("the trophy", "the brown case", "too big"), ("the trophy", "trophy not", "")]
    for index, phrases in enumerate(expected):
        for choice, phrase in zip(examples.example(index).choices, phrases, strict=True):
            masks = ["[MASK]"] * len(phrase.split())
            assert pieces(tokenizer, choice.inputs) == " ".join([before, *masks, after]) * bool(phrase)
            assert pieces(tokenizer, choice.targets[choice.targets > 0]) == phrase


def test_rows_that_fill_up_an_example_are_never_likelier(tokenizer):
    examples = make_examples(GIVEN, [row("the trophy", 1, "case")], tokenizer, length=32)
    spec = GIVEN.spec(examples.num_choices)
    batch = jax.tree.map(jnp.asarray, BatchLayout(spec, Lengths(32, 2)).batch([[examples.example(0)]]))
    size = {"model_dim": 16, "mlp_dim": 32, "num_heads": 2, "num_layers": 1, "vocab_size": 5 + len(WORDS)}
    model = BertConfig(**size, task="cloze").build(jax.random.key(0))

    def loss(scale):
        scores = predict(model, flatten_choices(batch)).heads["cloze"] * scale
        measured = measure_sequences(batch, {"cloze": scores}, GIVEN.label_loss)
        assert measured is not None
        return measured.losses[0], scores[:, 0]

    (value, scores), gradient = jax.value_and_grad(loss, has_aux=True)(1.0)
    assert scores[2] < -1e9
    assert value == pytest.approx(float(-jax.nn.log_softmax(scores[:2])[0]), rel=1e-5)
    assert np.isfinite(gradient)


def test_only_right_phrases_with_another_one_train():
    assert [GIVEN.trains(each) for each in (row("trophy", 1, "case"), row("trophy", 0, "case"))] == [
        True,
        False,
    ]
    assert not GIVEN.trains(row("trophy", 1))
    assert not GIVEN.trains(row("trophy", -1, "case"))
    assert GIVEN.is_labeled(row("trophy", 0, "case"))


def test_given_phrases_are_kept_unless_they_are_the_referent():
    result = row("The man", 1, "the man", "the manager", "man", "case", "Case")
    assert result.candidates == ("The man", "the manager", "man", "case")


def test_a_phrase_is_right_if_no_other_is_likelier(tokenizer):
    rows = [row("the trophy", 1, "case", "big", "too"), row("case", 0, "trophy"), row("case", 1)]
    scores = [(-1.0, -2.0, -3.0), (-1.0, -0.5, -1e10), (-1.0, -1.0, -1e10), (-1.0, -1e10, -1e10)]
    answers = GIVEN.answers_of(rows, [np.array(each) for each in scores], lambda number: np.arange(number))
    assert answers == [0, 1, 1]
    assert len(make_examples(GIVEN, rows, tokenizer, length=32)) == len(scores)
    assert [GIVEN.written(answer, ()) for answer in answers] == ["False", "True", "True"]


def test_noun_phrases_of_the_text_are_the_others():
    form = ReferentRanking()
    values = {"text": "The trophy didn't fit in the brown suitcase because [MASK] was big.", "label": 1}
    result = form.read({**values, "referent": "the trophy"})
    assert result.candidates == ("the trophy", "the brown suitcase")
    assert result.input_text == f"{values['text']}\nthe trophy"


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("", ()),
        ("Jane's mother gave Bob a gift.", ("Jane's mother", "Bob", "a gift")),
        ("The man didn't see the manager's wife's cat.", ("The man", "the manager's wife's cat")),
        ("Mr. Smith and Mrs. O'Brien couldn't come.", ("Mr. Smith", "Mrs. O'Brien")),
        ("I lent it to Mark but he couldn't pay.", ("Mark",)),
        ("The dogs’ food is old, and Ann’s is not.", ("The dogs’ food", "Ann")),
    ],
)
def test_noun_phrases_are_parts_of_the_text(text, phrases):
    assert noun_phrases(text) == phrases
    assert all(phrase in text for phrase in phrases)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "textblob.en", None)
    with pytest.raises(
        ValueError, match=r"install it: pip install 't5x-like\[pronouns\]'. Or give each row its"
    ):
        noun_phrases("a text that no other test has")


def test_bad_rows_are_refused(tokenizer):
    with pytest.raises(ValueError, match=r"write \[MASK\] once in column 'text', in the pronoun's place"):
        GIVEN.read({"text": "no pronoun", "referent": "a", "label": 1, "others": []})
    with pytest.raises(ValueError, match="no column 'others'; the columns are text, referent"):
        GIVEN.read({"text": TEXT, "referent": "a"})
    with pytest.raises(ValueError, match="column 'others' has 'brown case'; give a list of phrases"):
        GIVEN.read({"text": TEXT, "referent": "a", "others": "brown case"})
    with pytest.raises(ValueError, match="column 'referent' is empty"):
        GIVEN.read({"text": TEXT, "referent": " ", "others": []})
    with pytest.raises(ValueError, match="num_choices is 1; give at least 2"):
        ReferentRanking(num_choices=1)
    long = row("the trophy", 1, " ".join(["case"] * 10))
    with pytest.raises(
        ValueError, match="has 10 tokens, and a row has 12; raise inputs_length to more than 13"
    ):
        make_examples(GIVEN, [long], tokenizer, length=12)


def test_benchmarks_have_these_columns():
    wsc = {
        "text": "Ann told Bo that he won .",
        "span1_text": "Bo",
        "span2_text": "he",
        "span2_index": 4,
        "label": 1,
    }
    assert WscReferents()(wsc) == {"text": "Ann told Bo that [MASK] won.", "referent": "Bo", "label": 1}
    wnli = {"sentence1": "The cup  fell, so I kept it.", "sentence2": "I kept the cup.", "label": 1}
    assert WnliReferents()(wnli) == {
        "text": "The cup fell, so I kept [MASK].",
        "referent": "the cup",
        "label": 1,
    }
    with pytest.raises(ValueError, match="sentence2 has no candidate for a pronoun of"):
        WnliReferents()({"sentence1": "He saw nothing there.", "sentence2": "Green ideas sleep.", "label": 0})
    dpr = {"sentence": "Ann beat Bo, for she ran.", "pronoun": "she", "candidates": ["Ann", "Bo"], "label": 1}
    prepared = {
        "text": "Ann beat Bo, for [MASK] ran.",
        "referent": "Bo",
        "candidates": ["Ann"],
        "label": 1,
    }
    assert DprReferents()(dpr) == prepared
    assert ReferentRanking(prepare=DprReferents(), candidates="candidates").read(dpr).candidates == (
        "Bo",
        "Ann",
    )
    assert DprReferents()({**dpr, "label": -1})["label"] == -1
    for bad in ({"label": 2}, {"label": -1, "candidates": []}):
        with pytest.raises(ValueError, match="names none of the"):
            DprReferents()({**dpr, **bad})
    with pytest.raises(ValueError, match="the pronoun 'it' is not in"):
        DprReferents()({**dpr, "pronoun": "it"})


def test_a_benchmark_takes_another_head():
    form = ReferentRanking(prepare=WscReferents())
    task = benchmark_task("super_glue_wsc_v102_simple_eval", vocabulary="bytes", head=form)
    assert task.head_format() == form
    assert benchmark_task("super_glue_wsc_v102_simple_eval", vocabulary="bytes").head_format() != form


def test_the_margin_loss_is_that_of_the_paper():
    scores = jnp.log(jnp.array([[0.5], [0.4], [0.1], [0.6], [0.2], [0.7]]))  # three pairs
    batch = Batch(encoder_input_tokens=jnp.ones((6, 2), jnp.int32), sequence_labels=jnp.array([0, 0, -1]))
    ranking = MarginRanking(weight=5.0, margin=0.4)
    measures = measure_sequences(batch, {"cloze": scores}, GIVEN.label_loss, ranking)
    assert measures is not None
    first = -np.log(0.5) + 5 * max(0.0, np.log(0.4) - np.log(0.5) + 0.4)
    second = -np.log(0.1) + 5 * max(0.0, np.log(0.6) - np.log(0.1) + 0.4)
    np.testing.assert_allclose(measures.losses, [first, second, 0.0], rtol=1e-6)
    assert measures.correct.tolist() == [1.0, 0.0, 0.0]
    far = measure_sequences(batch, {"cloze": jnp.array([[0.0], [-9.0]] * 3)}, GIVEN.label_loss, ranking)
    assert far is not None
    np.testing.assert_allclose(far.losses, 0.0)


def test_the_margin_loss_takes_no_negative_weight():
    with pytest.raises(ValueError, match="give 0 or more"):
        MarginRanking(weight=-1.0)
