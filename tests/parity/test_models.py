"""Every architecture against its reference: scores, hidden states, losses, gradients, generated ids, exported files."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import t5x_like
from benchmarks.references.generation import check_generation
from tests.parity.fixtures import LARGER, fixture, names

ATOL = 3e-5


def each(
    names: list[str], alike: tuple[str, ...] = (), always: tuple[str, ...] | None = None
) -> pytest.MarkDecorator:
    """Slow are ``alike``, and the larger set's: they show nothing of an architecture that the others don't.

    Args:
      names: Names of the fixtures.
      alike: Beginnings of names that are slow.
      always: The only names that are not slow; None for all others.
    """
    slow = [
        name.startswith((LARGER, *alike)) or (always is not None and name not in always) for name in names
    ]
    marked = [
        pytest.param(name, marks=pytest.mark.slow if is_slow else ())
        for name, is_slow in zip(names, slow, strict=True)
    ]
    return pytest.mark.parametrize("name", marked)


@pytest.fixture
def case(name):
    return fixture(name)


@each(names())
def test_scores_hidden_states_and_loss(case):
    case.check_outputs(atol=ATOL)


# One for each form of layers, embeddings, masks and stacks.
LEARNS = (
    *("bart", "bert_pretraining", "electra_disc", "gemma2", "gpt2", "modernbert", "qwen3"),
    "t5_v11",
)


@each(names("grad_global_norm"), always=LEARNS)
def test_gradients(case):
    case.check_gradients(case.arguments)


# One for each form of stacks writes always; all others score the same ids in one pass above.
WRITES = ("bart", "gpt2", "t5_v11")


@each(names("gen_prompt_ids"), always=WRITES)
def test_generated_ids(case):
    check_generation(case)


@each(names())
def test_export_writes_the_names_and_bytes_that_were_read(case, tmp_path):
    t5x_like.export_hugging_face(case.pretrained, tmp_path / "out")
    wanted = load_file(case.directory / "model.safetensors")
    got = load_file(tmp_path / "out" / "model.safetensors")
    assert got.keys() == wanted.keys()
    assert all(np.array_equal(got[name], wanted[name]) for name in wanted)
    assert t5x_like.from_pretrained(tmp_path / "out").config == case.pretrained.config
