"""A head trained on a frozen encoder: what trains, what is saved, and that everything else works on such a run."""

import functools
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import t5x_like
from t5x_like.cli.main import main
from t5x_like.cli.preflight import preflight
from t5x_like.evaluation.evaluator import HeadEvaluation
from t5x_like.evaluation.run_predictor import predict
from t5x_like.evaluation.saved_runs import RunEvaluation, RunPrediction, evaluate_run
from t5x_like.io.files import read_json
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.partitioning.mesh import MeshConfig
from t5x_like.pretrained.frozen_weights import fresh_params
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.experiment import Experiment
from t5x_like.training.hooks import Hook, RunProgress
from t5x_like.training.losses import LossConfig
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from t5x_like.training.unfreezing import GradualUnfreezing
from tests.integration import tiny_run
from tests.training.experiments import experiment_of

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
BERT = BertConfig(
    vocab_size=len(PIECES),
    model_dim=16,
    mlp_dim=32,
    num_heads=2,
    num_layers=1,
    max_position_embeddings=16,
    dropout_rate=0.1,
    task="masked_lm",
)
HEAD = "heads/scores/sequence_classification/projection"


class StopAt(Hook):
    """Ends the run after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def after_step(self, run: RunProgress) -> None:
        if run.step == self.step:
            run.stop("enough")


# Of all modules that import the fixtures below: a process registers a task once.
_FOLDER = tempfile.TemporaryDirectory(prefix="letters")


@functools.cache
def _published() -> Path:
    directory = Path(_FOLDER.name) / "bert"
    write_hugging_face(BERT, parameters.split(BERT.build(jax.random.key(1)))[1], directory)
    (directory / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    return directory


@pytest.fixture(scope="module")
def published():
    """A pretrained model as Hugging Face has it, with a vocabulary."""
    return _published()


@functools.cache
def _task() -> TextTask:
    file = Path(_FOLDER.name) / "letters.tsv"
    rows = [f"{first} {second} {third}" for first in "abcd" for second in "abcd" for third in "efgh"]
    lines = [f"{row}\t{'vowel' if 'a' in row else 'none'}" for row in rows]
    file.write_text("\n".join(["text\tlabel", *lines]) + "\n")
    return TextTask(
        name="letters_on_frozen",
        vocabulary=str(_published()),
        num_sentinels=0,
        files={"train": str(file), "validation": str(file)},
        input_template="{text}",
        target_template="{label}",
        labels=("vowel", "none"),
        metrics=("accuracy",),
    )


@pytest.fixture(scope="module")
def task():
    """Whether a text has an ``a``."""
    return _task()


def experiment(task, start_from, model_dir, **options) -> Experiment:
    settings: dict[str, Any] = {
        "model": CheckpointModel(),
        "train": LoaderConfig(
            mixture=task.name, batch_size=16, inputs_length=16, targets_length=2, layout="encoder"
        ),
        "tasks": (task,),
        "start_from": str(start_from),
        "model_dir": str(model_dir),
        "total_steps": 40,
        "trainable": ("heads/*",),
        "evaluations": (HeadEvaluation(mixture=task.name, inputs_length=16, batch_size=32),),
        "optimizer": AdamW(learning_rate=Constant(value=0.03)),
        "loss": LossConfig(z_loss=0.0),
        "intervals": Intervals(log_every_steps=20, evaluate_every_steps=0, save_every_steps=20),
    }
    return experiment_of(**settings | options)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, published, task):
    run = tmp_path_factory.mktemp("runs") / "tuned"
    return run, train(experiment(task, published, run))


def weights(directory, **options):
    return parameters.flatten(open_checkpoint(directory, **options).params)


def test_only_the_head_trains_and_only_the_head_is_saved(tuned, published):
    run, finished = tuned
    with pytest.warns(UserWarning, match="freshly drawn"):
        base_weights = weights(published, head="sequence_classification", num_labels=2, draw_heads=True)
    own = weights(run)
    assert own.keys() == base_weights.keys()
    changed = {path for path in own if not np.array_equal(own[path], base_weights[path])}
    heads = {path for path in own if path.startswith("heads/")}
    assert changed == heads
    assert finished.completed
    saved = read_json(run / "40" / "leaves.json")
    assert {name.removeprefix("params/") for name in saved if name.startswith("params/")} == heads
    moments = {name for name in saved if "/mu/" in name or "/nu/" in name}
    assert len(moments) == 2 * len(heads)
    assert all("/heads/" in name for name in moments)
    assert not any("frozen" in name for name in saved)


@pytest.mark.slow
def test_a_killed_run_continues_with_the_same_bits(tuned, task, published, tmp_path):
    half = experiment(task, published, tmp_path / "run", total_steps=20, evaluations=())
    train(half)
    again = train(half.with_fields(total_steps=40))
    assert again.last["train"]["loss"] == tuned[1].last["train"]["loss"]
    one, other = weights(tuned[0]), weights(tmp_path / "run")
    assert all(np.array_equal(one[path], other[path]) for path in one)


@pytest.mark.slow
def test_it_is_evaluated_asked_and_exported(tuned, task, tmp_path, capsys):
    run, finished = tuned
    head_evaluation = HeadEvaluation(mixture=task.name, inputs_length=16, batch_size=16)
    evaluation = RunEvaluation(
        checkpoint=str(run), evaluations=(head_evaluation,), output_dir=str(tmp_path / "out"), tasks=(task,)
    )
    scores = evaluate_run(evaluation)
    twice = evaluate_run(replace(evaluation, ensemble=(str(run),)))
    assert twice[task.name].scores == scores[task.name].scores, "an ensemble with itself"
    assert scores[task.name].scores["accuracy"] == finished.last[f"evaluation/{task.name}"]["accuracy"]
    answers = list(
        predict(
            RunPrediction(checkpoint=str(run), task=task.name, inputs_length=16, tasks=(task,)), ["a b e"]
        )
    )
    assert answers[0].prediction in ("vowel", "none")
    assert main(["convert", "--from", str(run), "--to", str(tmp_path / "hf"), "--export", "hf"]) == 0
    exported, own = weights(tmp_path / "hf"), weights(run)
    assert exported.keys() == own.keys()
    assert all(np.array_equal(exported[path], own[path]) for path in own)
    assert t5x_like.from_pretrained(str(tmp_path / "hf")).config.num_labels == 2


@pytest.mark.slow
def test_all_weights_train_on_from_it(tuned, task, tmp_path):
    finished = train(
        experiment(task, tuned[0], tmp_path / "run", total_steps=2, trainable=("*",), evaluations=())
    )
    assert finished.completed
    assert not (tmp_path / "run" / "frozen.json").exists()
    own, base_weights = weights(tmp_path / "run"), weights(tuned[0])
    assert not any(np.array_equal(own[path], base_weights[path]) for path in own if path.endswith("kernel"))


def test_a_base_that_is_gone_or_changed_is_refused_by_name(tuned, task, published, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(published, copy)
    run = experiment(task, copy, tmp_path / "run", total_steps=2, evaluations=())
    train(run)
    shutil.rmtree(copy)
    with pytest.raises(
        ValueError, match=rf"frozen weights, those of {copy}, which can't be opened.*Put them back"
    ):
        open_checkpoint(tmp_path / "run")
    changed = BERT.build(jax.random.key(2))
    write_hugging_face(BERT, parameters.split(changed)[1], copy)
    shutil.copy(published / "vocab.txt", copy)
    message = r"those of .*copy, which have changed since: embedding/.* and \d+ more\. Restore what is there"
    with pytest.raises(ValueError, match=message):
        open_checkpoint(tmp_path / "run")
    with pytest.raises(ValueError, match=message):
        train(run.with_fields(total_steps=4))
    record = json.loads((tmp_path / "run/frozen.json").read_text())
    (tmp_path / "run/frozen.json").write_text(json.dumps(record | {"start_from": str(published)}))
    assert weights(tmp_path / "run").keys() == weights(tuned[0]).keys(), "a copy elsewhere will do"


@pytest.mark.slow
def test_a_run_of_ours_is_remembered_with_its_step(tuned, task, tmp_path):
    run = experiment(
        task, tuned[0], tmp_path / "run", total_steps=2, evaluations=(), trainable=(f"{HEAD}/bias",)
    )
    train(run)
    record = read_json(tmp_path / "run" / "frozen.json")
    assert (record["start_from"], record["step"]) == (str(tuned[0]), 40)
    own, base_weights = weights(tmp_path / "run"), weights(tuned[0])
    assert [path for path in own if not np.array_equal(own[path], base_weights[path])] == [f"{HEAD}/bias"]


def test_another_choice_of_weights_is_another_run(tuned, task, published):
    with pytest.raises(ValueError, match=r"trainable\.0: the run has 'heads/\*', you ask for '\*'"):
        train(experiment(task, published, tuned[0], trainable=("*",)))


@pytest.mark.slow
def test_eight_devices_train_a_head_as_one_does(tuned, task, published, tmp_path):
    mesh = MeshConfig(data=2, fsdp=2, model=2)
    eight = experiment(task, published, tmp_path / "eight", total_steps=20, evaluations=(), mesh=mesh)
    finished = train(eight)
    one = train(replace(eight, mesh=MeshConfig(), model_dir=str(tmp_path / "one"), train=eight.train))
    assert finished.last["train"]["loss"] == pytest.approx(one.last["train"]["loss"], rel=1e-4)
    np.testing.assert_allclose(
        weights(tmp_path / "eight")[f"{HEAD}/kernel"], weights(tmp_path / "one")[f"{HEAD}/kernel"], atol=1e-4
    )
    restarted = train(replace(eight, mesh=MeshConfig(), total_steps=40))
    assert restarted.completed, "on other devices"


@pytest.mark.slow
def test_fresh_frozen_weights_come_back_from_their_seed(directory):
    options: dict[str, Any] = {"trainable": ("decoder/*", "embedding/*")}
    whole = tiny_run.run(directory, model_dir=str(directory / "frozen_whole"), total_steps=6, **options)
    tiny_run.run(directory, model_dir=str(directory / "frozen_halves"), total_steps=3, **options)
    halves = tiny_run.run(directory, model_dir=str(directory / "frozen_halves"), total_steps=6, **options)
    assert halves.last["train"]["loss"] == whole.last["train"]["loss"]
    fresh = parameters.flatten(fresh_params(tiny_run.MODEL, mesh=None, seed=5))
    own = weights(directory / "frozen_whole")
    kept = [path for path in own if np.array_equal(own[path], fresh[path])]
    assert kept == [path for path in own if not path.startswith(("decoder/", "embedding/"))]


@pytest.mark.slow
def test_trained_layers_are_saved_alone_and_come_back_among_the_others(directory):
    """Half of each stack trains; a stopped run continues, and the whole model is opened from both places."""
    options: dict[str, Any] = {"trainable": ("*/layers[-1]/*", "heads/*")}
    whole = tiny_run.run(directory, model_dir=str(directory / "layers_whole"), total_steps=6, **options)
    tiny_run.run(directory, model_dir=str(directory / "layers_halves"), total_steps=3, **options)
    halves = tiny_run.run(directory, model_dir=str(directory / "layers_halves"), total_steps=6, **options)
    assert halves.last["train"]["loss"] == whole.last["train"]["loss"]
    kernel = "encoder/layers/0/feed_forward/up/kernel"
    assert read_json(directory / "layers_whole/6/leaves.json")[f"params/{kernel}"]["shape"][0] == 1
    assert read_json(directory / "layers_whole/frozen.json")["layers"][kernel] == [0]
    fresh = parameters.flatten(fresh_params(tiny_run.MODEL, mesh=None, seed=5))
    own, continued = weights(directory / "layers_whole"), weights(directory / "layers_halves")
    assert all(np.array_equal(own[path], continued[path]) for path in own)
    for path, leaf in own.items():
        trains = [path.startswith("heads/")] if "/layers/" not in path else [False, True]
        same = (
            [np.array_equal(*rows) for rows in zip(leaf, fresh[path], strict=True)]
            if len(trains) == 2
            else [np.array_equal(leaf, fresh[path])]
        )
        assert same == [not each for each in trains], path


@pytest.mark.slow  # tests/training/test_unfreezing.py tests its steps
def test_a_run_that_thaws_in_stages_continues_in_the_middle_of_one(directory):
    options: dict[str, Any] = {"unfreezing": GradualUnfreezing(at_steps=(2, 5, 7))}
    whole = tiny_run.run(directory, model_dir=str(directory / "thaw_whole"), total_steps=9, **options)
    tiny_run.run(
        directory, model_dir=str(directory / "thaw_parts"), total_steps=9, hooks=(StopAt(6),), **options
    )
    parts = tiny_run.run(directory, model_dir=str(directory / "thaw_parts"), total_steps=9, **options)
    assert parts.last["train"]["loss"] == whole.last["train"]["loss"]
    own, continued = weights(directory / "thaw_whole"), weights(directory / "thaw_parts")
    assert all(np.array_equal(own[path], continued[path]) for path in own)
    assert not (directory / "thaw_whole/frozen.json").exists()


@pytest.mark.slow
def test_groups_thaw_by_epochs_of_the_rows(task, published, tmp_path):
    """64 rows in batches of 16: half an epoch is two steps."""

    def thawing(name: str, **options) -> Experiment:
        unfreezing = GradualUnfreezing(**options)
        run = tmp_path / name
        return experiment(task, published, run, trainable=None, unfreezing=unfreezing, total_steps=6)

    for name, options in (("steps", {"every_steps": 2}), ("epochs", {"every_epochs": 0.5})):
        train(thawing(name, **options))
    by_steps, by_epochs = weights(tmp_path / "steps"), weights(tmp_path / "epochs")
    for path, leaf in by_steps.items():
        np.testing.assert_array_equal(by_epochs[path], leaf, err_msg=path)
    late = preflight(thawing("late", every_epochs=1))
    assert "groups of weights thaw at step 8, but the run ends at step 6" in " ".join(late.problems)
