"""``generate`` with settings that change the next token's scores: transformers' tokens and scores of beams."""

import json
import shutil
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import t5x_like
from benchmarks.references.generation import check_call
from t5x_like.pretrained.transformers_api.logits_settings import NAMES
from tests.references import FIXTURES
from tests.slow_cases import slow_except

RECORDS = json.loads((FIXTURES / "generation/processors.json").read_text())


@pytest.fixture(scope="module")
def models():
    return {name: t5x_like.from_pretrained(FIXTURES / "models" / name) for name in ("bart", "llama")}


# Slow are beams of BART under settings that LLaMA writes by too.
ALWAYS = [each for each in RECORDS if each["model"] == "llama" or "forced_bos_token_id" in each["settings"]]


@pytest.mark.parametrize(
    "record",
    slow_except(RECORDS, ALWAYS),
    ids=[f"{each['model']}-{json.dumps(each['settings'])}" for each in RECORDS],
)
def test_tokens_and_scores_equal_those_of_transformers(models, record):
    check_call(models[record["model"]], record)


def test_every_setting_has_a_record():
    assert set(NAMES) - {"renormalize_logits"} <= {name for record in RECORDS for name in record["settings"]}


def test_renormalized_beams_are_those_of_a_model_that_never_had_the_banned_token(models, tmp_path):
    """Marian's models wrote so before transformers had the setting: https://github.com/huggingface/transformers/pull/25459."""
    home = shutil.copytree(FIXTURES / "models/bart", tmp_path / "model")
    tensors = load_file(home / "model.safetensors")
    tensors["final_logits_bias"] = np.zeros_like(tensors["final_logits_bias"])
    settings: dict[str, Any] = {
        "num_beams": 3,
        "num_return_sequences": 3,
        "max_new_tokens": 12,
        "return_dict_in_generate": True,
    }
    prompts = [[5, 9, 23, 11, 40, 2], [33, 8, 8, 19, 52, 2]]
    banned: dict[str, Any] = {"bad_words_ids": [[28], [18]]}
    tensors["final_logits_bias"][0, [28, 18]] = -1e9
    save_file(tensors, home / "model.safetensors", metadata={"format": "pt"})
    wanted = t5x_like.from_pretrained(home).generate(prompts, **settings)
    got = models["bart"].generate(prompts, **settings, **banned, renormalize_logits=True)
    np.testing.assert_array_equal(got.sequences, wanted.sequences)
    np.testing.assert_allclose(got.sequences_scores, wanted.sequences_scores, rtol=2e-5)
    others = models["bart"].generate(prompts, **settings, **banned)
    assert np.abs(others.sequences_scores - wanted.sequences_scores).max() > 0.01


def test_marians_files_ask_for_renormalized_beams(models, tmp_path):
    home = shutil.copytree(FIXTURES / "models/bart", tmp_path / "model")
    settings: dict[str, Any] = {
        "num_beams": 3,
        "max_new_tokens": 12,
        "bad_words_ids": [[28]],
        "renormalize_logits": True,
    }
    (home / "generation_config.json").write_text(json.dumps(settings))
    prompt: list[list[int]] = [[5, 9, 23, 11, 40, 2]]
    scores: dict[str, Any] = {"return_dict_in_generate": True}
    wanted = models["bart"].generate(prompt, **settings, **scores).sequences_scores
    got = t5x_like.from_pretrained(home).generate(prompt, **scores).sequences_scores
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("num_beams", "on_the_left"), [(1, True), pytest.param(2, False, marks=pytest.mark.slow)]
)
def test_padding_counts_as_no_token(models, num_beams, on_the_left):
    llama = models["llama"]
    settings = {
        "repetition_penalty": 1.5,
        "no_repeat_ngram_size": 2,
        "max_new_tokens": 8,
        "num_beams": num_beams,
    }
    alone = llama.generate([[33, 8, 8]], **settings)[0, 3:]
    short, mask = ([0, 0, 33, 8, 8], [0, 0, 1, 1, 1]) if on_the_left else ([33, 8, 8, 0, 0], [1, 1, 1, 0, 0])
    together = llama.generate([[5, 9, 23, 11, 40], short], [[1] * 5, mask], **settings)
    np.testing.assert_array_equal(together[1, 5 : 5 + len(alone)], alone)


def test_sampling_obeys_them(models):
    rows = models["llama"].generate(
        [[5, 9, 23]],
        do_sample=True,
        num_return_sequences=4,
        max_new_tokens=20,
        no_repeat_ngram_size=1,
        temperature=0.5,
    )
    end = models["llama"].special_ids.eos
    for row in rows.tolist():
        written = row[: row.index(end)] if end in row else row
        assert len(set(written)) == len(written)


def test_a_summarizer_writes_by_its_file(models, tmp_path):
    record = next(
        each for each in RECORDS if {"no_repeat_ngram_size", "num_beams"} <= each["settings"].keys()
    )
    home = shutil.copytree(FIXTURES / "models" / record["model"], tmp_path / "model")
    (home / "generation_config.json").write_text(json.dumps(record["settings"]))
    np.testing.assert_array_equal(
        t5x_like.from_pretrained(home).generate(record["prompts"]), record["sequences"]
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"repetition_penalty": 0}, "repetition_penalty is 0; give a positive, finite number"),
        ({"no_repeat_ngram_size": 2.5}, "no_repeat_ngram_size is 2.5; give a whole number"),
        ({"min_new_tokens": -1}, "min_new_tokens is -1; give a whole number of tokens, 0 or more"),
        ({"bad_words_ids": [5]}, r"bad_words_ids is \[5\]; give a list of lists of ids"),
        ({"bad_words_ids": [[]]}, r"bad_words_ids is \[\[\]\]; give a list of lists of ids"),
        ({"renormalize_logits": "yes"}, "renormalize_logits is 'yes'; give True or False"),
        ({"suppress_tokens": 5}, "suppress_tokens is 5; give a list of ids"),
        ({"forced_bos_token_id": 61}, "forced_bos_token_id holds 61; the model has the ids 0 … 60"),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "min_new_tokens=9 is more than the 8 new tokens"),
    ],
)
def test_settings_out_of_their_range_are_refused(models, settings, message):
    with pytest.raises(ValueError, match=message):
        models["llama"].generate([[5]], **{"max_new_tokens": 4, **settings})


def test_an_unknown_setting_gets_a_suggestion(models):
    with pytest.raises(TypeError, match="did you mean 'no_repeat_ngram_size'"):
        models["llama"].generate([[5]], no_repeat_ngram=3)


@pytest.mark.parametrize("seed", [2**32, 2**64, -1, 1.5, [3, 2**32]])
def test_a_seed_of_which_jax_would_keep_the_last_bits_is_refused(models, seed):
    with pytest.raises(ValueError, match=r"seed is .*; give a whole number, 0 … 4294967295"):
        models["llama"].generate([[5, 9]] * 2, do_sample=True, max_new_tokens=2, seed=seed)
    assert models["llama"].generate([[5]], do_sample=True, max_new_tokens=2, seed=2**32 - 1).shape == (1, 3)
