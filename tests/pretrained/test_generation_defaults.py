"""``generation_config.json``: its settings are defaults, and those that ``generate`` lacks are named."""

import json
import shutil

import numpy as np
import pytest

import t5x_like
from t5x_like.pretrained.transformers_api.generation_defaults import with_defaults
from tests.references import FIXTURES

NOTHING = dict.fromkeys([
    "max_new_tokens", "max_length", "num_beams", "length_penalty", "early_stopping", "num_return_sequences",
    "do_sample", "temperature", "top_k", "top_p",
])  # fmt: skip


def chosen(settings, **arguments):
    return with_defaults({**NOTHING, **arguments}, settings, where="model")


def test_arguments_come_before_the_file_and_the_file_before_defaults():
    settings = {"num_beams": 4, "length_penalty": 2.0, "max_length": 12}
    values = chosen(settings, num_beams=2, max_new_tokens=3)
    assert (values["num_beams"], values["length_penalty"], values["top_k"]) == (2, 2.0, 50)
    assert (values["max_new_tokens"], values["max_length"]) == (3, None)
    assert chosen(settings)["max_length"] == 12


def test_settings_of_sampling_are_unused_without_it():
    settings = {"temperature": 0.6, "top_p": 0.9}
    assert chosen(settings)["temperature"] == 1.0
    assert chosen({**settings, "do_sample": True})["top_p"] == 0.9


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"encoder_no_repeat_ngram_size": 3}, "encoder_no_repeat_ngram_size=3"),
        ({"diversity_penalty": 0.5, "num_beam_groups": 2}, "num_beam_groups=2, diversity_penalty=0.5"),
        ({"no_repeat_ngram_size": 3, "min_length": 56, "stop_strings": [], "min_p": 0.0}, ""),
    ],
)
def test_settings_that_generate_lacks_are_named(caplog, settings, named):
    chosen(settings)
    assert (f"model asks for {named}" in caplog.text) if named else not caplog.records


def test_a_part_of_a_token_is_not_kept():
    model = t5x_like.from_pretrained(FIXTURES / "models/llama")
    with pytest.raises(ValueError, match=r"top_k is 2\.5; keep a whole number"):
        model.generate([[5]], do_sample=True, top_k=2.5, max_new_tokens=2)


def test_a_model_generates_by_its_file_and_its_export_keeps_it(tmp_path):
    home = shutil.copytree(FIXTURES / "models/llama", tmp_path / "model")
    (home / "generation_config.json").write_text(json.dumps({"num_beams": 3, "max_new_tokens": 5}))
    model, plain = t5x_like.from_pretrained(home), t5x_like.from_pretrained(FIXTURES / "models/llama")
    prompt = [[5, 6, 7]]
    by_file = model.generate(prompt)
    assert by_file.shape == (1, 8)
    np.testing.assert_array_equal(by_file, plain.generate(prompt, num_beams=3, max_new_tokens=5))
    t5x_like.export_hugging_face(model, tmp_path / "export")
    assert json.loads((tmp_path / "export/generation_config.json").read_text())["num_beams"] == 3
