"""The examples in docs/examples run, from any folder; the T5 one is the quickstart's recipe."""

import json
import os
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import jax
import pytest

from t5x_like.gin_config.configuration import load
from t5x_like.io.files import read_json, read_jsonl
from t5x_like.model import parameters
from t5x_like.model.zoo.bert import BertConfig
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.training.experiment import describe
from tests.integration.programs import command

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]


def run(name: str, folder: Path, *flags: str) -> subprocess.CompletedProcess:
    """Runs an example as a user does, in ``folder``."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR", str(folder / "compiled"))
    }
    done = subprocess.run(
        command(EXAMPLES / name, *flags),
        cwd=folder,
        env=os.environ | cache,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_t5_trains_on_a_text_file(tmp_path):
    lines = [f"the {index} kings of the land went up to the city" for index in range(300)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    flags = ("--text=text.txt", "--validation=text.txt", "--model_dir=run", "--steps=3")
    done = run("train_t5.py", tmp_path, *flags)
    assert "step 3/3  validation/my_text  loss" in done.stderr
    assert (tmp_path / "run/3").is_dir()
    done = run("use_a_checkpoint.py", tmp_path, "--checkpoint=run", "--text=the 3 kings", "--export=export")
    assert done.stdout.startswith("Pretrained(T5, ")
    assert "the 3 kings -> " in done.stdout
    assert (tmp_path / "export/model.safetensors").exists()


def test_the_t5_example_is_the_quickstarts_recipe():
    spec = spec_from_file_location("train_t5", EXAMPLES / "train_t5.py")
    example = module_from_spec(spec)
    spec.loader.exec_module(example)
    own = example.experiment("a.txt", "b.txt", "runs/x", 600)
    loaded = load(
        ["gin/recipes/quickstart/pretrain.gin"],
        ["MODEL_DIR='runs/x'"],
        roots=["t5x_like.training.experiment.Experiment"],
    )

    def named(experiment):
        fields = describe(experiment.with_fields(tasks=()))
        return {name: value for name, value in fields.items() if not name.endswith(".mixture")}

    assert named(own) == named(loaded.value)
    quickstart_task = next(task for task in loaded.value.data.tasks if task.name == "king_james")
    assert own.data.tasks[0].objective == quickstart_task.objective


@pytest.mark.slow
@pytest.mark.parametrize("head_only", [False, True])
def test_bert_is_fine_tuned(tmp_path, head_only):
    config = BertConfig(
        vocab_size=len(PIECES),
        model_dim=16,
        mlp_dim=32,
        num_heads=2,
        num_layers=1,
        max_position_embeddings=64,
        task="masked_lm",
    )
    write_hugging_face(config, parameters.split(config.build(jax.random.key(0)))[1], tmp_path / "bert")
    (tmp_path / "bert/vocab.txt").write_text("\n".join(PIECES) + "\n")
    flags = ("--checkpoint=bert", "--model_dir=run", "--steps=4", *(["--head_only"] if head_only else []))
    run("fine_tune_bert.py", tmp_path, *flags)
    scores = json.loads((tmp_path / "run/evaluations/step_4/scores.json").read_text())
    assert "accuracy" in json.dumps(scores)
    saved = {
        name.split("/")[1] for name in read_json(tmp_path / "run/4/leaves.json") if name.startswith("params/")
    }
    assert ("encoder" in saved) != head_only
    assert "evaluation/definitions" in [line["split"] for line in read_jsonl(tmp_path / "run/metrics.jsonl")]


@pytest.mark.slow
def test_an_own_loop_trains_saves_and_predicts(tmp_path):
    done = run("own_training_loop.py", tmp_path, "--steps=40", "--model_dir=run")
    losses = [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("step ")]
    assert len(losses) == 2
    assert losses[1] < losses[0]
    assert "In the beginning God created the heaven and the ..." in done.stdout
