"""A recipe for a head by its command, and the run that it leaves asked again."""

import json

import jax
import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import read_json, read_jsonl, shipped_directory
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face

WORDS = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), *["Ann", "saw", "Bo", "as", "he", "left", ".", "*"]]


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A tiny BERT, and WSC's files below $T5X_LIKE_DATA."""
    config = BertConfig(
        vocab_size=len(WORDS), model_dim=16, mlp_dim=32, num_heads=2, num_layers=1, max_position_embeddings=64
    )
    directory = tmp_path / "bert"
    write_hugging_face(config, parameters.split(config.build(jax.random.key(0)))[1], directory)
    (directory / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    folder = tmp_path / "data/super_glue/WSC"
    folder.mkdir(parents=True)
    place = {"span1_index": 0, "span1_text": "Ann", "span2_index": 4, "span2_text": "he"}
    rows = [{"text": "Ann saw Bo as he left .", "target": place, "idx": index} for index in range(16)]
    for split in ("train", "val"):
        lines = [json.dumps(row | {"label": row["idx"] % 2 == 0}) for row in rows]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("T5X_LIKE_DATA", str(tmp_path / "data"))
    return directory


@pytest.mark.slow
def test_a_run_is_asked_what_it_evaluated_itself_and_not_what_it_learned_from(published, tmp_path, capsys):
    gin, run = shipped_directory("gin"), tmp_path / "run"
    files = [f"--gin_file={gin}/recipes/bert/super_glue_wsc.gin", f"--gin_file={gin}/hardware/cpu.gin"]
    macros = {
        "INITIAL_CHECKPOINT": str(published),
        "MODEL_DIR": str(run),
        "TRAIN_STEPS": 1,
        "WARMUP_STEPS": 0,
    }
    sizes = {"BATCH_SIZE": 8, "INPUTS_LENGTH": 32, "EVALUATE_EVERY_STEPS": 0}
    assert (
        main(["train", *files, *(f"--gin.{name}={value!r}" for name, value in (macros | sizes).items())]) == 0
    )
    assert read_json(run / "classes.json") == {"classes": ["False", "True"]}
    capsys.readouterr()
    assert main(["evaluate", f"--checkpoint={run}", "--gin.LIMIT=10", "--gin.EVALUATION_BATCH_SIZE=8"]) == 0
    name, metric, _, _, rows = capsys.readouterr().out.splitlines()[1].split()
    assert (name, metric, rows) == ("super_glue_wsc_v102_simple_eval", "accuracy", "10")
    assert main(["evaluate", f"--checkpoint={run}", "--split=test"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [name, "-", "-", "-", "16"]
    assert [row["idx"] for row in read_jsonl(run / "evaluation" / name / "predictions.jsonl")] == list(
        range(16)
    )


@pytest.mark.slow
def test_lines_are_predicted_by_a_runs_head(published, tmp_path, monkeypatch, capsys):
    rows = ["Ann saw Bo\tyes", "he left .\tno"] * 16
    (tmp_path / "rows.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    (tmp_path / "own.gin").write_text(
        "from __gin__ import dynamic_registration\n"
        "from t5x_like.text.tasks import text_task\n"
        "include 'gin/hardware/cpu.gin'\n"
        "include 'gin/runs/finetune_head.gin'\n"
        "TASKS = (@text_task.TextTask(),)\n"
        "MIXTURE = 'own'\n"
        "text_task.TextTask:\n"
        "    name = 'own'\n"
        "    vocabulary = %VOCABULARY\n"
        "    num_sentinels = 0\n"
        "    files = {'train': 'rows.tsv', 'validation': 'rows.tsv'}\n"
        "    input_template = '{text}'\n"
        "    target_template = '{label}'\n"
        "    labels = ('no', 'yes')\n"
    )
    monkeypatch.chdir(tmp_path)
    macros = {"INITIAL_CHECKPOINT": str(published), "MODEL_DIR": "run", "TRAIN_STEPS": 30, "WARMUP_STEPS": 0}
    sizes = {"BATCH_SIZE": 8, "INPUTS_LENGTH": 32, "LEARNING_RATE": 0.01}
    flags = [f"--gin.{name}={value!r}" for name, value in (macros | sizes).items()]
    assert main(["train", "--gin_file=own.gin", *flags]) == 0
    capsys.readouterr()
    input_flags = ["--input=Ann saw Bo", "--input=he left .", "--input=saw Bo"]
    assert (
        main(["predict", "--checkpoint=run", "--task=own", *input_flags, "--gin.PREDICTION_BATCH_SIZE=8"])
        == 0
    )
    assert capsys.readouterr().out.split() == ["yes", "no", "yes"]
    wnli = ["predict", "--checkpoint=run", "--task=super_glue_wsc_v102_simple_eval"]
    assert main([*wnli, "--input=Ann saw Bo"]) == 2
    assert "give a JSON object with them on each line, not 'Ann saw Bo'" in capsys.readouterr().err
