"""Learning from preferences from tables: DPO and reward models, with their references, held-out rows and adapters."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from t5x_like.cli.main import main
from t5x_like.evaluation.evaluator import HeadEvaluation
from t5x_like.evaluation.scores_file import read_scores
from t5x_like.io.files import read_json, read_jsonl, write_json, write_jsonl
from t5x_like.model.adapters.lora import LoRA
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.model.zoo.t5 import T5Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.preferences import DesirabilityTask, PreferenceTask
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.methods.kto import KTO
from t5x_like.training.methods.preference_optimization import PreferenceOptimization
from t5x_like.training.methods.reward_model import RewardModel
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.rollouts.rewards import ModelReward
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.training.experiments import experiment_of

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
SIZES: dict[str, Any] = {"vocab_size": 384, "model_dim": 32, "mlp_dim": 64, "num_heads": 2, "num_layers": 1}
DECODER = GPT2Config(**SIZES, max_position_embeddings=48)
LENGTHS = {"batch_size": 16, "inputs_length": 16, "targets_length": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows in which capital letters are preferred, and a model to start from."""
    folder = tmp_path_factory.mktemp("preferences")
    rows = [
        {"prompt": f"{word} {copy}", "chosen": word.upper(), "rejected": word, "gap": copy % 2}
        for copy in range(4)
        for word in WORDS
    ]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    run(folder, "base", DECODER, Supervised(), mixture=text_task(folder), total_steps=1)
    return folder


def task(folder: Path, **changes: Any) -> PreferenceTask:
    file = str(folder / "pairs.jsonl")
    files = {"train": file, "validation": file}
    return PreferenceTask(**{"name": "capital_answers", "vocabulary": "bytes", "files": files, **changes})


def text_task(folder: Path) -> TextTask:
    return TextTask(
        name="best_answers",
        vocabulary="bytes",
        files={"train": str(folder / "pairs.jsonl")},
        input_template="{prompt}",
        target_template="{chosen}",
    )


def run(folder: Path, name: str, model: Any, method: Any, *, mixture: Any = None, **changes: Any) -> Path:
    mixture = mixture or task(folder)
    layout = {"layout": "decoder", "prefix_attention": "causal", **LENGTHS, **changes.pop("loader", {})}
    train_config = LoaderConfig(mixture=mixture.name, **layout)
    held_out = LoaderConfig(mixture=mixture.name, split="validation", repeat=False, **layout)
    settings = {
        "total_steps": 8,
        "intervals": Intervals(log_every_steps=1, evaluate_every_steps=0, save_every_steps=4),
        "validations": (held_out,) if isinstance(mixture, PreferenceTask) else (),
        "optimizer": AdamW(learning_rate=Constant(value=3e-3)),
        **changes,
    }
    train(
        experiment_of(
            tasks=(mixture,),
            model=model,
            method=method,
            train=train_config,
            model_dir=str(folder / name),
            **settings,
        )
    )
    return folder / name


def lines(home: Path, split: str = "train") -> list[dict[str, Any]]:
    return [line for line in read_jsonl(home / "metrics.jsonl") if line["split"] == split]


def test_better_answers_become_likelier_than_worse_ones(folder: Path) -> None:
    base = str(folder / "base")
    home = run(folder, "dpo", DECODER, PreferenceOptimization(reference=base), start_from=base)
    logged = lines(home)
    assert logged[0]["loss"] == pytest.approx(np.log(2), abs=1e-5)  # both models are the same
    assert logged[-1]["loss"] < 0.5
    assert logged[-1]["accuracy"] > 0.9
    assert logged[-1]["reward_margin"] == pytest.approx(
        logged[-1]["chosen_reward"] - logged[-1]["rejected_reward"], rel=1e-4
    )
    (held_out,) = lines(home, "validation/capital_answers")
    assert held_out["accuracy"] == 1.0
    assert held_out["loss"] < 0.5
    assert read_json(home / "reference.json", dict)["reference"] == base


@pytest.mark.slow
def test_a_run_continues_with_the_same_bits_and_reads_kept_log_probabilities(folder: Path) -> None:
    base = str(folder / "base")
    method = PreferenceOptimization(reference=base, logps_dir=str(folder / "logps"))
    home = run(folder, "parts", DECODER, method, start_from=base, total_steps=4)
    files = sorted((folder / "logps").glob("*.npz"))
    assert len(files) == 4
    written = [file.stat().st_mtime_ns for file in files]
    run(folder, "parts", DECODER, method, start_from=base)
    again = run(folder, "again", DECODER, method, start_from=base)
    assert [file.stat().st_mtime_ns for file in files] == written
    kept = ("loss", "reward_margin", "gradient_norm")
    assert [[line[name] for name in kept] for line in lines(home)] == [
        [line[name] for name in kept] for line in lines(again)
    ]
    computed = lines(
        run(folder, "computed", DECODER, PreferenceOptimization(reference=base), start_from=base)
    )
    np.testing.assert_allclose(
        [line["loss"] for line in lines(home)], [line["loss"] for line in computed], rtol=1e-5
    )


