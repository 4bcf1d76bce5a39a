"""Plain text for an encoder without a head, as sentence encoders are: it learns to fill in masks."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from t5x_like.cli.main import main
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{index}" for index in range(59))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT without a head, and texts of its words."""
    folder = tmp_path_factory.mktemp("plain")
    sizes = {"model_dim": 16, "mlp_dim": 32, "num_heads": 2, "num_layers": 1, "max_position_embeddings": 64}
    config = BertConfig(vocab_size=len(WORDS), task="base", **sizes)
    write_hugging_face(config, parameters.split(config.build(jax.random.key(0)))[1], folder / "encoder")
    (folder / "encoder/vocab.txt").write_text("\n".join(WORDS) + "\n")
    rng = np.random.default_rng(0)
    rows = [{"text": " ".join(rng.choice(WORDS[5:], 70))} for _ in range(60)]
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_an_encoder_without_a_head_gets_one_and_learns(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(folder)
    flags = ("--data", "texts.jsonl", "--task", "pretrain", "--checkpoint", "encoder")
    assert main(["new", "domain", *flags]) == 0
    assert "70 tokens, half of the rows over 70; read in rows of" in capsys.readouterr().out
    monkeypatch.chdir(folder / "domain")
    settings = ("TRAIN_STEPS=2", "WARMUP_STEPS=1", "LOG_EVERY_STEPS=1", "EVALUATE_EVERY_STEPS=0")
    sets = [flag for setting in settings for flag in ("--set", setting)]
    assert main(["train", "--gin_file=recipe.gin", "--model_dir", "runs/first", *sets]) == 0
    assert "has no weights for heads/lm_head" in caplog.text
    assert "has no effect" not in capsys.readouterr().err
    assert json.loads(Path("runs/first/model.json").read_text())["task"] == "masked_lm"
    lines = [json.loads(line) for line in Path("runs/first/metrics.jsonl").read_text().splitlines()]
    losses = [line["cross_entropy"] for line in lines if line["split"] == "train"]
    assert losses[0] == pytest.approx(np.log(len(WORDS)), rel=0.2)


def test_a_model_that_is_written_down_without_a_head_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["new", "written", "--data", "texts.jsonl", "--task", "pretrain"]) == 0
    monkeypatch.chdir(folder / "written")
    files = ("gin/models/bert/tiny.gin", "gin/objectives/masked_lm.gin")
    flags = [f"--gin_file={name}" for name in ("recipe.gin", *files)]
    settings = (
        "VOCABULARY=../encoder",
        "LoaderConfig.layout=encoder",
        "BertConfig.task=base",
        "INPUTS_LENGTH=32",
    )
    sets = [flag for setting in settings for flag in ("--set", setting)]
    assert main(["config", "validate", *flags, "--model_dir", "runs/first", *sets]) == 2
    assert "has tokens to predict, and the model has no head; give it the task" in capsys.readouterr().err
