"""Numbers of a call that have no row in a table, no class or no place are refused before JAX clamps them."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

import t5x_like
from t5x_like.model import parameters
from t5x_like.pretrained.checkpoint import family_of
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.tokenizer_files import special_ids_of
from t5x_like.pretrained.transformers_api.call import Context
from t5x_like.pretrained.transformers_api.open_model import CALLS
from tests.model.zoo.tiny_models import TINY, VOCAB_SIZE

IDS = np.full((2, 4), 5)
CHOICES = np.full((2, 3, 4), 5)
IGNORED = np.full((2, 4), -100)


def read(name: str, task: str, arguments: dict[str, Any], **changes: Any) -> dict[str, Any]:
    config = dataclasses.replace(TINY[name], task=task, **changes)
    context = Context(config, special_ids_of({"eos_token_id": 5, "decoder_start_token_id": 0}))
    graphdef, params, _ = parameters.abstract(config)
    return CALLS[family_of(parameters.merge(graphdef, params))].read(arguments, context)


WORDS = [
    ("bert", "masked_lm"),
    ("gpt2", "causal_lm"),
    ("mt5", "sequence_to_sequence_lm"),
    ("transfo_xl", "causal_lm"),
    ("xlnet", "causal_lm"),
]


@pytest.mark.parametrize(("name", "task"), WORDS)
def test_ids_and_labels_of_words_lie_in_the_vocabulary(name, task):
    read(name, task, {"input_ids": IDS, "labels": np.array([[-100, 5, -100, VOCAB_SIZE - 1]] * 2)})
    for wrong in (-1, VOCAB_SIZE):
        with pytest.raises(ValueError, match=f"input_ids holds {wrong}; the model has the ids 0 … 60"):
            read(name, task, {"input_ids": np.where(IDS == 5, wrong, IDS), "labels": IDS})
        with pytest.raises(ValueError, match=rf"labels holds {wrong}; .* 0 … 60, or -100"):
            read(name, task, {"input_ids": IDS, "labels": np.array([[5, 5, wrong, 5]] * 2)})


@pytest.mark.parametrize(("name", "task"), WORDS)
def test_labels_with_nothing_to_learn_have_no_loss(name, task):
    with pytest.raises(ValueError, match="no label but -100"):
        read(name, task, {"input_ids": IDS, "labels": IGNORED})


@pytest.mark.parametrize("name", ["gpt2", "transfo_xl"])
def test_a_decoder_never_predicts_the_first_label(name):
    only_first = np.array([[5, -100, -100, -100]] * 2)
    with pytest.raises(ValueError, match=r"labels\[:, 1:\] has no label but -100"):
        read(name, "causal_lm", {"input_ids": IDS, "labels": only_first})
    with pytest.raises(ValueError, match="labels has one token a row"):
        read(name, "causal_lm", {"input_ids": IDS[:, :1], "labels": IDS[:, :1]})


@pytest.mark.parametrize(("name", "task"), WORDS)
def test_an_empty_batch_is_refused(name, task):
    with pytest.raises(
        ValueError, match=r"input_ids has shape \(0, 4\), an empty batch; give at least one row"
    ):
        read(name, task, {"input_ids": IDS[:0], "labels": IDS[:0]})


def test_hidden_states_of_an_encoder_are_not_empty():
    with pytest.raises(ValueError, match=r"encoder_outputs has shape \(0, 4, 32\); give hidden states"):
        read("mt5", "sequence_to_sequence_lm", {"encoder_outputs": np.zeros((0, 4, 32)), "labels": IDS[:0]})


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart", "transfo_xl", "xlnet"])
@pytest.mark.parametrize(
    ("task", "changed_inputs", "message"),
    [
        ("sequence_classification", {"labels": [3, 0]}, "labels holds 3; it must be 0 … 2, or -100"),
        ("sequence_classification", {"labels": [-1, 0]}, "labels holds -1; it must be 0 … 2"),
        ("sequence_classification", {"labels": [-100, -100]}, "labels has no label but -100"),
        ("sequence_classification", {"labels": [[1], [0]]}, r"labels has shape \(2, 1\); give \(2,\)"),
        ("token_classification", {"labels": IDS}, "labels holds 5; it must be 0 … 2, or -100"),
        ("token_classification", {"labels": IGNORED}, "labels has no label but -100"),
        (
            "question_answering",
            {"start_positions": [4, 9], "end_positions": [1, 1]},
            "start_positions holds 4; rows have 4 tokens",
        ),
        ("question_answering", {"start_positions": [1, 1]}, "give both"),
        ("question_answering", {"labels": [1, 1]}, "give start_positions or end_positions"),
    ],
)
def test_labels_of_heads_lie_among_their_classes(name, task, changed_inputs, message):
    changed_inputs = {"input_ids": IDS, **{key: np.array(each) for key, each in changed_inputs.items()}}
    with pytest.raises(ValueError, match=message):
        read(name, task, changed_inputs, num_labels=3)


def test_labels_without_a_loss_are_refused():
    with pytest.raises(ValueError, match="labels is given, and this model's task 'base' has no loss of it"):
        read("bert", "base", {"input_ids": IDS, "labels": IDS})
    with pytest.raises(ValueError, match="give labels"):
        read("bert", "sequence_classification", {"input_ids": IDS, "start_positions": np.array([1, 1])})


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart", "transfo_xl", "xlnet"])
def test_a_choice_is_one_of_the_row(name):
    read(name, "multiple_choice", {"input_ids": CHOICES, "labels": np.array([2, 0])})
    with pytest.raises(ValueError, match="labels holds 3; it must be 0 … 2, or -100"):
        read(name, "multiple_choice", {"input_ids": CHOICES, "labels": np.array([3, 0])})
    with pytest.raises(ValueError, match="an empty batch"):
        read(name, "multiple_choice", {"input_ids": CHOICES[:0], "labels": np.zeros(0, int)})


@pytest.mark.parametrize(
    ("problem_type", "labels", "message"),
    [
        ("single_label", [1.0, 0.0], "labels holds float32; give whole numbers"),
        ("multi_label", [[0, 1, 2], [0, 0, 1]], "labels holds 2; give 1 for each class of a row"),
        ("multi_label", [0, 1], r"labels has shape \(2,\); give \(2, 3\)"),
        ("regression", [1.0, 2.0], r"labels has shape \(2,\); give a number for each row"),
        ("regression", [[1.0, 2.0, np.nan]] * 2, "labels holds nan; give finite numbers"),
    ],
)
def test_labels_of_sequences_fit_the_problem(problem_type, labels, message):
    arguments = {"input_ids": IDS, "labels": np.array(labels)}
    with pytest.raises(ValueError, match=message):
        read("bert", "sequence_classification", arguments, num_labels=3, problem_type=problem_type)


def test_pairs_of_texts_and_replaced_tokens_have_two_classes():
    pair = {"input_ids": IDS, "labels": IDS, "next_sentence_label": np.array([0, 2])}
    with pytest.raises(ValueError, match="next_sentence_label holds 2; it must be 0 … 1"):
        read("bert", "pretraining", pair)
    replaced = {"input_ids": IDS, "labels": np.array([[0, 1, 0, -100]] * 2)}
    with pytest.raises(ValueError, match=r"labels holds -100; it must be 0 … 1\. 1 marks a replaced token"):
        read("electra_discriminator", "replaced_tokens", replaced)
    read(
        "electra_discriminator",
        "replaced_tokens",
        {**replaced, "attention_mask": np.array([[1, 1, 1, 0]] * 2)},
    )


def test_a_decoder_under_a_head_on_tokens_reads_the_input_again():
    inputs = read("bart", "token_classification", {"input_ids": IDS, "labels": IDS // 5}, num_labels=3)
    assert inputs["decoder_input_ids"].tolist() == [[0, 5, 5, 5]] * 2
    assert inputs["labels"].tolist() == [[1] * 4] * 2


def test_types_and_positions_have_rows_in_their_tables():
    for name in ("token_type_ids", "task_type_ids", "position_ids"):
        with pytest.raises(ValueError, match=f"{name} holds 16"):
            read("ernie_2_0", "base", {"input_ids": IDS, name: np.full((2, 4), 16)})
    for positions in (np.full((2, 4), 16), np.full((2, 4), -1)):
        with pytest.raises(ValueError, match=r"position_ids holds .*; it must be 0 … 15"):
            read("gpt2", "causal_lm", {"input_ids": IDS, "position_ids": positions})
    inside = np.stack([np.zeros((2, 4), int), np.full((2, 4), 99)], axis=1)
    with pytest.raises(ValueError, match="position_ids holds 99"):
        read("glm_orig", "causal_lm", {"input_ids": IDS, "position_ids": inside})
    read("llama", "causal_lm", {"input_ids": IDS, "position_ids": np.full((2, 4), 10**6)})


def test_types_of_a_model_without_them_are_left_out_as_by_transformers():
    """DeBERTa's tokenizer makes 0 and 1, which most of its models don't read."""
    pair = np.array([[0, 0, 1, 1]] * 2)
    inputs = read("deberta_v2", "base", {"input_ids": IDS, "token_type_ids": pair})
    assert "token_type_ids" not in inputs
    assert "token_type_ids" not in read("eurobert", "base", {"input_ids": IDS, "token_type_ids": 0 * pair})
    with pytest.raises(ValueError, match="this model has no token types; leave them out"):
        read("eurobert", "base", {"input_ids": IDS, "token_type_ids": pair})


def test_a_prefix_lies_inside_its_row():
    with pytest.raises(ValueError, match="attention_mask of prefixes holds 5; it must be 0 … 4"):
        read("glm_orig", "causal_lm", {"input_ids": IDS, "attention_mask": np.array([2, 5])})


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    directory = tmp_path_factory.mktemp("t5")
    config = TINY["t5_1_0"]
    write_hugging_face(config, parameters.split(jax.jit(config.build)(jax.random.key(0)))[1], directory)
    return t5x_like.from_pretrained(directory)


@pytest.mark.parametrize("name", ["eos_token_id", "pad_token_id"])
def test_special_ids_of_generation_lie_in_the_vocabulary(t5, name):
    with pytest.raises(ValueError, match=f"{name} holds 61; the model has the ids 0 … 60"):
        t5.generate(IDS, max_new_tokens=2, **{name: VOCAB_SIZE})


def test_a_start_token_without_an_embedding_is_refused(t5, monkeypatch):
    monkeypatch.setattr(t5, "special_ids", dataclasses.replace(t5.special_ids, decoder_start=VOCAB_SIZE))
    message = "decoder_start_token_id of config.json holds 61; the model has the ids 0 … 60"
    with pytest.raises(ValueError, match=message):
        t5.generate(IDS, max_new_tokens=2)
    with pytest.raises(ValueError, match=message):
        t5(IDS, labels=IDS)


def test_a_call_with_a_wrong_label_is_refused_and_the_next_one_answered(t5):
    with pytest.raises(ValueError, match="labels holds 61"):
        t5(IDS, labels=np.full((2, 4), VOCAB_SIZE))
    with pytest.raises(ValueError, match="an empty batch"):
        t5.generate(IDS[:0])
    assert np.isfinite(t5(IDS, labels=IDS).loss)