@pytest.mark.slow
def test_an_adapter_is_compared_with_the_model_without_it(folder: Path) -> None:
    adapted = replace(DECODER, adapter=LoRA(rank=4))
    base = str(folder / "base")
    home = run(folder, "adapted", adapted, PreferenceOptimization(), start_from=base)
    logged = lines(home)
    assert logged[0]["loss"] == pytest.approx(np.log(2), abs=1e-5)
    assert logged[-1]["loss"] < logged[0]["loss"]
    assert lines(home, "validation/capital_answers")[0]["loss"] < logged[0]["loss"]
    assert not (home / "reference.json").exists()
    with pytest.raises(ValueError, match="the reference is the model without its adapter, and trainable="):
        run(folder, "all", adapted, PreferenceOptimization(), start_from=base, trainable=("*",))


@pytest.mark.slow
@pytest.mark.parametrize("num_microbatches", [1, 2])
def test_an_encoder_decoder_learns_ranks_of_several_answers(folder: Path, num_microbatches: int) -> None:
    rows = [
        {"prompt": f"{word} {copy}", "answers": [word.upper(), word.title(), word][: 2 + copy % 2]}
        for copy in range(4)
        for word in WORDS
    ]
    (folder / "ranked.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    files = {"train": str(folder / "ranked.jsonl"), "validation": str(folder / "ranked.jsonl")}
    ranked = task(folder, name="ranked_answers", files=files, ranked="answers", num_answers=3)
    model = T5Config(
        vocab_size=384,
        model_dim=32,
        mlp_dim=64,
        num_heads=2,
        head_dim=16,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
    loader = {"layout": "encoder_decoder", "prefix_attention": "bidirectional"}
    method = PreferenceOptimization(loss_type="simpo", beta=2.0, margin=0.5, supervised_weight=0.1)
    name = f"ranked_{num_microbatches}"
    home = run(folder, name, model, method, mixture=ranked, loader=loader, num_microbatches=num_microbatches)
    logged = lines(home)
    assert logged[-1]["accuracy"] > 0.9
    assert logged[-1]["supervised_loss"] < logged[0]["supervised_loss"]
    if num_microbatches > 1:  # the batch is divided by its own numbers
        whole = [line["loss"] for line in lines(folder / "ranked_1")]
        np.testing.assert_allclose([line["loss"] for line in logged], whole, rtol=1e-4)


@pytest.mark.slow
def test_desirable_answers_become_likelier_than_others(folder: Path) -> None:
    rows = [
        {"prompt": f"{word} {copy}", "completion": answer, "label": answer.isupper()}
        for copy in range(2)
        for word in WORDS
        for answer in (word, word.upper())
    ]
    (folder / "rated.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    file = str(folder / "rated.jsonl")
    files = {"train": file, "validation": file}
    mixture = DesirabilityTask(name="thumbs_up", vocabulary="bytes", files=files)
    base = str(folder / "base")
    home = run(folder, "kto", DECODER, KTO(reference=base), mixture=mixture, start_from=base)
    logged = lines(home)
    assert logged[0]["loss"] == pytest.approx(0.5, abs=1e-5)
    assert logged[-1]["loss"] < 0.45
    assert logged[-1]["desirable_reward"] > logged[-1]["undesirable_reward"]


@pytest.fixture(scope="module")
def reward_run(folder: Path) -> Path:
    """A reward model that prefers capital letters."""
    rated = task(folder, name="rated_answers", streams={"margin": "gap"})
    model = BertConfig(
        **SIZES, max_position_embeddings=48, task="sequence_classification", num_labels=1, dropout_rate=0.0
    )
    evaluation = HeadEvaluation(mixture="rated_answers", inputs_length=32, batch_size=16)
    return run(
        folder,
        "reward",
        model,
        RewardModel(margin="margin", center_rewards_coefficient=0.01),
        mixture=rated,
        loader={"layout": "encoder", "prefix_attention": "bidirectional", "inputs_length": 32},
        evaluations=(evaluation,),
        total_steps=20,
    )


def test_a_reward_model_learns_the_order_of_answers(folder: Path, reward_run: Path) -> None:
    logged = lines(reward_run)
    assert logged[-1]["loss"] < logged[0]["loss"]
    assert logged[-1]["accuracy"] > 0.9
    assert logged[-1]["length_accuracy"] == 0.0  # both answers are as long
    assert lines(reward_run, "validation/rated_answers")[0]["accuracy"] > 0.9
    assert lines(reward_run, "evaluation/rated_answers")[0]["accuracy"] > 90
    exported = folder / "exported"
    assert main(["convert", "--from", str(reward_run), "--to", str(exported), "--export", "hf"]) == 0
    config = read_json(exported / "config.json", dict)
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert config["num_labels"] == 1
    rows = [
        {"prompt": row["prompt"], "answer": row[column]}
        for row in read_jsonl(folder / "pairs.jsonl")
        for column in ("chosen", "rejected")
    ]
    (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    (evaluated,) = (reward_run / "evaluations/step_20").glob("*/predictions.jsonl")
    expected = [reward for row in read_jsonl(evaluated) for reward in row["rewards"]]
    for directory in (reward_run, exported):
        output = folder / f"{directory.name}_rewards.csv"
        table = ["--input", str(folder / "answers.jsonl"), "--output", str(output)]
        assert main(["predict", str(directory), *table, "--prediction_column", "reward"]) == 0
        written = list(csv.DictReader(output.read_text().splitlines()))
        assert [row["answer"] for row in written] == [row["answer"] for row in rows]
        np.testing.assert_allclose([float(row["reward"]) for row in written], expected, rtol=1e-5, atol=1e-5)
        reward = ModelReward(checkpoint=str(directory)).open()  # as methods that write answers read it
        texts = ([row["prompt"] for row in rows], [row["answer"] for row in rows], [""] * len(rows))
        np.testing.assert_allclose(reward(*texts), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="base is no reward model, which predicts a number"):
        ModelReward(checkpoint=str(folder / "base")).open()


def test_rewards_are_predicted_for_answers_only(
    reward_run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(reward_run), "--input", str(folder / "pairs.jsonl")]) == 2
    assert "no column 'answer'; the columns are prompt, chosen, rejected" in capsys.readouterr().err


def test_an_evaluation_of_rewards_has_their_calibration_and_the_longer_answer_as_baseline(
    reward_run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "--checkpoint", str(reward_run)]) == 0
    assert "0.00 (the longer answer)" in capsys.readouterr().out
    entry = read_scores(reward_run / "evaluation")["tasks"]["rated_answers"]
    assert entry["baseline"] == {"accuracy": 0.0}
    calibration = entry["calibration"]
    assert (calibration["pairs"], calibration["accuracy"]) == (32, entry["scores"]["accuracy"])
    assert sum(each["pairs"] for each in calibration["bins"]) == 32
    unevaluated = (
        folder / "unevaluated"
    )  # a run whose configuration names no evaluation is scored in the same way
    shutil.copytree(reward_run, unevaluated)
    record = read_json(unevaluated / "experiment.json", dict)
    record["data"]["evaluations"] = []
    write_json(unevaluated / "experiment.json", record)
    assert main(["evaluate", "--checkpoint", str(unevaluated)]) == 0
    assert read_scores(unevaluated / "evaluation")["tasks"]["rated_answers"]["scores"] == entry["scores"]
    page = folder / "report.html"
    flags = ["--run", f"Rewards={reward_run}", "--evaluation", str(reward_run / "evaluation")]
    assert main(["report", *flags, "--output", str(page)]) == 0
    text = page.read_text()
    assert "32 pairs of answers" in text
    assert "probability of the preferred answer" in text
    assert "per token" not in text  # the loss is one of pairs


def test_a_reward_model_judges_answers(
    reward_run: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for column in ("chosen", "rejected"):
        rows = [
            {"prompt": row["prompt"], "prediction": row[column]} for row in read_jsonl(folder / "pairs.jsonl")
        ]
        write_jsonl(folder / f"{column}.jsonl", rows)
    sides = [str(folder / f"{column}.jsonl") for column in ("chosen", "rejected")]
    flags = ["--judge", str(reward_run), "--output_dir", str(folder / "judged")]
    assert main(["win_rate", *sides, *flags]) == 0
    result = read_json(folder / "judged/win_rate.json", dict)
    assert result["win_rate"] > 90
    assert result["contradictions"] == 0
    assert result["longer_answer"]["ties"] == 32
    assert main(["win_rate", *sides, "--judge", str(folder / "base")]) == 2
    assert "this model is no judge" in capsys.readouterr().err


@pytest.mark.slow
def test_evaluated_runs_are_judged(reward_run: Path, folder: Path) -> None:
    base = str(folder / "base")
    runs = []
    for loss in ("sigmoid", "ipo"):
        method = PreferenceOptimization(reference=base, loss_type=loss)
        runs.append(str(run(folder, f"judged_{loss}", DECODER, method, start_from=base, total_steps=2)))
        assert main(["evaluate", "--checkpoint", runs[-1], "--split", "validation"]) == 0
    output = folder / "judged_runs"
    assert main(["win_rate", *runs, "--judge", str(reward_run), "--output_dir", str(output)]) == 0
    assert read_json(output / "win_rate.json", dict)["pairs"] == 32


@pytest.mark.parametrize(
    ("method", "mixture", "message"),
    [
        (Supervised(), None, "has ranked answers, and Supervised would learn the worse ones"),
        (PreferenceOptimization(), None, "there is none; give reference=CHECKPOINT"),
        (
            PreferenceOptimization(loss_type="simpo"),
            text_task,
            "has one answer in each example; give it a PreferenceTask",
        ),
        (RewardModel(), None, "compares answers that a head of one output reads"),
    ],
)
def test_methods_that_do_not_fit_the_data_are_refused(
    folder: Path, method: Any, mixture: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(folder, "refused", DECODER, method, mixture=mixture and mixture(folder), validations=())
    assert not (folder / "refused").exists()
