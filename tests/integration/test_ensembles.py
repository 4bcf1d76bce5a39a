"""Ensembles: the mean of several runs' probabilities or logits, in scores, in generated text and in heads."""

import shutil
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from t5x_like.batch import Batch
from t5x_like.checkpoints.checkpoints import Checkpoints
from t5x_like.cli.main import main
from t5x_like.evaluation.evaluator import TaskEvaluation
from t5x_like.evaluation.run_predictor import predict
from t5x_like.evaluation.saved_runs import RunEvaluation, RunPrediction, evaluate_run
from t5x_like.inference.generator import GenerationConfig, continue_prompts
from t5x_like.io.files import read_json
from t5x_like.model import parameters
from t5x_like.model.families.ensemble import Ensemble, mean_of_sigmoids, mean_scores
from t5x_like.model.zoo.gpt2 import GPT2Config
from tests.integration import tiny_run
from tests.training.test_step import MODEL, random_batch

SEEDS = (5, 6, 7)


def models(config: Any) -> list[Any]:
    return [config.build(jax.random.key(seed)) for seed in SEEDS]


@pytest.mark.parametrize("mean", ["probabilities", pytest.param("logits", marks=pytest.mark.slow)])
def test_tokens_have_the_mean_of_the_members_probabilities_or_logits(mean):
    members = models(MODEL)
    batch = Batch(*(None if rows is None else jnp.asarray(rows) for rows in random_batch(0)))
    result = Ensemble(members, mean=mean)(batch).logits
    logits = [np.asarray(member(batch).logits, np.float64) for member in members]
    if mean == "logits":
        np.testing.assert_allclose(result, np.mean(logits, axis=0), rtol=1e-5, atol=1e-5)
        return
    shares = [np.exp(each) / np.exp(each).sum(-1, keepdims=True) for each in logits]
    np.testing.assert_allclose(np.exp(result), np.mean(shares, axis=0), atol=1e-6)


DECODER = GPT2Config(
    vocab_size=64,
    model_dim=32,
    mlp_dim=64,
    num_heads=4,
    num_layers=2,
    max_position_embeddings=32,
    dropout_rate=0.0,
)
BOTH = pytest.mark.parametrize(
    "config",
    [MODEL, pytest.param(DECODER, marks=pytest.mark.slow)],
    ids=["encoder-decoder", "decoder"],
)


def generated(model, beams):
    """Tokens that follow two prompts."""
    prompts = jnp.asarray(np.random.default_rng(0).integers(3, 64, (2, 6)), jnp.int32)
    settings = GenerationConfig(max_new_tokens=4, num_beams=beams).search_settings((1,))
    mask, key = jnp.ones_like(prompts), jax.random.key(0)
    return prompts, np.asarray(continue_prompts(model, prompts, mask, key, start_id=0, settings=settings)[0])


@pytest.mark.slow
@BOTH
def test_generated_tokens_are_those_of_the_whole_forward_pass(config):
    """Token by token from a cache of each member, the most likely next token of their mean."""
    ensemble = Ensemble(models(config))
    prompts, tokens = generated(ensemble, 1)
    written = np.zeros((2, 0), np.int32)
    for _ in range(4):
        if config is MODEL:
            inputs = np.concatenate([np.zeros((2, 1), np.int32), written], axis=1)
            batch = Batch(encoder_input_tokens=prompts, decoder_input_tokens=jnp.asarray(inputs))
        else:
            batch = Batch(decoder_input_tokens=jnp.concatenate([prompts, written], axis=1))
        best = np.asarray(ensemble(batch).logits[:, -1].argmax(-1), np.int32)
        written = np.concatenate([written, best[:, None]], axis=1)
    ended = np.cumsum(written == 1, axis=1) - (written == 1) > 0
    np.testing.assert_array_equal(np.where(ended, 0, tokens), np.where(ended, 0, written))


@pytest.mark.slow
@BOTH
def test_beams_keep_the_cache_of_each_member(config):
    one, other = models(config)[:2]
    alone, twice = generated(one, 3)[1], generated(Ensemble([one, one]), 3)[1]
    np.testing.assert_array_equal(twice, alone)
    assert np.any(generated(Ensemble([one, other]), 3)[1] != alone)


