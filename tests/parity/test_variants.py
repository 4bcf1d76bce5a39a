"""The same weights in other containers, and masks of one's own: what files and callers do besides the plain case."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import t5x_like
from benchmarks.references.models import ModelFolder, check_refused
from benchmarks.references.segments import check_masks, names_of
from tests.parity.fixtures import fixture

ATOL = 3e-5


@pytest.mark.parametrize("variant", ["gpt2_noprefix", "llama_sharded", "llama_bf16", "t5_v11_f16"])
def test_other_containers_give_the_same_model(golden, variant):
    ModelFolder(golden / "models" / "variants" / variant).check_outputs(atol=ATOL)


@pytest.mark.parametrize("variant", ["bert_legacy_bin", "t5_v10_bin"])
def test_pickled_weights_are_refused(golden, variant):
    check_refused(golden / "models" / "variants" / variant)


def test_unilm_sees_what_its_mask_allows():
    case = fixture("unilm")
    assert names_of(case.io, "in_mask3d_") == ["bidir", "l2r", "seq2seq"]
    check_masks(case, atol=ATOL)


def test_gradients_of_unilm():
    io = fixture("unilm").io
    inputs = {name: io[f"in_{name}"] for name in ("input_ids", "token_type_ids", "labels")}
    fixture("unilm").check_gradients(inputs | {"attention_mask": io["in_mask3d_seq2seq"]})


def test_positions_given_are_positions_used(golden):
    case = fixture("gpt2")
    pretrained = t5x_like.from_pretrained(case.directory)
    ids = case.inputs["input_ids"]
    plain = pretrained(input_ids=ids).logits
    moved = pretrained(
        input_ids=ids, position_ids=np.arange(ids.shape[1])[None].repeat(len(ids), 0) + 3
    ).logits
    assert np.abs(plain - moved).max() > 0.1


def test_a_head_that_files_lack_is_refused(golden):
    directory = golden / "models" / "bert_pretraining"
    with pytest.raises(ValueError, match=r"lacks classifier\.weight, classifier\.bias.*train the head first"):
        t5x_like.from_pretrained(directory, task="sequence_classification", num_labels=5)


def test_a_body_without_its_head_gives_the_same_states(golden):
    case = fixture("bert_pretraining")
    pretrained = t5x_like.from_pretrained(case.directory, task="base")
    inputs = {name: case.inputs[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    np.testing.assert_allclose(
        case.real("", pretrained(**inputs).last_hidden_state),
        case.real("", case.outputs["hidden_states"][-1]),
        atol=ATOL,
    )


@pytest.mark.parametrize("name", ["bert_pretraining", "gpt2", "xlnet"])
def test_a_body_is_written_without_the_prefix_of_what_has_a_head(golden, tmp_path, name):
    directory = golden / "models" / name
    t5x_like.export_hugging_face(t5x_like.from_pretrained(directory, task="base"), tmp_path / "out")
    prefix = {"bert_pretraining": "bert.", "gpt2": "transformer.", "xlnet": "transformer."}[name]
    names = load_file(tmp_path / "out" / "model.safetensors").keys()
    wanted = {
        key.removeprefix(prefix)
        for key in load_file(directory / "model.safetensors")
        if key.startswith(prefix)
    }
    assert names == wanted
    assert t5x_like.from_pretrained(tmp_path / "out").config.task == "base"
