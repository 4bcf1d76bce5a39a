"""What we export, transformers loads: no key missing, none too many, the same scores.

Runs where torch and transformers are installed beside t5x_like: ``pip install torch==2.13.0 transformers``.
"""

import importlib.util
import json

import numpy as np
import pytest

import t5x_like
from tests.parity.fixtures import fixture, names

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("torch", "transformers")),
        reason="torch and transformers are not installed",
    ),
    pytest.mark.filterwarnings("ignore"),  # of their libraries
]

NOT_IN_TRANSFORMERS = ("glm_orig", "neobert")


@pytest.mark.parametrize("name", names())
def test_an_exported_model_loads_with_every_key_and_gives_the_same_scores(golden, tmp_path, name):
    if name.startswith(NOT_IN_TRANSFORMERS):
        pytest.skip("transformers has no such model")
    import torch
    import transformers

    case = fixture(name)
    t5x_like.export_hugging_face(case.pretrained, tmp_path / "out")
    class_name = json.loads((tmp_path / "out" / "config.json").read_text())["architectures"][0]
    model, info = getattr(transformers, class_name).from_pretrained(
        tmp_path / "out", output_loading_info=True, attn_implementation="eager"
    )
    assert not info["unexpected_keys"]
    if info["missing_keys"]:  # some versions miss tied copies in the reference's own file too
        kept = getattr(transformers, class_name).from_pretrained(case.directory, output_loading_info=True)[1]
        assert set(info["missing_keys"]) == set(kept["missing_keys"])
    inputs = {
        name: torch.tensor(np.asarray(value, np.int64))
        for name, value in case.inputs.items()
        if "labels" not in name
    }
    if "decoder_input_ids" in inputs:
        inputs["use_cache"] = False
    with torch.no_grad():
        reference = model.eval()(**inputs)
    actual = case.pretrained(**{name: value for name, value in case.inputs.items() if "labels" not in name})
    compared = 0
    for field in ("logits", "prediction_logits", "start_logits", "last_hidden_state"):
        if field in actual and reference.get(field) is not None:
            got, wanted = case.real(field, actual[field]), case.real(field, reference[field].numpy())
            np.testing.assert_allclose(got, wanted, atol=1e-4, rtol=1e-4, err_msg=field)
            compared += 1
    assert compared
