"""One copy of the weights, and texts in place of ids, for models of each family."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import t5x_like
from t5x_like.io.files import shipped_directory
from t5x_like.model import parameters
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from tests.model.zoo.tiny_models import TINY

VERSE = "In the beginning God created the heaven and the earth."
T5 = T5Config(
    vocab_size=4224,
    model_dim=16,
    mlp_dim=24,
    num_heads=2,
    head_dim=8,
    num_encoder_layers=1,
    num_decoder_layers=1,
)
GPT2 = GPT2Config(
    vocab_size=4224, model_dim=16, mlp_dim=32, num_heads=2, num_layers=1, max_position_embeddings=64
)
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "in", "the", "begin", "##ning")


def write(config, directory):
    """Writes a model with fresh weights in Hugging Face's layout."""
    params = jax.jit(lambda key: parameters.split(config.build(key))[1])(jax.random.key(0))
    write_hugging_face(config, params, directory)
    return directory


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, config in {"t5": T5, "gpt2": GPT2}.items():
        write(config, folder / name)
        shutil.copy(shipped_directory("data") / "vocabulary/spiece.model", folder / name / "spiece.model")
    write(TINY["bert"], folder / "bert")
    (folder / "bert/vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@pytest.fixture(scope="module")
def t5(folder):
    return t5x_like.from_pretrained(folder / "t5")


@pytest.fixture(scope="module")
def gpt2(folder):
    return t5x_like.from_pretrained(folder / "gpt2")


@pytest.fixture(scope="module")
def bert(folder):
    return t5x_like.from_pretrained(folder / "bert")


def test_training_its_model_changes_calls_generation_and_exports_alike(folder, tmp_path):
    pretrained = t5x_like.from_pretrained(folder / "t5")
    ids = pretrained.encode(VERSE)["input_ids"]
    before = pretrained(input_ids=ids, labels=ids)
    pretrained.generate(VERSE, max_new_tokens=3)
    state = nnx.state(pretrained.model)
    nnx.update(pretrained.model, jax.tree.map(lambda leaf: jnp.full_like(leaf, 0.01), state))
    now = pretrained(input_ids=ids, labels=ids)
    assert not np.allclose(now.logits, before.logits)
    t5x_like.export_hugging_face(pretrained, tmp_path / "export")
    exported = t5x_like.from_pretrained(tmp_path / "export")
    np.testing.assert_array_equal(exported(input_ids=ids, labels=ids).logits, now.logits)
    assert exported.generate(VERSE, max_new_tokens=3) == pretrained.generate(VERSE, max_new_tokens=3)
    leaves = jax.tree.leaves(pretrained.checkpoint.params)
    assert all(bool((leaf == 0.01).all()) for leaf in leaves)


def test_the_model_may_be_replaced(folder):
    pretrained = t5x_like.from_pretrained(folder / "t5")
    ids = pretrained.encode(VERSE)["input_ids"]
    pretrained.model = T5.build(jax.random.key(1))
    other = pretrained(input_ids=ids, decoder_input_ids=ids).logits
    assert not np.allclose(
        other, t5x_like.from_pretrained(folder / "t5")(input_ids=ids, decoder_input_ids=ids).logits
    )


def test_its_representation_says_what_it_is(t5, folder):
    shown = repr(t5)
    assert shown.startswith("Pretrained(T5, task sequence_to_sequence_lm, ")
    assert "4,100 token ids" in shown
    assert str(folder / "t5") in shown


def test_a_text_is_encoded_with_the_models_special_ids(t5, gpt2, bert):
    assert t5.encode(VERSE)["input_ids"][0, -1] == 1
    assert t5.decode(t5.encode(VERSE)["input_ids"]) == [VERSE]
    assert 1 not in gpt2.encode(VERSE)["input_ids"]
    assert bert.encode("In the beginning")["input_ids"].tolist() == [[2, 5, 6, 7, 8, 3]]


def test_shorter_texts_are_padded_where_the_model_wants_it(t5, gpt2):
    texts = ["In", VERSE]
    assert t5.encode(texts)["attention_mask"][0, 0] == 1
    assert t5.encode(texts)["attention_mask"][0, -1] == 0
    assert gpt2.encode(texts)["attention_mask"][0, 0] == 0
    assert gpt2.encode(texts)["attention_mask"][0, -1] == 1


@pytest.mark.parametrize("name", ["t5", "gpt2"])
def test_texts_are_generated_alone_as_together(request, name):
    pretrained = request.getfixturevalue(name)
    texts = ["In the", VERSE]
    together = pretrained.generate(texts, max_new_tokens=6)
    assert together == [pretrained.generate(text, max_new_tokens=6) for text in texts]
    encoded = pretrained.encode(VERSE)
    ids = pretrained.generate(**encoded, max_new_tokens=6)[0]
    new = ids[encoded["input_ids"].shape[1] :] if name == "gpt2" else ids
    assert together[1] == pretrained.decode(new)


def test_several_texts_for_one_prompt_are_a_list(t5):
    generated = t5.generate(VERSE, max_new_tokens=4, num_beams=3, num_return_sequences=3)
    assert len(generated) == 3
    whole = t5.generate(VERSE, max_new_tokens=4, num_beams=3, return_dict_in_generate=True)
    assert whole.texts == generated[:1]


@pytest.mark.parametrize("name", ["t5", "gpt2", "bert"])
def test_texts_have_vectors(request, name):
    pretrained = request.getfixturevalue(name)
    texts = ["in the", "in the beginning"]
    vectors = pretrained.embed(texts)
    assert vectors.shape[0] == 2
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(pretrained.embed(texts[0]), vectors[0], rtol=1e-5, atol=1e-5)


def test_without_a_tokenizer_texts_are_refused(folder, tmp_path):
    for file in (folder / "t5").iterdir():
        if file.name != "spiece.model":
            shutil.copy(file, tmp_path / file.name)
    with pytest.raises(ValueError, match="has no vocabulary"):
        t5x_like.from_pretrained(tmp_path).generate(VERSE)
