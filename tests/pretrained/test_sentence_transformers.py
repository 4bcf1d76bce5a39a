"""Directories of sentence-transformers: vectors are pooled as their files say, and exports have the same files."""

import json

import numpy as np
import pytest

import t5x_like
from t5x_like.pretrained.sentence_transformers import find_sentence_transformer
from tests.model.zoo.tiny_models import TINY
from tests.pretrained.test_pretrained_model import WORDS, write
from tests.slow_cases import slow_except

TEXTS = ["in the", "the beginning in the beginning"]


def write_sentence_model(directory, *, modes=("mean_tokens",), kinds=("Pooling",), place="", max_length=None):
    """Makes a directory in the layout of ``SentenceTransformer.save``."""
    write(TINY["bert"], directory / place)
    (directory / place / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    paths = {"Pooling": "1_Pooling", "Normalize": "2_Normalize", "Dense": "2_Dense"}
    listed = [(place, "Transformer"), *((paths[kind], kind) for kind in kinds)]
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(listed)
    ]
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "1_Pooling").mkdir()
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens")
    fields = {f"pooling_mode_{name}": name in modes for name in names}
    (directory / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 32} | fields))
    if max_length:
        settings = {"max_seq_length": max_length, "do_lower_case": False}
        (directory / place / "sentence_bert_config.json").write_text(json.dumps(settings))
    return directory


def states_of(pretrained, text):
    """Returns the hidden states of a single text, [L, D]."""
    return pretrained(**pretrained.encode(text)).last_hidden_state[0]


@pytest.mark.parametrize(
    ("mode", "pooled"),
    [
        ("mean_tokens", lambda states: states.mean(0)),
        ("cls_token", lambda states: states[0]),
        ("max_tokens", lambda states: states.max(0)),
        (
            "weightedmean_tokens",
            lambda states: np.average(states, axis=0, weights=1 + np.arange(len(states))),
        ),
    ],
    ids=["mean", "cls", "max", "weightedmean"],
)
def test_texts_are_pooled_as_the_files_say(tmp_path, mode, pooled):
    pretrained = t5x_like.from_pretrained(write_sentence_model(tmp_path / "model", modes=(mode,)))
    vectors = pretrained.embed(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, pooled(states_of(pretrained, text)), atol=2e-5)
    assert not np.allclose(np.linalg.norm(vectors, axis=-1), 1.0, atol=1e-3)


def test_a_normalize_module_and_a_folder_for_the_model_are_read(tmp_path):
    directory = write_sentence_model(tmp_path / "m", kinds=("Pooling", "Normalize"), place="0_Transformer")
    vectors = t5x_like.from_pretrained(directory).embed(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1.0, rtol=1e-5)


def test_texts_are_cut_to_the_written_length(tmp_path):
    pretrained = t5x_like.from_pretrained(write_sentence_model(tmp_path / "model", max_length=5))
    assert pretrained.encode(TEXTS[1], max_length=5)["input_ids"].tolist() == [[2, 6, 7, 8, 3]]
    short = states_of(pretrained, "the beginning")  # [CLS] the begin ##ning [SEP]
    np.testing.assert_allclose(pretrained.embed(TEXTS[1]), short.mean(0), atol=2e-5)


def test_the_newer_form_is_read_too(tmp_path):
    directory = write_sentence_model(tmp_path / "model")
    fields = {"embedding_dimension": 32, "pooling_mode": "cls", "include_prompt": True}
    (directory / "1_Pooling/config.json").write_text(json.dumps(fields))
    (directory / "sentence_bert_config.json").write_text('{"transformer_task": "feature-extraction"}')
    (directory / "tokenizer_config.json").write_text('{"model_max_length": 5}')
    sentence_transformer = find_sentence_transformer(directory)
    assert sentence_transformer is not None
    assert sentence_transformer.embedding == t5x_like.SentenceEmbedding(
        pooling="first", normalized=False, max_length=5
    )
    (directory / "tokenizer_config.json").write_text(json.dumps({"model_max_length": int(1e30)}))
    assert find_sentence_transformer(directory).embedding.max_length is None


