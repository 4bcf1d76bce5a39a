"""One way to open weights, whatever wrote them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import t5x_like
from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.io.files import write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.finite_weights import NotNumbersError
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.model_config import write_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint, open_unread
from t5x_like.pretrained.weight_sources import checkpoint_format, read_config
from tests.model.zoo.tiny_models import TINY

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "in", "the", "begin", "##ning"]
SIZES: Any = {"vocab_size": 32, "model_dim": 8, "mlp_dim": 8, "num_heads": 2, "num_layers": 1}
GPT2 = GPT2Config(**SIZES, max_position_embeddings=12)
BERT = BertConfig(**SIZES, max_position_embeddings=12, task="sequence_classification", num_labels=2)


def weights(config, seed=0):
    return parameters.split(jax.jit(config.build)(jax.random.key(seed)))[1]


def write_run(directory, config, *, steps=(3, 7), home="checkpoints"):
    """A run whose weights at a step are those of the seed of that number."""
    write_model_config(directory, config)
    with Checkpoints(directory / home) as checkpoints:
        for step in steps:
            checkpoints.save(step, {"params": weights(config, step)})
    return directory


def same(left, right):
    return all(map(np.array_equal, jax.tree.leaves(left), jax.tree.leaves(right)))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return write_run(tmp_path_factory.mktemp("gpt2") / "run", GPT2)


@pytest.fixture
def published(tmp_path) -> Path:
    write_hugging_face(BERT, weights(BERT), tmp_path / "bert", classes=("no", "yes"))
    (tmp_path / "bert/vocab.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path / "bert"


@pytest.mark.parametrize(
    ("part", "step", "result"),
    [
        ("", None, 7),
        ("", 3, 3),
        ("checkpoints", None, 7),
        ("checkpoints/3", None, 3),
        ("checkpoints/7", None, 7),
    ],
)
def test_a_run_its_checkpoints_and_each_step_are_opened(run, part, step, result):
    checkpoint = open_checkpoint(run / part, step=step)
    assert (checkpoint.config, checkpoint.step, checkpoint.kind) == (GPT2, result, "decoder")
    assert Path(checkpoint.directory) == run
    assert same(checkpoint.params, weights(GPT2, result))


def test_the_steps_of_a_conversion_are_opened_too(tmp_path):
    converted = write_run(tmp_path / "run", GPT2, steps=(0,), home=".")
    assert same(open_checkpoint(converted / "0").params, weights(GPT2, 0))


def test_every_step_has_an_identity_of_its_own(run, published):
    one, two = (open_checkpoint(run, step=step) for step in (3, 7))
    other = open_checkpoint(published)
    assert len({one.identity, two.identity, other.identity}) == 3
    assert open_checkpoint(run).identity == two.identity
    assert one.num_parameters == sum(leaf.size for leaf in jax.tree.leaves(weights(GPT2)))


def test_weights_lie_on_the_mesh(run):
    mesh = MeshConfig(fsdp=-1, data=1).build()
    checkpoint = open_checkpoint(run, mesh=mesh)
    assert checkpoint.mesh == mesh
    assert {leaf.sharding.mesh for leaf in jax.tree.leaves(checkpoint.params)} == {mesh}
    assert open_checkpoint(run).mesh.size == 1


def test_a_hugging_face_directory_brings_its_tokenizer_ids_and_classes(published):
    checkpoint = open_checkpoint(published, needs_tokenizer=True)
    assert (checkpoint.kind, checkpoint.step, checkpoint.class_names) == ("encoder", None, ("no", "yes"))
    assert checkpoint.tokenizer.encode("in the beginning") == [5, 6, 7, 8]
    assert (checkpoint.max_positions, checkpoint.prompt_encoder.prefix_ids) == (12, (2,))
    assert same(checkpoint.params, weights(BERT))


def test_without_a_tokenizer_there_is_none_until_it_is_needed(run):
    checkpoint = open_checkpoint(run)
    assert checkpoint.found_tokenizer is None
    message = "has no vocabulary next to its weights; name one: vocabulary=PATH"
    with pytest.raises(ValueError, match=message):
        _ = checkpoint.tokenizer
    with pytest.raises(ValueError, match=message):
        open_checkpoint(run, needs_tokenizer=True)


def test_a_tokenizer_by_name_takes_the_place_of_the_one_beside_the_weights(published):
    checkpoint = open_checkpoint(published)
    other = published / "other.txt"
    other.write_text("\n".join([*WORDS, "more"]) + "\n")
    (published.parent / "vocabulary").mkdir()
    other.rename(published.parent / "vocabulary/vocab.txt")
    named = open_checkpoint(published, vocabulary=str(published.parent / "vocabulary"))
    assert named.tokenizer.vocab_size == checkpoint.tokenizer.vocab_size + 1


def test_a_tokenizer_with_more_ids_than_embeddings_is_refused(published):
    (published / "vocab.txt").write_text("\n".join([*WORDS, *(f"word{n}" for n in range(60))]) + "\n")
    with pytest.raises(
        ValueError, match=r"has 69 ids, its model embeddings for 32: they don't belong together"
    ):
        open_checkpoint(published, needs_tokenizer=True)


def test_a_decoder_that_was_trained_here_begins_with_what_it_was_trained_after(run, tmp_path):
    trained = write_run(tmp_path / "run", GPT2, steps=(1,))
    write_json(trained / "config.json", {"tasks.0.num_sentinels": 0, "train.mixture": "x"})
    checkpoint = open_checkpoint(trained)
    assert (checkpoint.special_ids.bos, checkpoint.special_ids.decoder_start) == (0, 0)


@pytest.mark.parametrize(("kind", "begin"), [("TextTask", None), ("PretrainingTask", 0)])
def test_nothing_is_read_before_inputs_that_a_decoder_read_in_order(
    tmp_path: Path, kind: str, begin: int | None
) -> None:
    trained = write_run(tmp_path / "run", GPT2, steps=(1,))
    write_json(trained / "config.json", {"tasks.0.is": kind, "train.prefix_attention": "causal"})
    assert open_checkpoint(trained).special_ids.bos == begin


def test_a_step_of_what_has_no_steps_is_refused(published):
    with pytest.raises(ValueError, match="bert is no run, it has no steps; leave step out"):
        open_checkpoint(published, step=3)


def test_a_step_that_is_not_there_is_named(run):
    with pytest.raises(FileNotFoundError, match="has no usable checkpoint of step 5"):
        open_checkpoint(run, step=5)


def test_weights_that_are_no_numbers_are_refused_unless_they_are_wanted(tmp_path):
    bad = weights(GPT2)
    bad["embedding"]["tokens"] = jax.tree.map(
        lambda leaf: leaf.at[0].set(jnp.nan), bad["embedding"]["tokens"]
    )
    write_model_config(tmp_path, GPT2)
    with Checkpoints(tmp_path / "checkpoints") as checkpoints:
        checkpoints.save(5, {"params": bad})
    with pytest.raises(NotNumbersError, match=r", step 5: weights are NaN or infinite \(embedding/tokens"):
        open_checkpoint(tmp_path)
    assert not same(open_checkpoint(tmp_path, finite=False).params, weights(GPT2))


def test_what_is_no_checkpoint_is_named(tmp_path):
    for open_it in (open_checkpoint, read_config, checkpoint_format):
        with pytest.raises(ValueError, match=r"holds no model: give a run's directory \(with model.json\)"):
            open_it(tmp_path)


def test_steps_without_their_run_are_opened_for_a_given_model(run, tmp_path):
    (run / "checkpoints/3").rename(tmp_path / "3")
    try:
        assert same(open_checkpoint(tmp_path / "3", config=GPT2).params, weights(GPT2, 3))
        with pytest.raises(ValueError, match=r"params/\S+/feed_forward/down/kernel has shape"):
            open_checkpoint(tmp_path / "3", config=replace(GPT2, mlp_dim=16))
    finally:
        (tmp_path / "3").rename(run / "checkpoints/3")


def test_a_model_of_the_same_weights_that_computes_something_else_is_refused(published):
    with pytest.raises(ValueError, match=r"(?s)of another model:.*activation: 'gelu' there, 'relu' here"):
        open_checkpoint(published, config=replace(BERT, activation="relu"))
    with pytest.raises(ValueError, match="holds a BertConfig, but the run's model is a GPT2Config"):
        open_checkpoint(published, config=GPT2)


def test_another_head_is_drawn_from_the_seed_and_the_rest_is_kept(tmp_path, published):
    run = write_run(tmp_path / "run", BERT)
    for directory in (run, published):
        with pytest.warns(
            UserWarning, match="freshly drawn from seed 4, so train this head before you use it"
        ):
            checkpoint = open_checkpoint(
                directory, head="token_classification", num_labels=5, draw_heads=True, seed=4
            )
        with pytest.raises(ValueError, match=r"lacks .*which a model for token classification needs"):
            open_checkpoint(directory, head="token_classification", num_labels=5)
        actual, reference = (
            parameters.flatten(params)
            for params in (checkpoint.params, weights(BERT, 7 * (directory == run)))
        )
        assert checkpoint.config == replace(BERT, task="token_classification", num_labels=5)
        kept = [path for path in actual if not path.startswith("heads/")]
        assert kept
        assert all(np.array_equal(actual[path], reference[path]) for path in kept)
        assert actual["heads/scores/token_classification/projection/kernel"].shape == (8, 5)


def test_lazy_weights_are_read_from_disk_when_they_are_asked_for(run, published):
    for directory, expected in ((run, weights(GPT2, 7)), (published, weights(BERT))):
        with open_unread(directory) as checkpoint:
            assert same(jax.tree.map(np.asarray, checkpoint.params), expected)


def test_from_pretrained_opens_runs_as_well(run):
    ids = np.array([[1, 2, 3]])
    model = t5x_like.from_pretrained(run, step=3)
    expected = open_checkpoint(run, step=3)
    logits = t5x_like.from_pretrained(run)(input_ids=ids).logits
    assert logits.shape == (1, 3, 32)
    assert not np.array_equal(model(input_ids=ids).logits, logits)
    assert same(expected.params, parameters.split(model.model)[1])
    assert model.generate(ids, max_new_tokens=2).shape == (1, 5)
    assert model.vocabulary is None


def test_a_published_model_and_its_conversion_answer_alike(tmp_path):
    config = TINY["bert"]
    params = weights(config)
    write_hugging_face(config, params, tmp_path / "bert")
    write_model_config(tmp_path / "run", config)
    with Checkpoints(tmp_path / "run") as checkpoints:
        checkpoints.save(0, {"params": params})
    ids = np.array([[4, 5, 6]])
    one, two = (t5x_like.from_pretrained(tmp_path / name)(input_ids=ids) for name in ("bert", "run"))
    np.testing.assert_array_equal(one.last_hidden_state, two.last_hidden_state)
