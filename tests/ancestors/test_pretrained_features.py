"""Features of a pretrained model (CoVe): frozen, recorded, resumed, and refused where they don't fit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.ancestors.families.pretrained_features import FeatureMix, FeaturesConfig
from t5x_like.ancestors.families.rnn_encoder import FEATURES_PENALTY
from t5x_like.ancestors.initial_features import CheckpointFeatures
from t5x_like.ancestors.word_vectors.vector_files import write_vectors
from t5x_like.ancestors.word_vectors.word_vectors import WordVectors
from t5x_like.ancestors.zoo.awd_lstm import AWDLSTMConfig
from t5x_like.ancestors.zoo.bcn import BCNConfig
from t5x_like.ancestors.zoo.bilstm import BiLSTMConfig
from t5x_like.ancestors.zoo.elmo import ElmoConfig
from t5x_like.ancestors.zoo.rnn_seq2seq import RNNSeq2SeqConfig
from t5x_like.batch import Batch
from t5x_like.cli.preflight import preflight
from t5x_like.io.files import read_json, read_jsonl, write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.optimizers import Adafactor
from t5x_like.pretrained.model_config import read_model_config
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.experiment import Experiment
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.model.hidden_states import hidden_states
from tests.training.experiments import experiment_of

WORDS = ("one", "two", "three", "four", "five", "six")
TRANSLATOR = RNNSeq2SeqConfig(
    vocab_size=128, model_dim=8, hidden_dim=6, num_layers=1, encoder_direction="both", attention="general"
)
CLASSIFIER = BCNConfig(
    vocab_size=128,
    model_dim=8,
    input_dim=8,
    hidden_dim=6,
    integrator_dim=4,
    maxout_dims=(6, 4),
    num_labels=2,
)

ENCODER_DECODER = T5Config(
    vocab_size=128,
    model_dim=8,
    mlp_dim=8,
    num_heads=1,
    head_dim=8,
    num_encoder_layers=1,
    num_decoder_layers=1,
)

ELMO = ElmoConfig(
    vocab_size=128, model_dim=6, hidden_dim=8, character_dim=4, filters=((1, 4), (2, 4)), num_highway_layers=1
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with texts, two vocabularies, and a translator that was trained for a step."""
    folder = tmp_path_factory.mktemp("features")
    lines = [" ".join(WORDS[n:] + WORDS[:n]) for n in range(6)]
    rows = [
        f"{line}\t{' '.join(reversed(line.split()))}\t{'high' if n > 2 else 'low'}"
        for n, line in enumerate(lines)
    ]
    (folder / "text.tsv").write_text("\n".join(["text\tturned\tkind", *rows]) + "\n")
    for name, words in (("mine", WORDS), ("other", WORDS[::-1])):
        pieces = ["<pad>", "</s>", "<unk>", *words]
        fields = {"format": "t5x_like words", "lower_case": True, "punctuation_apart": True}
        write_json(folder / f"{name}.json", fields | {"pieces": pieces})
    train(translation(folder))
    return folder


def experiment(folder: Path, task: TextTask, **changes: Any) -> Experiment:
    settings: dict[str, Any] = {
        "train": LoaderConfig(mixture=task.name, batch_size=8, inputs_length=8, targets_length=8, pack=False),
        "tasks": (task,),
        "optimizer": Adafactor(learning_rate=0.1),
        "intervals": Intervals(log_every_steps=1, evaluate_every_steps=0, save_every_steps=1),
        "total_steps": 1,
    }
    return experiment_of(**(settings | changes))


def translation(folder: Path, **changes: Any) -> Experiment:
    task = TextTask(
        name="turning",
        vocabulary=str(folder / "mine.json"),
        files={"train": str(folder / "text.tsv")},
        input_template="{text}",
        target_template="{turned}",
    )
    return experiment(
        folder, task, **({"model": TRANSLATOR, "model_dir": str(folder / "translator")} | changes)
    )


def classification(folder: Path, vocabulary: str = "mine", **changes: Any) -> Experiment:
    task = TextTask(
        name=f"kinds_{vocabulary}",
        vocabulary=str(folder / f"{vocabulary}.json"),
        files={"train": str(folder / "text.tsv")},
        input_template="{text}",
        target_template="{kind}",
        labels=("low", "high"),
        num_sentinels=0,
    )
    settings: dict[str, Any] = {
        "model": CLASSIFIER,
        "model_dir": str(folder / "classifier"),
        "features": CheckpointFeatures(start_from=str(folder / "translator")),
        "train": LoaderConfig(
            mixture=task.name, batch_size=8, inputs_length=8, targets_length=2, layout="encoder"
        ),
    }
    return experiment(folder, task, **(settings | changes))