def test_scores_of_places_are_averaged_among_the_real_ones():
    draw, real = np.random.default_rng(0), np.array([[True, True, True, False]])
    scores = [draw.normal(size=(1, 4, 2)).astype(np.float32) for _ in range(2)]
    where = jnp.asarray(real)[..., None]
    result = np.asarray(mean_scores(list(map(jnp.asarray, scores)), "probabilities", axis=1, where=where))
    shares = [np.exp(each[:, :3]) / np.exp(each[:, :3]).sum(1, keepdims=True) for each in scores]
    np.testing.assert_allclose(np.exp(result[:, :3]), np.mean(shares, axis=0), rtol=1e-5)


@pytest.fixture(scope="module")
def runs(directory):
    """A run, and another with the weights of another seed."""
    first, other = (str(directory / f"member_{seed}") for seed in SEEDS[:2])
    tiny_run.run(directory, model_dir=first, total_steps=1, seed=SEEDS[0])
    shutil.copytree(first, other, ignore=shutil.ignore_patterns("1"))
    params = parameters.split(jax.jit(tiny_run.MODEL.build)(jax.random.key(SEEDS[1])))[1]
    with Checkpoints(other) as checkpoints:
        checkpoints.save(1, {"params": params})
    return [first, other]


@pytest.mark.slow
def test_an_ensemble_is_evaluated_and_asked(runs, directory, tmp_path, capsys):
    tasks = tiny_run.experiment(directory, model_dir="", total_steps=1).data.tasks
    task_evaluation = TaskEvaluation(
        mixture="capitals", inputs_length=32, targets_length=4, method="rank", batch_size=16
    )
    evaluation = RunEvaluation(
        checkpoint=runs[0],
        evaluations=(task_evaluation,),
        output_dir=str(tmp_path / "out"),
        tasks=tasks,
        ensemble=(runs[1],),
    )
    result = evaluate_run(evaluation)["capitals"]
    assert len(result.rows) == 80
    assert read_json(tmp_path / "out/scores.json")["checkpoint"] == f"{runs[0]} + {runs[1]}"
    alone = evaluate_run(replace(evaluation, ensemble=(), output_dir=str(tmp_path / "alone")))["capitals"]
    twice = evaluate_run(replace(evaluation, ensemble=(runs[0],), output_dir=str(tmp_path / "twice")))[
        "capitals"
    ]
    assert [row["prediction"] for row in twice.rows] == [row["prediction"] for row in alone.rows]
    answers = predict(
        RunPrediction(checkpoint=runs[0], task="capitals", tasks=tasks, ensemble=(runs[1],)), ["one 1"]
    )
    assert len(list(answers)) == 1
    assert main(["evaluate", "--checkpoint", runs[0], "--ensemble", runs[1], "--recipe", "glue"]) == 2
    assert "--ensemble is for the held-out rows of a run's own tasks" in capsys.readouterr().err


@pytest.mark.slow
def test_runs_of_another_model_are_refused(runs, directory, tmp_path):
    other = str(directory / "member_wide")
    tiny_run.run(directory, model_dir=other, total_steps=1, model=replace(tiny_run.MODEL, mlp_dim=96))
    run = RunEvaluation(checkpoint=runs[0], evaluations=(), output_dir=str(tmp_path), ensemble=(other,))
    with pytest.raises(
        ValueError, match=r"(?s)member_wide, in an ensemble with .*feed_forward/up/kernel has shape"
    ):
        evaluate_run(run)


def test_classes_that_do_not_exclude_each_other_have_the_mean_of_their_sigmoids():
    scores = [np.array([[2.0, -1.0, 300.0]], np.float32), np.array([[-1.0, 0.5, 200.0]], np.float32)]
    stacked = [jnp.asarray(each) for each in scores]
    result = np.asarray(mean_of_sigmoids(stacked, "probabilities"))
    shares = 1.0 / (1.0 + np.exp(-np.stack(scores).astype(np.float64)))
    np.testing.assert_allclose(1.0 / (1.0 + np.exp(-result)), shares.mean(0), rtol=1e-6)
    assert np.isfinite(result).all()
    np.testing.assert_allclose(mean_of_sigmoids(stacked, "logits"), [[0.5, -0.25, 250.0]])
    np.testing.assert_allclose(mean_of_sigmoids(stacked[:1], "probabilities"), scores[0], rtol=1e-6)
