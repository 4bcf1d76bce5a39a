"""Exports have a model card that the Hugging Face Hub reads."""

import json

import pytest
import yaml

import t5x_like
from t5x_like.cli.main import main
from t5x_like.pretrained.model_card import ModelCard, card_of
from tests.pretrained.test_pretrained_model import GPT2, write


def front_matter(directory):
    _, head, body = (directory / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(head), body


def write_run(directory, **fields):
    """Makes a directory that looks like a run to its card: configuration and metrics."""
    directory.mkdir()
    (directory / "model.json").write_text("{}")
    config = {"train.mixture": "both", "total_steps": 400, "tasks.0.name": "one", "tasks.1.name": "two"}
    (directory / "config.json").write_text(json.dumps(config | fields))
    lines = [
        {"step": 200, "split": "evaluation/one", "accuracy": 80.5},
        {"step": 400, "split": "train", "loss": 0.1},
        {"step": 400, "split": "evaluation/one", "accuracy": 91.25},
        {"step": 400, "split": "evaluation/one@average", "accuracy": 99.0},
    ]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return directory


def test_an_export_in_python_names_license_base_model_and_size(tmp_path):
    snapshot = tmp_path / "models--tests--tiny-gpt2/snapshots/0123"
    snapshot.parent.mkdir(parents=True)
    write(GPT2, snapshot)
    pretrained = t5x_like.from_pretrained(snapshot)
    t5x_like.export_hugging_face(pretrained, tmp_path / "out", license="apache-2.0")
    head, body = front_matter(tmp_path / "out")
    assert head == {
        "license": "apache-2.0",
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "base_model": "tests/tiny-gpt2",
        "tags": ["t5x_like", "gpt2"],
    }
    # Two tables (4224 and 64 rows of 16), one layer, one final norm.
    layer = 2 * 32 + (16 * 48 + 48) + (16 * 16 + 16) + (16 * 32 + 32) + (32 * 16 + 16)
    assert f"- Parameters: {4224 * 16 + 64 * 16 + layer + 32:,}\n" in body
    assert "GPT2LMHeadModel.from_pretrained" in body
    t5x_like.export_hugging_face(pretrained.model, tmp_path / "alone", config=GPT2)
    assert front_matter(tmp_path / "alone")[0]["license"] == "unknown"
    assert "base_model" not in front_matter(tmp_path / "alone")[0]


def test_convert_writes_the_card_of_its_run(tmp_path):
    write(GPT2, tmp_path / "published")
    assert main(["convert", "--from", str(tmp_path / "published"), "--to", str(tmp_path / "run")]) == 0
    command = ["convert", "--from", str(tmp_path / "run"), "--to", str(tmp_path / "out")]
    assert main([*command, "--export", "hf", "--license", "mit"]) == 0
    assert front_matter(tmp_path / "out")[0]["license"] == "mit"


def test_only_exports_have_a_license(tmp_path, capsys):
    write(GPT2, tmp_path / "published")
    command = ["convert", "--from", str(tmp_path / "published"), "--to", str(tmp_path / "run")]
    assert main([*command, "--license", "mit"]) == 2
    assert "--license is for exports" in capsys.readouterr().err


def test_a_runs_card_has_its_tasks_and_newest_scores(tmp_path):
    card = card_of(write_run(tmp_path / "mine", start_from="/data/bert-base"))
    assert (card.name, card.base_model, card.tasks) == ("mine", "bert-base", ("one", "two"))
    text = card.render(GPT2, {"model_type": "gpt2"}, 1234)
    assert "- Steps: 400\n" in text
    assert "| one | accuracy | 400 | 91.25 |\n" in text
    assert "80.5" not in text
    assert "average" not in text  # those are scores of other weights
    assert "base_model" not in text  # the Hub takes names of the Hub alone


@pytest.mark.parametrize(("step", "scores"), [(200, [80.5]), (100, [])])
def test_an_earlier_step_has_no_later_scores(tmp_path, step, scores):
    card = card_of(write_run(tmp_path / "mine"), step=step)
    assert [score.value for score in card.scores] == scores
    assert card.steps == step


def test_the_card_names_the_scales_of_regressions_that_share_a_layer(tmp_path):
    standardized = {"tasks.0.head.mean": 0.505417, "tasks.0.head.deviation": 1.51369}
    plain = {"tasks.1.head.mean": 0.0, "tasks.1.head.deviation": 1.0}
    card = card_of(write_run(tmp_path / "mine", **standardized, **plain))
    assert card.scales == {"one": (0.505417, 1.51369), "two": (0.0, 1.0)}
    body = card.render(GPT2, {"model_type": "gpt2"}, 1)
    assert "- `one`: output * 1.51369 + 0.505417\n- `two`: output * 1.0 + 0.0\n" in body
    assert "## Scale" not in card_of(write_run(tmp_path / "other", **plain)).render(
        GPT2, {"model_type": "gpt2"}, 1
    )


def test_a_model_in_memory_has_a_card_too():
    assert card_of("(a model in memory)") == ModelCard()
