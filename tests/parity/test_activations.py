"""Attention probabilities, feed-forward activations and the effect of an edit, against transformers with hooks."""

from typing import Any

import numpy as np
import pytest

import t5x_like
from t5x_like.model.named_activations import AffineEdit
from tests.references import FIXTURES, read_arrays

NAMES = ("bert_seqcls", "gpt2", "t5_v11")
CLOSE = {"rtol": 0, "atol": 3e-5}


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest) -> Any:
    """The opened model, the arguments of a call, and the recorded arrays."""
    arrays = read_arrays(FIXTURES / "activations" / f"{request.param}.npz")
    arguments = {
        name.removeprefix("in_"): arrays.pop(name) for name in list(arrays) if name.startswith("in_")
    }
    return t5x_like.from_pretrained(FIXTURES / "models" / request.param), arguments, arrays


def test_activations_are_those_of_transformers(case):
    pretrained, arguments, arrays = case
    names = [name for name in arrays if "/" in name]
    captured = pretrained.activations(capture=names, **arguments)
    assert sorted(captured) == sorted(names)
    for name, array in captured.items():
        # What padding computes is of no use, and differs.
        real = arguments["attention_mask"] if name.startswith("encoder") or len(captured) == 2 else None
        wanted = arrays[name]
        if real is not None:
            rows, positions = np.nonzero(real)
            array, wanted = (np.moveaxis(each, -2, 2)[:, rows, positions] for each in (array, wanted))
        np.testing.assert_allclose(array, wanted, err_msg=name, **CLOSE)


def test_hidden_states_are_those_of_a_call(case):
    pretrained, arguments, _ = case
    outputs = pretrained(**arguments, output_hidden_states=True)
    captured = pretrained.activations(capture=["*/hidden_states"], **arguments)
    for name, states in captured.items():
        hf_name = name.replace("/", "_")
        np.testing.assert_array_equal(states, outputs.get(hf_name, outputs.get("hidden_states")))


def test_an_edited_layer_changes_scores_as_a_hook_of_torch_does(case):
    pretrained, arguments, arrays = case
    stack = "decoder" if "decoder/feed_forward/activations" in arrays else "encoder"
    name = f"{stack}/feed_forward/activations"
    factors = np.ones((len(arrays[name]), len(arrays["factors"])), np.float32)
    factors[1] = arrays["factors"]
    real = np.ones(arrays["logits"].shape[:-1], bool)
    if stack == "decoder" and "decoder_input_ids" not in arguments:
        real = arguments["attention_mask"] > 0
    with pretrained.edited({name: AffineEdit(factors)}):
        edited = pretrained(**arguments).logits
    np.testing.assert_allclose(edited[real], arrays["edited_logits"][real], **CLOSE)
    np.testing.assert_allclose(pretrained(**arguments).logits[real], arrays["logits"][real], **CLOSE)


@pytest.mark.parametrize("case", [pytest.param("gpt2", marks=pytest.mark.slow)], indirect=True)
def test_generation_is_edited_too(case):
    pretrained = case[0]
    prompt = np.array([[11, 12, 13]])
    name = "decoder/feed_forward/activations"

    def write() -> list[list[int]]:
        return pretrained.generate(prompt, max_new_tokens=8, eos_token_id=60).tolist()

    before = write()
    with pretrained.edited({name: AffineEdit(np.zeros((3, 96), np.float32))}):
        without = write()
    with pretrained.edited({name: lambda x, _: x * 0}):
        assert write() == without != before
    with (
        pretrained.edited({"decoder/neurons": lambda x, _: x}),
        pytest.raises(ValueError, match="there are decoder/"),
    ):
        write()
    assert write() == before


@pytest.mark.parametrize("case", ["gpt2"], indirect=True)
def test_edits_of_one_activation_follow_their_order(case):
    pretrained, prompt, name = case[0], np.array([[11, 12, 13]]), "decoder/feed_forward/activations"
    scaled, shifted = AffineEdit(np.full((3, 1), 2.0)), AffineEdit(offsets=np.ones((3, 1)))
    plain, first, last = (
        pretrained.activations(prompt, [name])[name][0]
        if not edits
        else _edited(pretrained, prompt, name, edits)
        for edits in ({}, {name: scaled, "*/activations": shifted}, {name: shifted, "*/activations": scaled})
    )
    np.testing.assert_allclose(first, 2 * plain + 1, **CLOSE)
    np.testing.assert_allclose(last, 2 * (plain + 1), **CLOSE)


def _edited(pretrained: Any, prompt: np.ndarray, name: str, edits: Any) -> np.ndarray:
    """Return the activations of the first layer under edits."""
    with pretrained.edited(edits):
        return pretrained.activations(prompt, [name])[name][0]


def test_virtual_tokens_are_keys_and_have_no_activations_of_their_own():
    pretrained = t5x_like.from_pretrained(FIXTURES / "models/gpt2")
    pretrained.load_adapter("prompt", FIXTURES / "peft/gpt2_prompt")
    captured = pretrained.activations(np.array([[11, 12, 13, 14]]), ["*"])
    assert {name.removeprefix("decoder/"): array.shape for name, array in captured.items()} == {
        "hidden_states": (4, 1, 4, 24),
        "layer_outputs": (3, 1, 4, 24),
        "feed_forward/inputs": (3, 1, 4, 24),
        "feed_forward/activations": (3, 1, 4, 96),
        "self_attention/probabilities": (3, 1, 2, 4, 7),
    }