@pytest.mark.slow
def test_features_are_the_translators_outputs_and_only_the_rest_is_trained(folder):
    run_experiment = classification(folder)
    assert preflight(run_experiment).problems == []
    train(run_experiment)
    run = folder / "classifier"
    pretrained, classifier = open_checkpoint(folder / "translator"), open_checkpoint(run)
    flat, own = parameters.flatten(classifier.params), parameters.flatten(pretrained.params)
    inside = {
        path.removeprefix("features/model/"): leaf for path, leaf in flat.items() if "features/" in path
    }
    assert inside.keys() == own.keys()
    for path, leaf in own.items():
        np.testing.assert_array_equal(inside[path], leaf)
    record = read_json(run / "frozen.json")
    assert set(record["checksums"]) == {f"features/model/{path}" for path in own}
    inputs = record.pop("inputs")
    assert (record["start_from"], inputs["features"]) == (None, str(folder / "translator"))
    assert inputs["features_step"] == 1
    del inputs["is"]
    write_json(run / "frozen.json", record | inputs)  # as earlier versions wrote it
    again = parameters.flatten(open_checkpoint(run).params)
    assert all(np.array_equal(again[path], leaf) for path, leaf in flat.items())

    tokens = jnp.array([[3, 4, 5, 0]])
    batch = Batch(encoder_input_tokens=tokens, encoder_segment_ids=(tokens > 0).astype(jnp.int32))
    features = parameters.merge(classifier.graphdef, classifier.params).features(batch)
    wanted = parameters.merge(pretrained.graphdef, pretrained.params)(batch).encoder_output
    np.testing.assert_array_equal(features.inputs, wanted)
    assert features.outputs is None


@pytest.mark.slow
def test_the_configuration_with_the_pretrained_model_in_it_is_read_back(folder):
    train(classification(folder))
    config = read_model_config(folder / "classifier")
    assert config.features.model == read_model_config(folder / "translator")
    assert config.features.dim == 12
    assert config == open_checkpoint(folder / "classifier").config


@pytest.mark.slow
def test_a_stopped_run_continues_with_its_features_to_the_same_weights(folder):
    train(classification(folder, total_steps=2, model_dir=str(folder / "whole")))
    train(classification(folder, total_steps=1, model_dir=str(folder / "cut")))
    train(classification(folder, total_steps=2, model_dir=str(folder / "cut")))
    whole, cut = (parameters.flatten(open_checkpoint(folder / name).params) for name in ("whole", "cut"))
    assert all(np.array_equal(whole[path], cut[path]) for path in whole)


@pytest.mark.slow
def test_features_change_predictions_and_may_be_trained_too(folder):
    train(classification(folder, model_dir=str(folder / "tuned"), trainable=("*",)))
    assert not (folder / "tuned/frozen.json").exists()
    tuned = parameters.flatten(open_checkpoint(folder / "tuned").params)
    before = parameters.flatten(open_checkpoint(folder / "translator").params)
    kernel = "encoder/layers/0/forward/input/kernel"
    assert not np.array_equal(tuned[f"features/model/{kernel}"], before[kernel])


@pytest.mark.slow
def test_word_vectors_go_into_the_models_own_table_and_not_into_that_of_the_features(folder):
    vectors = WordVectors(WORDS, np.full((6, 8), 0.5, np.float32))
    write_vectors(folder / "vectors.txt", vectors)
    changes = {"word_vectors": str(folder / "vectors.txt"), "model_dir": str(folder / "with_vectors")}
    train(classification(folder, trainable=("heads/*",), **changes))
    flat = parameters.flatten(open_checkpoint(folder / "with_vectors").params)
    np.testing.assert_array_equal(flat["embedding/tokens/table"][3:9], vectors.table)
    assert not np.allclose(flat["features/model/embedding/tokens/table"][3:9], vectors.table)


@pytest.mark.slow
def test_a_missing_or_changed_translator_is_named_when_the_classifier_is_opened(folder, tmp_path):
    run, elsewhere = str(folder / "classifier_of_a_copy"), tmp_path / "translator"
    train(translation(folder, model_dir=str(elsewhere)))
    train(classification(folder, model_dir=run, features=CheckpointFeatures(start_from=str(elsewhere))))
    elsewhere.rename(tmp_path / "moved")
    with pytest.raises(ValueError, match=r"translator, which can't be opened.*a copy as features in"):
        open_checkpoint(run)
    train(translation(folder, model_dir=str(elsewhere), seed=7))
    with pytest.raises(
        ValueError, match=r"fresh weights drawn from seed 0 with .*translator, which have changed"
    ):
        open_checkpoint(run)


