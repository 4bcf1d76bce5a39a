"""Cloze forms of classification: rows of blank infilling or of masks, and scores of candidates in the blank."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.model import parameters
from t5x_like.model.families.family import predict
from t5x_like.model.zoo.albert import AlbertConfig
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.distilbert import DistilBertConfig
from t5x_like.model.zoo.ernie import ErnieConfig
from t5x_like.model.zoo.glm_orig import GLMOrigConfig, blank_settings
from t5x_like.model.zoo.modernbert import ModernBertConfig
from t5x_like.model.zoo.roberta import RobertaConfig
from t5x_like.pretrained.fresh_heads import with_head
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.weight_sources import read_config
from t5x_like.text.batches.batch_layout import BatchLayout
from t5x_like.text.batches.labeled_examples import make_examples
from t5x_like.text.heads import ClozeClassification, InputFraming, MaskedClozeClassification
from t5x_like.text.objectives.blank_infilling import BlankIds
from t5x_like.text.objectives.blanks import Blanks, infilling_examples
from t5x_like.text.objectives.objective import Lengths, Text
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.training.losses.sequences import measure_sequences

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[SOP]", *"abcdefgh", "."]
SOP = 5
FORM = ClozeClassification(
    pattern="{text} is [MASK] .",
    classes=("vowel", "none"),
    words=("a b c", "d"),
    special=BlankIds(start=SOP),
)
MASKED = MaskedClozeClassification(pattern=FORM.pattern, classes=FORM.classes, words=FORM.words)
FIELDS = ("inputs", "targets", "positions", "block_positions", "prefix")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    file = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    file.write_text("\n".join(PIECES) + "\n")
    return open_tokenizer(str(file), 0)


@pytest.fixture(scope="module")
def examples(tokenizer):
    rows = [FORM.read({"text": text, "label": label}) for text, label in (("e f", 0), ("g", 1))]
    return make_examples(FORM, rows, tokenizer, length=16)


def test_rows_are_those_of_blank_infilling_without_the_blanks_end(examples, tokenizer):
    (unknown,) = tokenizer.encode("is")  # not in the vocabulary
    left, right = [*tokenizer.encode("e f"), unknown], tokenizer.encode(".")
    for row, word in zip(examples.example(0).choices, ("a b c", "d"), strict=True):
        candidate = tokenizer.encode(word)
        text = np.array([*left, *candidate, *right], np.int32)
        start, end = len(left), len(left) + len(candidate)
        blanks = Blanks(*(np.array([value]) for value in (0, start, end, 4, 0)))
        (expected,) = infilling_examples([Text(text, len(text))], blanks, cls=2, start=SOP, end=3)
        for name in FIELDS:
            wanted = getattr(expected, name)[:-1]
            if name == "targets":
                wanted = np.where(expected.weights[:-1] > 0, wanted, 0)
            np.testing.assert_array_equal(getattr(row, name), wanted, err_msg=name)
        assert not row.weights.any()


def test_long_texts_are_cut_far_from_the_blank(tokenizer):
    row = FORM.read({"text": "a b c d e f g h a b c d e f g h", "label": 0})
    examples = make_examples(FORM, [row], tokenizer, length=11)
    first = examples.example(0).choices[0]
    pieces = [tokenizer.piece(int(token_id)) for token_id in first.inputs]
    assert pieces == ["[CLS]", "f", "g", "h", "[UNK]", "[MASK]", ".", "[SOP]", "a", "b"]
    assert examples.num_cut == 1


def config_of(**options: Any) -> GLMOrigConfig:
    settings = {
        "model_dim": 16,
        "mlp_dim": 32,
        "num_heads": 2,
        "num_layers": 2,
        "max_position_embeddings": 16,
    }
    return GLMOrigConfig(vocab_size=len(PIECES), **(settings | options))


def test_a_candidates_score_is_its_likelihood_token_by_token_in_the_blank(examples):
    config = with_head(config_of(), "cloze", 2, where="here")
    assert config.task == "cloze"
    model = config.build(jax.random.key(0))
    batch = batch_of(examples, FORM)
    predictions = predict(model, batch)
    assert predictions.logits is None
    scores = np.asarray(predictions.heads["cloze"]).reshape(2, 2)
    for index in range(2):
        for place, row in enumerate(examples.example(index).choices):
            assert scores[index, place] == pytest.approx(by_decoding(model, row), rel=1e-4)
    measured = measure_sequences(batch, predictions.heads, FORM.label_loss)
    assert measured is not None
    expected = -jax.nn.log_softmax(jnp.asarray(scores), axis=-1)[jnp.arange(2), jnp.array([0, 1])]
    np.testing.assert_allclose(measured.losses, expected, rtol=1e-5)


def by_decoding(model, row):
    """The candidate's likelihood, one decoding step after the other."""
    num_text = int(row.prefix.sum())
    word = row.targets[num_text:]
    prompt = jnp.asarray(row.inputs[: num_text + 1])[None]  # the text, and the start of the blank
    place = jnp.array([int(np.flatnonzero(row.inputs == 4)[0])])
    settings = blank_settings(model_config(model), jnp.ones_like(prompt), place, max_new_tokens=len(word))
    token, cache = model.start_cache(prompt, max_new_tokens=len(word), **settings)
    total = 0.0
    for target in word.tolist():
        logits, cache = model.decode_step(token, cache)
        total += float(jax.nn.log_softmax(logits)[0, target])
        token = jnp.array([target])
    return total


def model_config(model):
    del model
    return config_of()


@pytest.fixture(scope="module")
def masked_examples(tokenizer):
    rows = [MASKED.read({"text": text, "label": label}) for text, label in (("e f", 0), ("g", 1))]
    return make_examples(MASKED, rows, tokenizer, length=16)


