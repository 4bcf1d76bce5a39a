"""Recurrent models by their recipes on shipped data: trained, evaluated, asked, embedded, shown and reported."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import t5x_like
from t5x_like.cli.main import main
from t5x_like.io.files import read_json, read_jsonl, shipped_directory

DATA = shipped_directory("data")
RECIPES = "gin/recipes/comparisons"
SMALL = {"BATCH_SIZE": 8, "INPUTS_LENGTH": 32, "TRAIN_STEPS": 2, "LOG_EVERY_STEPS": 1}


def train(recipe: str, run: Path, **changes: Any) -> None:
    """Train two steps of a few rows."""
    named = [f"--set={name}={value}" for name, value in (SMALL | changes).items()]
    assert main(["train", f"--gin_file={RECIPES}/{recipe}.gin", f"--model_dir={run}", *named]) == 0


def head(file: str, num_rows: int, folder: Path) -> Path:
    """Copy the first rows of a shipped file, which are enough for two steps."""
    lines = (DATA / file).read_text().splitlines(keepends=True)
    copied = folder / Path(file).name
    copied.write_text("".join(lines[: num_rows + 1]))
    return copied


def evaluated(run: Path, task: str, *flags: str) -> dict[str, Any]:
    assert main(["evaluate", f"--checkpoint={run}", "--split=validation", "--set=LIMIT=6", *flags]) == 0
    return read_json(run / "evaluation" / "scores.json")["tasks"][task]


def predicted(run: Path, task: str, *flags: str) -> list[Any]:
    output = run.parent / "answers.jsonl"
    flags = f"--checkpoint={run}", f"--task={task}", f"--output={output}", *flags
    assert main(["predict", *flags]) == 0
    return [row["prediction"] for row in read_jsonl(output)]


def check_report(run: Path) -> None:
    """The run is reported with its scores."""
    page = run.parent / "page.html"
    flags = f"--run=Shown={run}", f"--evaluation={run}/evaluation", f"--output={page}"
    assert main(["report", *flags]) == 0
    assert "Shown" in page.read_text()


def check_weights(run: Path, capsys: pytest.CaptureFixture[str], *, weight: str) -> None:
    """The run's weights are listed."""
    capsys.readouterr()
    assert main(["model", "show", str(run)]) == 0
    assert weight in capsys.readouterr().out


def check_embeddings(run: Path, width: int) -> None:
    """Texts have vectors of one width, whatever they are padded with."""
    model = t5x_like.from_pretrained(str(run))
    alone, both = model.embed(["bread"]), model.embed(["bread", "a kind of bread with many words"])
    assert both.shape == (2, width)
    np.testing.assert_allclose(both[0], alone[0], rtol=1e-5, atol=1e-5)
    assert np.abs(both[0] - both[1]).max() > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"RNNSeq2SeqConfig.attention": None, "RNNSeq2SeqConfig.input_feeding": "none"}],
    ids=["attention", "last state"],
)
def test_a_sequence_to_sequence_model_writes_by_beams_and_greedily(
    changes: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, run = head("cmudict/validation.tsv", 40, tmp_path), tmp_path / "run"
    files = dict.fromkeys(("TRAIN_FILES", "VALIDATION_FILES", "TEST_FILES"), rows)
    sizes = {
        "RNNSeq2SeqConfig.model_dim": 8,
        "RNNSeq2SeqConfig.hidden_dim": 8,
        "TaskEvaluation.batch_size": 8,
        "EVALUATE_EXAMPLES": 6,
        "WARMUP_STEPS": 1,
    }
    task = f"pronunciation_{len(changes)}"
    train("toy_pronunciation", run, MIXTURE=task, **files, **sizes, **changes)
    beams = list(read_jsonl(run / "evaluations/step_2" / task / "predictions.jsonl"))
    one_beam = "--set=GenerationConfig.num_beams=1"
    assert evaluated(run, task, one_beam, "--set=EVALUATION_BATCH_SIZE=8")["examples"] == 6
    greedy = list(read_jsonl(run / "evaluation" / task / "predictions.jsonl"))
    input_flags = [f"--input={row['input']}" for row in beams]
    for flags, rows in (((), beams), ((one_beam,), greedy)):
        answers = predicted(run, task, *input_flags, "--batch_size=8", *flags)
        assert answers == [row["prediction"] for row in rows]
    check_weights(run, capsys, weight="decoder/layers/0/forward")


@pytest.mark.slow
def test_a_tagger_learns_from_sentences_without_tags_in_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train_rows, rows = (head(f"oanc_tags/{split}.tsv", 60, tmp_path) for split in ("train", "validation"))
    changes: dict[str, Any] = {
        "TRAIN_FILES": train_rows,
        "VALIDATION_FILES": rows,
        "MIXTURE": "tags_and_sentences",
        "LoaderConfig.alternate_tasks": True,
        "BiLSTMConfig.model_dim": 8,
        "BiLSTMConfig.hidden_dim": 8,
        "BiLSTMConfig.cross_view_weight": 1.0,
        "WARMUP_STEPS": 1,
    }
    run = tmp_path / "run"
    train("toy_tagging", run, **changes)
    first, second = (row for row in read_jsonl(run / "metrics.jsonl") if row["split"] == "train")
    assert first["target_tokens"] > 0 == second["target_tokens"]
    assert "cross_view_loss" not in first
    assert second["cross_view_loss"] > 0
    assert 0 <= evaluated(run, "tags")["scores"]["tag_accuracy"] <= 100
    row = '{"words": "Bread is good ."}'
    tags, none, also_tags = predicted(run, "tags", "--input=Bread is good .", "--input=", f"--input={row}")
    assert len(tags.split()) == 4
    assert also_tags == tags
    assert none == ""
    check_embeddings(run, 2 * 2 * 8)
    check_report(run)
    check_weights(run, capsys, weight="views/scores")


@pytest.mark.slow
def test_a_language_model_is_tuned_and_classifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ULMFiT's three stages, with a classifier that reads pieces."""
    sizes = {"AWDLSTMConfig.model_dim": 8, "AWDLSTMConfig.hidden_dim": 12, "TRAIN_STEPS": 10}
    train("toy_ulmfit_pretrain", tmp_path / "general", **sizes, WARMUP_STEPS=1)
    rows = head("wordnet_definitions/validation.tsv", 60, tmp_path)
    files = dict.fromkeys(("TRAIN_FILES", "VALIDATION_FILES"), rows)
    train("ulmfit", tmp_path / "tuned", **files, **sizes, INITIAL_CHECKPOINT=tmp_path / "general")
    run = tmp_path / "run"
    changes = {"INITIAL_CHECKPOINT": tmp_path / "tuned", "GradualUnfreezing.every_steps": 2}
    train("toy_ulmfit_classify", run, **files, **sizes, **changes)
    backward = [f"--set={name}={value}" for name, value in (SMALL | files | sizes | changes).items()]
    recipe = f"--gin_file={RECIPES}/toy_ulmfit_classify.gin"
    assert (
        main(["train", recipe, f"--model_dir={tmp_path}/other", *backward, "--set=DIRECTION=backward"]) == 2
    )
    assert "reads rows forward, and the one to train has direction='backward'" in capsys.readouterr().err
    assert evaluated(run, "kinds_of_things")["examples"] == 6
    kinds = predicted(run, "kinds_of_things", "--input=a round bread", "--input=")
    assert set(kinds) <= {"animal", "artifact", "food", "person", "place", "plant"}
    check_embeddings(run, 8)
    check_report(run)
    check_weights(run, capsys, weight="pooler")