@pytest.mark.slow
def test_features_that_do_not_fit_are_refused_before_training(folder, tmp_path):
    features = CheckpointFeatures(start_from=str(folder / "translator"))
    cases = {
        "another vocabulary than the tasks": {"vocabulary": "other"},
        "takes no features of another model": {"model": ENCODER_DECODER},
        "nowhere": {"features": CheckpointFeatures(start_from=str(tmp_path / "nowhere"))},
    }
    for message, changes in cases.items():
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            train(classification(folder, model_dir=str(tmp_path / "run"), **changes))
        assert not (tmp_path / "run/config.json").exists()
    with pytest.raises(ValueError, match="give one of the two"):
        classification(folder, features=features, start_from=str(folder / "classifier"))


@pytest.mark.parametrize(
    ("pretrained", "dim"),
    [
        (BiLSTMConfig(vocab_size=128, model_dim=8, hidden_dim=5, task="base"), 10),
        pytest.param(
            AWDLSTMConfig(vocab_size=128, model_dim=8, hidden_dim=6, num_layers=2), 8, marks=pytest.mark.slow
        ),
        pytest.param(ENCODER_DECODER, 8, marks=pytest.mark.slow),
        (ELMO, 12),
    ],
    ids=["encoder", "decoder", "encoder_decoder", "elmo"],
)
def test_any_family_gives_features(pretrained, dim):
    model = replace(CLASSIFIER, features=FeaturesConfig(model=pretrained)).build(jax.random.key(0))
    batch = Batch(encoder_input_tokens=jnp.array([[3, 4, 5]]))
    assert model.features(batch).inputs.shape == (1, 3, dim)
    assert np.isfinite(model(batch).heads["sequence_classification"]).all()


@pytest.mark.slow
def test_a_mix_weighs_all_layers_in_each_place_and_its_weights_are_trained(folder):
    mix = FeatureMix(places=("inputs", "outputs"), l2_weight=0.5, dropout_rate=0.0)
    features = CheckpointFeatures(start_from=str(folder / "translator"), mix=mix)
    train(classification(folder, features=features, model_dir=str(folder / "mixed")))
    opened = open_checkpoint(folder / "mixed")
    trained = set(parameters.flatten(opened.params)) - set(
        read_json(folder / "mixed/frozen.json")["checksums"]
    )
    names = {f"features/mixes/{place}/{name}" for place in mix.places for name in ("weights", "gamma")}
    assert {path for path in trained if path.startswith("features/")} == names
    line = next(line for line in read_jsonl(folder / "mixed/metrics.jsonl") if line["split"] == "train")
    assert line["features_penalty"] == 0.0  # fresh weights are zeros
    assert line["loss"] > 0

    model = parameters.merge(opened.graphdef, opened.params)
    batch = Batch(encoder_input_tokens=jnp.array([[3, 4, 5]]))
    hidden = hidden_states(model.features.model, batch)["encoder"]
    result, wanted = model.features(batch), {}
    for place in mix.places:
        layer = model.features.mixes[place]
        weights = np.exp(np.asarray(layer.weights[...]))
        weights /= weights.sum()
        wanted[place] = float(layer.gamma[...]) * np.einsum("n,nbld->bld", weights, np.asarray(hidden))
    np.testing.assert_allclose(result.inputs, wanted["inputs"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result.outputs, wanted["outputs"], rtol=1e-5, atol=1e-6)
    assert not np.allclose(result.inputs, result.outputs)
    assert model(batch).encoder_output.shape[-1] == CLASSIFIER.parts.outputs_dim + features_dim(opened.config)
    squares = sum(float(jnp.sum(model.features.mixes[place].weights[...] ** 2)) for place in mix.places)
    np.testing.assert_allclose(result.penalty, 0.5 * squares, rtol=1e-5)
    np.testing.assert_allclose(
        model(batch).extra_losses[FEATURES_PENALTY].total, 3 * result.penalty, rtol=1e-5
    )


def features_dim(config: Any) -> int:
    return config.features.dim_at("outputs")


@pytest.mark.parametrize("places", [(), ("inputs", "inputs")])
def test_places_of_a_mix_are_checked(places):
    with pytest.raises(ValueError, match="give 'inputs', 'outputs' or both"):
        FeatureMix(places=places)
