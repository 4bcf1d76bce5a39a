"""Runs whose decoder reads inputs in order answer the prompts that they were trained on."""

import json
from pathlib import Path
from typing import Any

import pytest

from t5x_like.cli.main import main
from t5x_like.evaluation.evaluator import TaskEvaluation
from t5x_like.inference.generator import GenerationConfig
from t5x_like.io.files import read_json, read_jsonl
from t5x_like.model.zoo.gpt2 import GPT2Config
from t5x_like.optimizers.optimizers import AdamW
from t5x_like.optimizers.schedules import Constant
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.batches.loader_config import LoaderConfig
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.training.experiments import experiment_of

MODEL = GPT2Config(
    vocab_size=384, model_dim=32, mlp_dim=64, num_heads=2, num_layers=1, max_position_embeddings=16
)
LENGTHS: dict[str, Any] = {"inputs_length": 4, "targets_length": 8}
ROWS = [{"q": f"{a}{b}", "a": f"{b}{a}"} for a in "abcd" for b in "efgh"]


@pytest.mark.slow
def test_a_run_with_causal_prefixes_answers_its_training_rows(tmp_path: Path) -> None:
    table, home = tmp_path / "swap.jsonl", tmp_path / "run"
    table.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    task = TextTask(
        name="swap_in_order",
        vocabulary="bytes",
        files={split: str(table) for split in ("train", "test")},
        input_template="{q}",
        target_template="{a}",
        metrics=("sequence_accuracy",),
    )
    loader = LoaderConfig(
        mixture=task.name, batch_size=16, pack=False, layout="decoder", prefix_attention="causal", **LENGTHS
    )
    evaluation = TaskEvaluation(
        mixture=task.name,
        split="train",
        batch_size=16,
        generation=GenerationConfig(max_new_tokens=4),
        **LENGTHS,
    )
    train(
        experiment_of(
            model=MODEL,
            train=loader,
            evaluations=(evaluation,),
            tasks=(task,),
            total_steps=150,
            intervals=Intervals(log_every_steps=50, evaluate_every_steps=150, save_every_steps=0),
            optimizer=AdamW(learning_rate=Constant(value=1e-2)),
            model_dir=str(home),
        )
    )
    logged = [line for line in read_jsonl(home / "metrics.jsonl") if line["split"].startswith("evaluation")]
    assert [line["sequence_accuracy"] for line in logged] == [100]
    assert main(["evaluate", "--checkpoint", str(home)]) == 0
    scores = read_json(home / "evaluation" / "scores.json")
    assert scores["tasks"][task.name]["scores"]["sequence_accuracy"] == 100
    output = tmp_path / "predicted.jsonl"
    assert main(["predict", "--checkpoint", str(home), "--input", str(table), "--output", str(output)]) == 0
    assert [row["prediction"] for row in read_jsonl(output)] == [row["a"] for row in ROWS]
    export = tmp_path / "export"
    assert main(["convert", "--from", str(home), "--to", str(export), "--export", "hf"]) == 0
    for directory in (home, export):
        assert open_checkpoint(directory).prompt_encoder.prefix_ids == ()