@pytest.mark.parametrize("pooling", ["mean", "first", "last", "max", "weighted_mean"])
@pytest.mark.parametrize("normalized", slow_except([True, False], [True]))
def test_an_export_embeds_as_the_model_did(tmp_path, pooling, normalized):
    pretrained = t5x_like.from_pretrained(write_sentence_model(tmp_path / "model"))
    pretrained.sentence_embedding = t5x_like.SentenceEmbedding(
        pooling=pooling, normalized=normalized, max_length=5, prompt="in "
    )
    t5x_like.export_hugging_face(pretrained, tmp_path / "out")
    opened = t5x_like.from_pretrained(tmp_path / "out")
    assert opened.sentence_embedding == pretrained.sentence_embedding
    np.testing.assert_array_equal(opened.embed(TEXTS), pretrained.embed(TEXTS))
    np.testing.assert_allclose(
        opened.embed(TEXTS[0]),
        pretrained.embed(pretrained.encode("in " + TEXTS[0], max_length=5)["input_ids"])[0],
        atol=2e-5,
    )
    types = [
        module["type"].rpartition(".")[2]
        for module in json.loads((tmp_path / "out/modules.json").read_text())
    ]
    assert types == ["Transformer", "Pooling", *(["Normalize"] if normalized else [])]


def test_the_first_dimensions_are_unit_vectors_again(tmp_path):
    pretrained = t5x_like.from_pretrained(
        write_sentence_model(tmp_path / "m", kinds=("Pooling", "Normalize"))
    )
    whole, short = pretrained.embed(TEXTS), pretrained.embed(TEXTS, dimensions=4)
    np.testing.assert_allclose(
        short, whole[:, :4] / np.linalg.norm(whole[:, :4], axis=-1)[:, None], rtol=1e-5
    )
    with pytest.raises(ValueError, match=r"dimensions is 33; give 1 to 32, the vectors' width"):
        pretrained.embed(TEXTS, dimensions=33)


def test_texts_in_batches_have_the_same_vectors_in_the_same_order(tmp_path):
    pretrained = t5x_like.from_pretrained(write_sentence_model(tmp_path / "model"))
    texts = ["in the", "the beginning in the beginning", "the"]
    np.testing.assert_allclose(
        pretrained.embed(texts, batch_size=2), pretrained.embed(texts), rtol=1e-5, atol=1e-5
    )
    with pytest.raises(ValueError, match="batch_size is 0; give 1 or more"):
        pretrained.embed(texts, batch_size=0)


def test_vectors_that_are_not_finite_are_refused():
    states = np.ones((3, 2, 4), np.float32)
    states[1, 0, 0] = np.nan
    with pytest.raises(ValueError, match="the vectors of rows 1 are NaN or infinite"):
        t5x_like.SentenceEmbedding().vectors(states, np.ones((3, 2), bool))


def test_other_directories_embed_and_export_as_before(tmp_path):
    write(TINY["bert"], tmp_path / "model")
    pretrained = t5x_like.from_pretrained(tmp_path / "model")
    assert pretrained.sentence_embedding is None
    np.testing.assert_allclose(np.linalg.norm(pretrained.embed(np.array([[4, 5]]))), 1.0, rtol=1e-5)
    t5x_like.export_hugging_face(pretrained, tmp_path / "out")
    assert not (tmp_path / "out/modules.json").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kinds": ("Pooling", "Dense")}, "lists the modules Transformer, Pooling, Dense; Transformer, Pooling and"),
        ({"modes": ("mean_tokens", "max_tokens")}, "pools by pooling_mode_mean_tokens, pooling_mode_max_tokens"),
        ({"modes": ("mean_sqrt_len_tokens",)}, "pools by pooling_mode_mean_sqrt_len_tokens; one of"),
        ({"modes": ()}, "pools by nothing"),
    ],
)  # fmt: skip
def test_what_would_give_other_vectors_is_refused(tmp_path, settings, message):
    with pytest.raises(ValueError, match=message):
        t5x_like.from_pretrained(write_sentence_model(tmp_path / "model", **settings))
