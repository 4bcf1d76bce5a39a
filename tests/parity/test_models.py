"""Every architecture against its reference: scores, hidden states, losses, gradients, generated ids, exported files."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import t5x_like
from tests.parity.fixtures import LARGER, Fixture, fixture, names

ATOL = 3e-5


def each(names: list[str], alike: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Slow are ``alike``, and the larger set's: they show nothing of an architecture that the others don't."""
    slow = (LARGER, *alike)
    marked = [pytest.param(name, marks=pytest.mark.slow if name.startswith(slow) else ()) for name in names]
    return pytest.mark.parametrize("name", marked)


@pytest.fixture
def case(name):
    return fixture(name)


def arguments(case: Fixture) -> dict[str, np.ndarray]:
    given = dict(case.inputs)
    if "sep" in given:  # GLM's own names
        given["attention_mask"] = given.pop("sep")
        given["labels"] = np.where(given.pop("loss_mask") == 1, given.pop("targets"), -100)
    return given


@pytest.mark.parametrize("name", names())
def test_scores_hidden_states_and_loss(case):
    answers = case.pretrained(**arguments(case), output_hidden_states=True)
    compared = 0
    for name, wanted in case.outputs.items():
        if name in answers:
            got = np.stack(answers[name]) if isinstance(answers[name], tuple) else answers[name]
            got, wanted = case.real(name, got), case.real(name, wanted)
            np.testing.assert_allclose(got, wanted, atol=ATOL, rtol=1e-5, err_msg=name)
            compared += 1
    assert compared >= (2 if len(case.outputs) > 1 else 1), f"only {compared} of {list(case.outputs)}"


# Of an architecture with several models one is enough: others have another head, or activations that show an epsilon.
ALIKE = ("eps_", "bert_mc", "bert_mlm", "bert_tokcls", "llama_mha_bias")


@each(names("grad_global_norm"), alike=(*ALIKE, *(name for name in names() if name.endswith("_seqcls"))))
def test_gradients(case):
    case.check_gradients(arguments(case))


@each(names("gen_prompt_ids"), alike=("eps_", "llama31", "llama_mha_bias", "mt5", "longt5_local"))
def test_generated_ids(case):
    newer = (case.meta.get("recheck_with_5.23.0") or {}).get("v5_result") or {}
    prompts = case.io["gen_prompt_ids"]
    mask = (prompts != -1).astype(np.int32)
    for run, options in case.meta["generation"].items():
        options = {name: value for name, value in options.items() if name != "pad_token_id"}
        answers = case.pretrained.generate(prompts * mask, mask, **options, return_dict_in_generate=True)
        got = [
            written(
                row, mask[number // options.get("num_return_sequences", 1)], options["eos_token_id"], case
            )
            for number, row in enumerate(answers.sequences)
        ]
        wanted = [row[row != -1].tolist() for row in case.io[f"gen_{run}"]]
        scores = case.io.get(f"gen_{run}_scores")
        if got != wanted and f"gen_{run}" in newer:
            wanted = [[token for token in row if token != -1] for row in newer[f"gen_{run}"]]
            scores = newer[f"gen_{run}_scores"]
        assert got == wanted, run
        if scores is not None:
            np.testing.assert_allclose(answers.sequences_scores, scores, rtol=2e-5, err_msg=run)


def written(row: np.ndarray, mask: np.ndarray, eos: int, case: Fixture) -> list[int]:
    """The prompt or start token and what was written, up to the first end of sequence after it."""
    is_decoder = "decoder_input_ids" not in case.inputs
    num_before = len(mask) if is_decoder else 1
    before, new = row[:num_before], row[num_before:].tolist()
    before = before[mask == 1].tolist() if is_decoder else before.tolist()
    return before + (new[: new.index(eos) + 1] if eos in new else new)


@each(names())
def test_export_writes_the_names_and_bytes_that_were_read(case, tmp_path):
    t5x_like.export_hugging_face(case.pretrained, tmp_path / "out")
    wanted = load_file(case.directory / "model.safetensors")
    got = load_file(tmp_path / "out" / "model.safetensors")
    assert got.keys() == wanted.keys()
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)
    assert t5x_like.from_pretrained(tmp_path / "out").config == case.pretrained.config