def batch_of(examples, head_format):
    spec = head_format.spec(examples.num_choices)
    rows = [[examples.example(index)] for index in range(len(examples))]
    return jax.tree.map(jnp.asarray, BatchLayout(spec, Lengths(16, 2)).batch(rows))


def test_a_masked_language_model_reads_a_mask_for_each_token(masked_examples, tokenizer):
    rows = masked_examples.example(0).choices
    texts = [" ".join(tokenizer.piece(int(token_id)) for token_id in row.inputs) for row in rows]
    assert texts == ["[CLS] e f [UNK] [MASK] [MASK] [MASK] . [SEP]", "[CLS] e f [UNK] [MASK] . [SEP]"]
    assert [row.targets[row.targets > 0].tolist() for row in rows] == [
        tokenizer.encode(word) for word in MASKED.words
    ]
    assert all(row.inputs[place] == 4 for row in rows for place in np.flatnonzero(row.targets))


@pytest.mark.parametrize("form", [FORM, MASKED])
def test_masks_in_the_text_are_not_the_blank(form, tokenizer):
    mask, input_format = 4, form.input_format(tokenizer, 16, None)
    before, word, after = [2, 6, mask, 7], [8, 9], [mask, 6, 3]  # texts may have masks of their own
    row = form.input_row(np.array([*before, *word, mask, *after], np.int32), len(before), input_format)
    assert row.targets[row.targets > 0].tolist() == word
    if form is MASKED:
        assert row.inputs.tolist() == [*before, mask, mask, *after]
        assert np.flatnonzero(row.targets).tolist() == [4, 5]
    else:
        assert row.inputs[: row.prefix.sum()].tolist() == [*before, mask, *after[:-1]]
        assert row.positions[row.targets > 0].tolist() == [4, 4]


def test_long_texts_leave_room_for_all_masks(tokenizer):
    row = MASKED.read({"text": "a b c d e f g h a b c d e f g h", "label": 0})
    examples = make_examples(MASKED, [row], tokenizer, length=11)
    pieces = [tokenizer.piece(int(number)) for number in examples.example(0).choices[0].inputs]
    assert pieces == ["[CLS]", "f", "g", "h", "[UNK]", "[MASK]", "[MASK]", "[MASK]", ".", "[SEP]"]
    assert examples.num_cut == 1
    assert examples.sizes.max() <= 11


@pytest.mark.parametrize(
    "architecture",
    [
        BertConfig,
        pytest.param(RobertaConfig, marks=pytest.mark.slow),
        pytest.param(partial(AlbertConfig, embed_dim=8), marks=pytest.mark.slow),
        DistilBertConfig,
        ErnieConfig,
        ModernBertConfig,
    ],
)
def test_the_output_layer_scores_the_words_at_their_masks(architecture, masked_examples):
    size = {"model_dim": 16, "mlp_dim": 32, "num_heads": 2, "num_layers": 2, "vocab_size": len(PIECES)}
    config = architecture(**size, task="masked_lm")
    model = config.build(jax.random.key(0))
    graphdef = parameters.abstract(with_head(config, "cloze", 2, where="here"))[0]
    cloze = parameters.merge(graphdef, parameters.split(model)[1])
    result = np.asarray(predict(cloze, batch_of(masked_examples, MASKED)).heads["cloze"]).reshape(2, 2)
    for index in range(2):
        for place, row in enumerate(masked_examples.example(index).choices):
            alone = Batch(encoder_input_tokens=jnp.asarray(row.inputs)[None])
            log_probs = jax.nn.log_softmax(predict(model, alone).logits[0])
            masks = np.flatnonzero(row.targets)
            expected = np.mean([float(log_probs[mask, row.targets[mask]]) for mask in masks])
            assert result[index, place] == pytest.approx(expected, rel=1e-4)


def test_it_is_exported_as_a_masked_language_model(tmp_path):
    config = BertConfig(
        model_dim=16, mlp_dim=32, num_heads=2, num_layers=1, vocab_size=len(PIECES), task="cloze"
    )
    params = parameters.split(config.build(jax.random.key(0)))[1]
    write_hugging_face(config, params, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["BertForMaskedLM"]
    assert read_config(tmp_path) == replace(config, task="masked_lm")


def test_rows_of_the_other_form_are_refused(examples, masked_examples):
    encoder = BertConfig(
        model_dim=16, mlp_dim=32, num_heads=2, num_layers=1, vocab_size=len(PIECES), task="cloze"
    )
    with pytest.raises(ValueError, match="rows have the form of blank infilling"):
        predict(encoder.build(jax.random.key(0)), batch_of(examples, FORM))
    decoder = with_head(config_of(), "cloze", 2, where="here").build(jax.random.key(0))
    with pytest.raises(ValueError, match="rows have masks alone"):
        predict(decoder, batch_of(masked_examples, MASKED))


def test_bad_clozes_are_refused(tokenizer):
    with pytest.raises(ValueError, match=r"pattern is '\{text\}'; write \[MASK\] once"):
        ClozeClassification(pattern="{text}", classes=("a", "b"))
    with pytest.raises(ValueError, match=r"1 words for 2 classes \(a, b\); give one for each"):
        ClozeClassification(pattern="{text} [MASK]", classes=("a", "b"), words=("c",))
    row = FORM.read({"text": "a", "label": 0})
    with pytest.raises(
        ValueError, match="a cloze has the form of its pretraining; leave out the task's InputFraming"
    ):
        make_examples(FORM, [row], tokenizer, length=16, framing=InputFraming())
    without = ClozeClassification(pattern="{text} [MASK]", classes=("a", "b"))
    with pytest.raises(ValueError, match="the vocabulary has no id for start"):
        make_examples(without, [without.read({"text": "a"})], tokenizer, length=16)
