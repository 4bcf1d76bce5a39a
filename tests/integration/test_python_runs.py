"""A run that was configured in plain Python is worth as much as one by gin: every verb works on it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import t5x_like
from t5x_like.cli.main import main
from t5x_like.io.files import read_json, read_jsonl
from t5x_like.training.run_record import read_experiment

WORDS = ("cat", "dog", "bird", "fish", "cow", "hen", "ox", "bee")


def experiment(model_dir: str, total_steps: int) -> t5x_like.Experiment:
    """Spelling of eight words, by a T5 of one layer."""
    task = t5x_like.TextTask(
        name="python_spelling",
        vocabulary="bytes",
        files=dict.fromkeys(("train", "validation", "test"), "words.tsv"),
        input_template="spell: {word}",
        target_template="{letters}",
    )
    return t5x_like.Experiment(
        model=t5x_like.T5Config(
            vocab_size=384,
            model_dim=16,
            mlp_dim=32,
            num_heads=2,
            head_dim=8,
            num_encoder_layers=1,
            num_decoder_layers=1,
        ),
        data=t5x_like.TrainingData(
            tasks=(task,),
            train=t5x_like.LoaderConfig(
                mixture="python_spelling", batch_size=8, inputs_length=16, targets_length=16
            ),
        ),
        optimizer=t5x_like.AdamW(learning_rate=1e-3),
        run=t5x_like.RunConfig(
            model_dir=model_dir,
            total_steps=total_steps,
            intervals=t5x_like.Intervals(log_every_steps=1),
            hooks=(t5x_like.CsvLogger(),),
        ),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spelling")
    rows = "".join(f"{word}\t{' '.join(word)}\n" for word in WORDS)
    (folder / "words.tsv").write_text("word\tletters\n" + rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        t5x_like.train(experiment("run", 2))
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


def test_its_configuration_is_recorded_as_data():
    assert read_experiment("run") == replace(experiment("run", 2), trainable=("*",)), (
        "what None means is recorded"
    )
    assert not Path("run/config.gin").exists()


def test_predict_answers(capsys):
    assert main(["predict", "--checkpoint", "run", "--task", "python_spelling", "--input", "cat"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_evaluate_scores_by_command_and_in_python(capsys):
    assert main(["evaluate", "--checkpoint", "run"]) == 0
    scores = read_json("run/evaluation/scores.json")
    assert scores["tasks"]["python_spelling"]["split"] == "test"
    assert main(["evaluate", "--checkpoint", "run", "--split", "validation", "--output_dir", "other"]) == 0
    result = t5x_like.evaluate("run", split="validation", output_dir="third")["python_spelling"]
    assert result.scores == read_json("other/scores.json")["tasks"]["python_spelling"]["scores"]
    assert len(result.rows) == len(WORDS)


def test_report_shows_it(folder):
    assert main(["evaluate", "--checkpoint", "run"]) == 0
    command = ["report", "--run", "Spelling=run", "--evaluation", "run/evaluation", "--output", "report.html"]
    assert main(command) == 0
    page = (folder / "report.html").read_text()
    assert "Spelling" in page
    assert "<svg" in page


def test_convert_exports_it():
    assert main(["convert", "--from", "run", "--to", "export", "--export", "hf"]) == 0
    assert json.loads(Path("export/config.json").read_text())["model_type"] == "t5"
    assert t5x_like.from_pretrained("export").config.vocab_size == 384


def test_it_is_opened_as_a_model():
    assert isinstance(t5x_like.from_pretrained("run").generate("spell: cat", max_new_tokens=3), str)


def test_it_is_continued_from_its_record():
    finished = t5x_like.train(read_experiment("run", total_steps=4))
    assert finished.step == 4
    whole = t5x_like.train(experiment("whole", 4))
    assert finished.last["train"]["loss"] == whole.last["train"]["loss"]
    assert [line["step"] for line in read_jsonl("run/metrics.jsonl")] == [1, 2, 3, 4]
    assert Path("run/metrics.csv").read_text().count("\n4,train,loss,") == 1
    assert read_experiment("run").run.total_steps == 4


@pytest.mark.slow
def test_it_is_continued_by_the_command(capsys):
    t5x_like.train(experiment("command", 2))
    assert main(["train", "--model_dir", "command"]) == 0
    assert "command: complete at step 2" in capsys.readouterr().err
    assert main(["train", "--model_dir", "command", "--set", "BATCH_SIZE=4"]) == 2
    assert "did you mean 'LoaderConfig.batch_size'" in capsys.readouterr().err
    changes = ["--set", "RunConfig.total_steps=3", "--set", "Intervals.save_every_steps=1"]
    assert main(["train", "--model_dir", "command", *changes]) == 0
    assert "command: resumed at step 2, 3 steps in all" in capsys.readouterr().err
    assert read_experiment("command").run.intervals.save_every_steps == 1


@pytest.mark.slow
def test_a_finished_run_asked_for_fewer_steps_says_so(capsys):
    t5x_like.train(experiment("finished", 3))
    capsys.readouterr()
    assert t5x_like.train(experiment("finished", 2)).step == 3
    said = capsys.readouterr().err
    assert "complete at step 3, 2 were asked for; give more than 3 total_steps to go on" in said
    assert "resumed" not in said
    t5x_like.train(experiment("finished", 3))
    assert "finished: complete at step 3\n" in capsys.readouterr().err


@pytest.mark.slow
def test_hardware_may_change_when_it_continues():
    half = experiment("hardware", 2)
    half = half.with_fields(train=replace(half.data.train, batch_size=16))
    t5x_like.train(half)
    changed = replace(
        half,
        total_steps=4,
        num_microbatches=2,
        mesh=t5x_like.MeshConfig(data=4, fsdp=2),
        model=replace(half.model, remat="full"),
    )
    assert t5x_like.train(changed).step == 4
    other = changed.with_fields(total_steps=5, model=replace(changed.model, compute_dtype="bfloat16"))
    with pytest.raises(ValueError, match="allow_compute_dtype_change=True allows that"):
        t5x_like.train(other)
    assert t5x_like.train(other.with_fields(allow_compute_dtype_change=True)).step == 5
