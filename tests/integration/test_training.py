"""Whole runs in small: they learn, score, start from each other, and refuse what can't be meant."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from t5x_like.evaluation.evaluator import TaskEvaluation
from t5x_like.evaluation.run_predictor import predict
from t5x_like.evaluation.saved_runs import RunEvaluation, RunPrediction, evaluate_run
from t5x_like.inference.generator import GenerationConfig
from t5x_like.io.files import read_json, read_jsonl
from t5x_like.model import parameters
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.loader import build_loader
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.seqio_bridge import registration
from t5x_like.training.losses import LossConfig, token_losses
from t5x_like.training.run_config import Intervals
from tests.integration import tiny_run

CAPITALS = TaskEvaluation(
    mixture="capitals",
    inputs_length=32,
    targets_length=4,
    batch_size=16,
    generation=GenerationConfig(max_new_tokens=4),
)
SELDOM = Intervals(log_every_steps=20, evaluate_every_steps=0, save_every_steps=0)
COUNTING = LoaderConfig(
    mixture="counting",
    split="validation",
    batch_size=8,
    inputs_length=64,
    targets_length=32,
    shuffle=False,
    repeat=False,
)


@pytest.fixture(scope="module")
def pretrained(directory):
    """A run of 80 steps on the mixture, validated on the corpus and scored on the capitals."""
    return tiny_run.run(
        directory,
        model_dir=str(directory / "pretrained"),
        total_steps=80,
        intervals=SELDOM,
        validations=(COUNTING,),
        evaluations=(CAPITALS,),
    )


def test_the_loss_falls_below_what_token_frequencies_alone_can_reach(pretrained):
    held_out = pretrained.last["validation/counting"]
    assert held_out["cross_entropy"] < 0.9 * held_out["unigram_entropy"]


def test_logs_tell_the_loss_of_each_task_norms_rates_and_waiting(pretrained, directory):
    lines = [
        line for line in read_jsonl(directory / "pretrained" / "metrics.jsonl") if line["split"] == "train"
    ]
    assert [line["step"] for line in lines] == [20, 40, 60, 80]
    expected = {
        *(
            "cross_entropy/counting",
            "cross_entropy/capitals",
            "gradient_norm",
            "weight_norm",
            "learning_rate",
        ),
        *("steps_per_second", "tokens_per_second", "data_wait_fraction", "row_share_filled"),
        *("step_seconds", "elapsed_seconds", "time", "goodput"),
    }
    assert expected <= lines[-1].keys()


def test_a_finished_run_run_again_does_nothing(pretrained, directory):
    before = (directory / "pretrained" / "metrics.jsonl").read_text()
    again = tiny_run.run(
        directory,
        model_dir=str(directory / "pretrained"),
        total_steps=80,
        intervals=SELDOM,
        validations=(COUNTING,),
        evaluations=(CAPITALS,),
    )
    assert again.completed
    assert (directory / "pretrained" / "metrics.jsonl").read_text() == before


def test_a_directory_of_another_configuration_is_left_alone_and_the_difference_shown(pretrained, directory):
    before = {path: path.read_bytes() for path in (directory / "pretrained").rglob("*.json*")}
    other = replace(tiny_run.MODEL, dropout_rate=0.0)
    with pytest.raises(ValueError, match=r"model\.dropout_rate: the run has 0\.1, you ask for 0\.0"):
        tiny_run.run(directory, model_dir=str(directory / "pretrained"), total_steps=80, model=other)
    assert {path: path.read_bytes() for path in (directory / "pretrained").rglob("*.json*")} == before


def test_fine_tuning_starts_from_the_pretrained_weights_and_learns_the_task(pretrained, directory):
    start = str(directory / "pretrained")
    tuned = tiny_run.run(
        directory,
        model_dir=str(directory / "tuned"),
        total_steps=60,
        start_from=start,
        train=LoaderConfig(mixture="capitals", batch_size=8, inputs_length=64, targets_length=32),
        model=replace(tiny_run.MODEL, dropout_rate=0.0),
        intervals=SELDOM,
        evaluations=(CAPITALS,),
    )
    assert tuned.last["evaluation/capitals"]["accuracy"] > 60
    scores = read_json(directory / "tuned" / "evaluations" / "step_60" / "scores.json")
    assert scores["tasks"]["capitals"]["baseline"]["accuracy"] == pytest.approx(30.0)


def test_generation_and_ranking_agree_and_prediction_answers_a_line(pretrained, directory):
    if not (directory / "tuned").exists():
        pytest.skip("needs the run of the fine-tuning test")
    run = RunEvaluation(
        checkpoint=str(directory / "tuned"),
        output_dir=str(directory / "scores"),
        evaluations=(CAPITALS, replace(CAPITALS, method="rank")),
    )
    ranked = evaluate_run(run)["capitals"]
    assert ranked.scores["accuracy"] > 60
    rows = list(read_jsonl(directory / "scores" / "capitals" / "predictions.jsonl"))
    assert {"task", "number", "input", "target", "prediction", "answer"} <= rows[0].keys()
    assert set(rows[0]["choices"]) == {"E", "F", "N", "O", "S", "T"}
    question = RunPrediction(checkpoint=str(directory / "tuned"), task="capitals", inputs_length=32)
    question = replace(question, generation=GenerationConfig(max_new_tokens=4))
    (answer,) = predict(question, ["one 1"])
    assert answer.input == "capital: one 1"
    assert answer.prediction == ranked.rows[0]["prediction"]


def test_weights_that_do_not_fit_are_listed_by_name(pretrained, directory):
    wider = replace(tiny_run.MODEL, mlp_dim=96)
    with pytest.raises(ValueError, match="feed_forward/up/kernel"):
        tiny_run.run(
            directory,
            model_dir=str(directory / "wider"),
            total_steps=1,
            model=wider,
            start_from=str(directory / "pretrained"),
        )
    assert not (directory / "wider").exists(), "a run that could not start leaves nothing behind"


def test_packed_and_unpacked_examples_cost_the_same(pretrained, directory):
    opened = open_checkpoint(directory / "pretrained")
    config, params = opened.config, opened.params
    graphdef, _, _ = parameters.abstract(config)

    @jax.jit
    def loss(batch):
        losses, _ = token_losses(
            parameters.merge(graphdef, params)(batch).logits, batch.target_tokens, LossConfig()
        )
        return (losses * batch.loss_weights).sum(), batch.loss_weights.sum()

    def total(pack: bool) -> np.ndarray:
        packing = LoaderConfig(
            mixture="capitals",
            split="validation",
            batch_size=8,
            inputs_length=64,
            targets_length=32,
            pack=pack,
            shuffle=False,
            repeat=False,
        )
        return np.sum([loss(batch) for batch in build_loader(packing)], axis=0)

    np.testing.assert_allclose(total(pack=True), total(pack=False), rtol=1e-5)


def test_a_vocabulary_that_is_not_the_models_is_refused_before_anything_is_written(directory):
    with pytest.raises(ValueError, match="359 ids, sentinels included, but the model has 512 embedding rows"):
        tiny_run.run(
            directory,
            model_dir=str(directory / "mismatch"),
            total_steps=1,
            model=replace(tiny_run.MODEL, vocab_size=512),
        )
    assert not (directory / "mismatch").exists()


def test_a_batch_that_the_mesh_cannot_share_out_is_refused(directory):
    with pytest.raises(ValueError, match="can't be shared out evenly"):
        tiny_run.run(
            directory,
            model_dir=str(directory / "uneven"),
            total_steps=1,
            train=LoaderConfig(
                mixture="counting_and_capitals", batch_size=6, inputs_length=64, targets_length=32
            ),
        )


@pytest.mark.seqio
def test_metrics_that_ask_for_likelihoods_get_them(pretrained, directory):
    seqio = registration.export_to_seqio()

    def mean_likelihood(targets, scores):
        assert len(targets) == len(scores) == 80
        return {"mean_log_likelihood": float(np.mean(scores))}

    capitals = seqio.TaskRegistry.get("capitals")
    seqio.TaskRegistry.add(
        "capitals_by_likelihood",
        source=capitals.source,
        preprocessors=capitals.preprocessors,
        output_features=capitals.output_features,
        metric_fns=[mean_likelihood],
    )
    run = RunEvaluation(
        checkpoint=str(directory / "pretrained"),
        output_dir=str(directory / "likelihoods"),
        evaluations=(replace(CAPITALS, mixture="capitals_by_likelihood"),),
    )
    result = evaluate_run(run)["capitals_by_likelihood"]
    assert result.scores["mean_log_likelihood"] == pytest.approx(
        np.mean([row["log_likelihood"] for row in result.rows])
    )
    assert result.scores["mean_log_likelihood"] < 0
    question = RunPrediction(
        checkpoint=run.checkpoint,
        task="capitals_by_likelihood",
        inputs_length=32,
        generation=CAPITALS.generation,
    )
    (answer,) = predict(question, ["one 1"])  # nothing is known of the wording of users' own tasks
    assert answer.input == "one 1"


def test_what_cannot_be_measured_is_found_before_training(directory):
    home = directory / "unmeasured"
    with pytest.raises(ValueError, match="'counting' has no split 'held_out'"):
        tiny_run.run(
            directory,
            model_dir=str(home),
            total_steps=4,
            intervals=SELDOM,
            validations=(replace(COUNTING, split="held_out"),),
        )
    assert not (home / "metrics.jsonl").exists()
