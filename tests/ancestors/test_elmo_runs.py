"""An ELMo from its vocabulary to its use: training, resuming, embedding, fine-tuning, commands, and refusals."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import t5x_like
from t5x_like.ancestors.bidirectional_lm import BidirectionalLM
from t5x_like.ancestors.layers.sampled_softmax import SampledSoftmax
from t5x_like.ancestors.word_vectors.character_table import character_table
from t5x_like.ancestors.zoo.elmo import ClusteredSoftmax, ElmoConfig
from t5x_like.cli.main import main
from t5x_like.cli.preflight import preflight
from t5x_like.evaluation.evaluator import HeadEvaluation
from t5x_like.io.files import read_json, write_json
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.optimizers.adagrad import Adagrad
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.heads.token_head import TokenClassification
from t5x_like.text.objectives.masked_lm import MaskedLM
from t5x_like.text.tasks.pretraining import PretrainingTask
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.text.vocabularies.opening import open_tokenizer
from t5x_like.training.experiment import Experiment
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.training.experiments import experiment_of

WORDS = ("one", "two", "three", "four", "five", "six")
STEPS = 45
MODEL = ElmoConfig(
    vocab_size=128,
    model_dim=16,
    hidden_dim=24,
    character_dim=8,
    filters=((1, 8), (2, 8), (3, 16)),
    num_highway_layers=1,
    dropout_rate=0.1,
    softmax=SampledSoftmax(num_samples=20),
)
TABLE = "embedding/character_ids"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("elmo")
    (folder / "text.txt").write_text("\n".join(" ".join(WORDS[n:] + WORDS[:n]) for n in range(6)) + "\n")
    pieces = ["<pad>", "</s>", "<unk>", *WORDS]
    words = {"format": "t5x_like words", "lower_case": True, "punctuation_apart": True, "pieces": pieces}
    write_json(folder / "mine.json", words)
    return folder


def experiment(folder: Path, name: str, **changes: Any) -> Experiment:
    text = str(folder / "text.txt")
    task = PretrainingTask(
        name=f"elmo_{name}",
        vocabulary=changes.pop("vocabulary", str(folder / "mine.json")),
        files={"train": text, "validation": text},
        objective=changes.pop("objective", BidirectionalLM()),
    )
    lengths = {"batch_size": 8, "inputs_length": 17, "targets_length": 8}
    settings: dict[str, Any] = {
        "model": MODEL,
        "train": LoaderConfig(mixture=task.name, **lengths),
        "validations": (LoaderConfig(mixture=task.name, split="validation", repeat=False, **lengths),),
        "tasks": (task,),
        "optimizer": Adagrad(learning_rate=0.3),
        "intervals": Intervals(log_every_steps=10, evaluate_every_steps=0, save_every_steps=0),
        "mesh": MeshConfig(),
        "model_dir": str(folder / name),
        "total_steps": STEPS,
    }
    return experiment_of(**(settings | changes))


@pytest.fixture(scope="module")
def run(folder) -> Path:
    train(experiment(folder, "pretrained"))
    return folder / "pretrained"


def logged(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_it_learns_both_directions_and_logs_their_perplexities(run):
    last = logged(run)[-1]
    assert last["split"].startswith("validation")
    both = [last[f"{side}_cross_entropy"] for side in ("forward", "backward")]
    assert last["cross_entropy"] == pytest.approx(np.mean(both), rel=1e-5)
    assert last["forward_perplexity"] == pytest.approx(np.exp(both[0]), rel=1e-5)
    assert max(both) < last["unigram_entropy"]
    assert np.isfinite([line["weight_norm"] for line in logged(run) if line["split"] == "train"]).all()


@pytest.mark.slow
def test_the_characters_of_its_words_are_opened_with_it_and_never_trained(run, folder):
    opened = open_checkpoint(run)
    table = np.asarray(parameters.flatten(opened.params)[TABLE])
    tokenizer = open_tokenizer(str(folder / "mine.json"))
    np.testing.assert_array_equal(table, character_table(tokenizer, 128))
    assert table.dtype == np.int32
    record = read_json(run / "frozen.json")
    assert set(record["checksums"]) == {TABLE}
    assert opened.num_parameters == parameters.count(parameters.abstract(MODEL)[1])
    kept = (run / "words.json").read_text()
    (run / "words.json").write_text(kept.replace('"one"', '"eins"'))
    with pytest.raises(
        ValueError,
        match=r"those that follow from its vocabulary, which have changed .* Restore the vocabulary in",
    ):
        open_checkpoint(run)
    (run / "words.json").write_text(kept)


@pytest.mark.slow  # tests/integration/test_resume.py has other models
def test_a_run_continues_with_the_same_bits(folder):
    whole = experiment(
        folder, "whole", total_steps=4, intervals=Intervals(log_every_steps=1, save_every_steps=2)
    )
    halved = whole.with_fields(model_dir=str(folder / "halved"))
    train(whole)
    train(halved.with_fields(total_steps=2))
    train(halved)
    expected, result = (
        parameters.flatten(open_checkpoint(each.model_dir).params) for each in (whole, halved)
    )
    for path, leaf in expected.items():
        np.testing.assert_array_equal(leaf, result[path], err_msg=path)


@pytest.mark.slow
def test_it_embeds_texts(run):
    model = t5x_like.from_pretrained(str(run))
    vectors = model.embed(["one two three", "three two one", "six"])
    assert vectors.shape == (3, 32)
    states = model(**model.encode(["one two"]), output_hidden_states=True).hidden_states
    assert [each.shape for each in states] == [(1, 4, 32)] * 3  # with both boundaries
    np.testing.assert_allclose(vectors[2], model.embed("six"), rtol=1e-4, atol=1e-5)  # whatever the padding
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3  # the order of words matters


@pytest.mark.slow
def test_commands_show_it(run, capsys):
    assert main(["model", "show", str(run)]) == 0
    shown = capsys.readouterr().out
    assert f"ElmoConfig: {parameters.count(parameters.abstract(MODEL)[1]):,} parameters" in shown
    assert "128 × 50" in shown
    assert main(["runs", "show", str(run)]) == 0
    assert "forward_perplexity" in capsys.readouterr().out


@pytest.mark.slow
def test_a_tagger_begins_with_it(run, folder):
    rows = [WORDS[n:] + WORDS[:n] for n in range(6)]
    tags = {word: "odd" if index % 2 else "even" for index, word in enumerate(WORDS)}
    lines = [f"{' '.join(each)}\t{' '.join(tags[word] for word in each)}" for each in rows]
    (folder / "tags.tsv").write_text("words\ttags\n" + "\n".join(lines) + "\n")
    file = str(folder / "tags.tsv")
    task = TextTask(
        name="parity",
        vocabulary=str(folder / "mine.json"),
        files={"train": file, "validation": file},
        input_template="{words}",
        target_template="{tags}",
        head=TokenClassification(tokens="words", classes=("even", "odd")),
    )
    lengths = {"mixture": "parity", "batch_size": 8, "inputs_length": 16}
    evaluation = HeadEvaluation(**lengths)
    tagger = replace(MODEL, task="token_classification")
    run_experiment = experiment(
        folder,
        "tagger",
        model=tagger,
        train=LoaderConfig(**lengths, targets_length=8, layout="encoder"),
        validations=(),
        evaluations=(evaluation,),
        tasks=(task,),
        start_from=str(run),
        total_steps=30,
    )
    assert preflight(run_experiment).problems == []
    train(run_experiment)
    scores = t5x_like.evaluate(str(folder / "tagger"))["parity"].scores
    assert scores["tag_accuracy"] > 90
    kept = [parameters.flatten(open_checkpoint(each).params)[TABLE] for each in (run, folder / "tagger")]
    np.testing.assert_array_equal(*kept)


@pytest.mark.slow
def test_an_adaptive_softmax_is_trained_too(folder):
    model = replace(MODEL, softmax=ClusteredSoftmax(cutoffs=(6, 20), div_val=2))
    train(experiment(folder, "adaptive", model=model))
    last = logged(folder / "adaptive")[-1]
    assert last["cross_entropy"] < last["unigram_entropy"]


@pytest.mark.slow
def test_devices_on_three_axes_learn_as_on_one(folder):
    results = []
    for name, mesh in (("one_axis", MeshConfig()), ("three_axes", MeshConfig(data=2, fsdp=2, model=2))):
        run_experiment = experiment(folder, "devices", mesh=mesh, total_steps=5)
        train(run_experiment.with_fields(model_dir=str(folder / f"on_{name}")))
        results.append(logged(folder / f"on_{name}")[-1]["cross_entropy"])
    assert results[0] == pytest.approx(results[1], rel=1e-4)


def test_what_can_not_work_is_refused_before_training(folder):
    for name, changes, message in (
        (
            "bytes",
            {"vocabulary": "bytes", "model": replace(MODEL, vocab_size=384)},
            "'bytes' is of the kind bytes",
        ),
        ("masked", {"objective": MaskedLM()}, "has the objective MaskedLM, and the model is a ElmoConfig"),
        (
            "bert",
            {
                "model": BertConfig(
                    vocab_size=128,
                    model_dim=16,
                    mlp_dim=16,
                    num_heads=2,
                    num_layers=1,
                    max_position_embeddings=32,
                    task="masked_lm",
                )
            },
            "has the objective BidirectionalLM, and the model is a BertConfig for 'masked_lm'",
        ),
    ):
        run_experiment = experiment(folder, f"refused_{name}", **changes)
        with pytest.raises(ValueError, match=message):
            train(run_experiment)
        assert any(message in problem for problem in preflight(run_experiment).problems)
        assert not (folder / f"refused_{name}/config.json").exists()
