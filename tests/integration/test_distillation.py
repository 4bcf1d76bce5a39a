"""Distillation from end to end: a teacher trains, its student is made and trained, stopped, resumed and scored."""

import json
import logging
import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import read_json, read_jsonl, write_json
from t5x_like.model import parameters
from t5x_like.optimizers.schedules import Constant
from t5x_like.pretrained.hugging_face_export import write_hugging_face
from t5x_like.pretrained.open_checkpoint import open_checkpoint
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.experiment import Experiment
from t5x_like.training.methods.distillation import Distillation
from t5x_like.training.methods.supervised import Supervised
from t5x_like.training.run_config import Intervals
from t5x_like.training.train import train
from tests.integration import test_frozen_weights as letters
from tests.integration import tiny_run

published, task = letters.published, letters.task


@pytest.fixture(scope="module")
def two_layers(tmp_path_factory):
    """A pretrained model of two layers as Hugging Face has it, with a vocabulary."""
    directory = tmp_path_factory.mktemp("published") / "bert"
    config = replace(letters.BERT, num_layers=2)
    write_hugging_face(config, parameters.split(config.build(jax.random.key(1)))[1], directory)
    (directory / "vocab.txt").write_text("\n".join(letters.PIECES) + "\n")
    return directory


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, two_layers, task):
    """A run of two layers that has learned the task, and a student of its first layer."""
    folder = tmp_path_factory.mktemp("teacher")
    whole = letters.experiment(task, two_layers, folder / "teacher", trainable=("*",))
    train(whole.with_fields(optimizer=replace(whole.optimizer, learning_rate=Constant(value=0.01))))
    assert (
        main(["convert", "--from", str(folder / "teacher"), "--to", str(folder / "student"), "--every", "2"])
        == 0
    )
    return folder


def distilled(task, folder, name: str, **options) -> Experiment:
    settings = {"teacher": str(folder / "teacher"), **options.pop("distillation", {})}
    experiment = letters.experiment(
        task,
        folder / "student",
        folder / name,
        **{"trainable": ("*",), "method": Distillation(**settings), "total_steps": 20, **options},
    )
    return experiment.with_fields(optimizer=replace(experiment.optimizer, learning_rate=Constant(value=0.01)))


def lines(run) -> list[dict]:
    return [line for line in read_jsonl(run / "metrics.jsonl") if line["split"] == "train"]


@pytest.fixture(scope="module")
def whole(teacher, task) -> Experiment:
    """The experiment of a student that has learned from its teacher, uninterrupted."""
    base = distilled(task, teacher, "whole", total_steps=10)
    intervals = Intervals(log_every_steps=1, evaluate_every_steps=0, save_every_steps=5)
    base = base.with_fields(intervals=intervals)
    assert train(base).step == 10
    return base


@pytest.mark.slow
def test_a_student_learns_from_its_teacher_and_resumes_to_the_bit(teacher, whole):
    logged = lines(teacher / "whole")
    assert logged[-1]["soft_sequence_loss"] < logged[0]["soft_sequence_loss"]
    assert {"encoder_cosine_loss", "loss"} <= logged[0].keys()
    assert "soft_target_loss" not in logged[0]
    parts = whole.with_fields(model_dir=str(teacher / "parts"))
    train(parts.with_fields(total_steps=5))
    assert train(parts).step == 10
    kept = ("loss", "soft_sequence_loss", "encoder_cosine_loss", "gradient_norm")
    for line, logged_line in zip(lines(teacher / "parts"), logged, strict=True):
        assert {name: line[name] for name in kept} == {name: logged_line[name] for name in kept}
    a, b = (parameters.flatten(open_checkpoint(teacher / name).params) for name in ("parts", "whole"))
    for path, leaf in a.items():
        np.testing.assert_array_equal(leaf, b[path])
    record = read_json(teacher / "whole" / "teacher.json")
    assert (record["teacher"], record["step"]) == (str(teacher / "teacher"), 40)
    assert not any("teacher" in name for name in read_json(teacher / "whole" / "10" / "leaves.json"))


@pytest.mark.slow
def test_a_teacher_that_has_changed_is_refused_on_resume_and_its_step_is_kept(teacher, whole, tmp_path):
    shutil.copytree(teacher / "whole", tmp_path / "changing")
    longer = whole.with_fields(model_dir=str(tmp_path / "changing"), total_steps=15)
    record = read_json(tmp_path / "changing" / "teacher.json")
    write_json(tmp_path / "changing" / "teacher.json", {**record, "identity": "other"})
    with pytest.raises(ValueError, match=r"has other weights than when .*changing was started"):
        train(longer)
    write_json(tmp_path / "changing" / "teacher.json", {**record, "step": 999})
    with pytest.raises((ValueError, FileNotFoundError), match="999"):
        train(longer)


@pytest.mark.slow
def test_kept_predictions_train_as_computed_ones(teacher, task):
    base = distilled(task, teacher, "computed", distillation={"hidden_states_weight": 0.0}, total_steps=4)
    base = base.with_fields(intervals=replace(base.run.intervals, log_every_steps=1))
    kept = replace(base.method, logits_dir=str(teacher / "logits"))
    train(base)
    train(base.with_fields(method=kept, model_dir=str(teacher / "writing")))
    files = sorted((teacher / "logits").glob("*.npz"))
    assert [file.name for file in files] == [f"{step:08d}.npz" for step in range(4)]
    times = [file.stat().st_mtime_ns for file in files]
    train(base.with_fields(method=kept, model_dir=str(teacher / "reading")))
    assert [file.stat().st_mtime_ns for file in files] == times
    computed, writing, reading = (
        [line["soft_sequence_loss"] for line in lines(teacher / name)]
        for name in ("computed", "writing", "reading")
    )
    assert reading == writing
    np.testing.assert_allclose(writing, computed, rtol=1e-4)
    other = base.with_fields(method=kept, model_dir=str(teacher / "other"))
    with pytest.raises(ValueError, match="of another batch than this run has at step 0"):
        train(other.with_fields(train=replace(base.data.train, seed=7)))
    with pytest.raises(ValueError, match=r"temperature is 2.0 there and 3.0 here"):
        train(other.with_fields(method=replace(kept, temperature=3.0), model_dir=str(teacher / "hot")))


@pytest.mark.slow
def test_a_run_without_its_teacher_is_another_run(whole):
    with pytest.raises(ValueError, match=r"teacher: the run has '.*', you ask for 'nothing'"):
        train(whole.with_fields(method=Supervised(), total_steps=15))


@pytest.mark.slow
def test_teachers_that_do_not_fit_are_refused_with_what_differs(teacher, task, tmp_path, published):
    def refused(message: str, directory, **options) -> None:
        base = distilled(task, teacher, "refused", distillation={"teacher": str(directory), **options})
        with pytest.raises(ValueError, match=message):
            train(base)
        assert not (teacher / "refused").exists()

    def copy(name: str, pieces=tuple(letters.PIECES), classes=("vowel", "none"), **changes):
        config = replace(letters.BERT, task="sequence_classification", num_labels=len(classes), **changes)
        params = parameters.split(config.build(jax.random.key(1)))[1]
        write_hugging_face(config, params, tmp_path / name, classes=classes)
        (tmp_path / name / "vocab.txt").write_text("\n".join(pieces) + "\n")
        return tmp_path / name

    other = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdxyzh")
    refused("id 9 is 'e' there|id 9 is 'x' there and 'e' here, and 2 more differ", copy("other", other))
    longer = (*letters.PIECES, "i", "j")
    refused("15 ids without sentinels there, 13 here", copy("longer", longer, vocab_size=15))
    refused("is 32 wide and the student 16.*hidden_states_weight=0", copy("wide", model_dim=32))
    refused("predicts yes, no, the task needs vowel, none", copy("named", classes=("yes", "no")))
    refused("with 3 scores", copy("three", classes=("a", "b", "c")))
    refused("8 positions; lower it to at most 8", copy("short", max_position_embeddings=8))
    refused("needs a head for sequence classification", published)
    refused("holds no model", tmp_path)


@pytest.mark.slow
def test_a_wider_teacher_with_classes_in_another_order_teaches_by_names(teacher, task, tmp_path, caplog):
    config = replace(letters.BERT, task="sequence_classification", model_dim=32)
    params = parameters.split(config.build(jax.random.key(1)))[1]
    write_hugging_face(config, params, tmp_path / "teacher", classes=("NONE", "Vowel"))
    (tmp_path / "teacher" / "vocab.txt").write_text("\n".join(letters.PIECES) + "\n")
    wide = {"teacher": str(tmp_path / "teacher"), "hidden_states_weight": 0.0}
    with caplog.at_level(logging.WARNING):
        train(distilled(task, teacher, "wide", distillation=wide, total_steps=2))
    assert "classes in another order" in caplog.text
    assert "encoder_cosine_loss" not in lines(teacher / "wide")[-1]


@pytest.fixture(scope="module")
def counting(directory):
    """The folder with data, and a run of an encoder-decoder in it."""
    tiny_run.run(directory, model_dir=str(directory / "teacher"), total_steps=6)
    return directory


@pytest.mark.slow
def test_an_encoder_decoder_teaches_one_of_fewer_layers(counting):
    flags = ["--from", str(counting / "teacher"), "--to", str(counting / "student")]
    assert main(["convert", *flags, "--decoder_layers", "0"]) == 0
    student = replace(tiny_run.MODEL, num_decoder_layers=1)
    distillation = Distillation(teacher=str(counting / "teacher"), soft_target_tokens="targets")
    finished = tiny_run.run(
        counting,
        model_dir=str(counting / "distilled"),
        total_steps=6,
        model=student,
        start_from=str(counting / "student"),
        method=distillation,
        validations=(
            replace(
                tiny_run.experiment(counting, model_dir="", total_steps=1).data.train, split="validation"
            ),
        ),
    )
    assert {"soft_target_loss", "encoder_cosine_loss", "decoder_cosine_loss"} <= finished.last["train"].keys()
    assert "soft_target_loss" not in finished.last["validation/counting_and_capitals"]


@pytest.mark.slow
def test_a_teachers_answers_are_the_targets_of_a_task(counting):
    teacher = counting / "teacher"
    (counting / "inputs.txt").write_text("one 1\ntwo 2\nthree 3\n")
    flags = ["--checkpoint", str(teacher), "--task", "capitals", "--input_file", str(counting / "inputs.txt")]
    beams = counting / "beams.jsonl"
    flags += ["--output", str(beams), "--gin.generator.GenerationConfig.num_beams=2"]
    assert main(["predict", *flags, "--set", "PREDICTION_BATCH_SIZE=8"]) == 0
    rows = list(read_jsonl(beams))
    assert [row["input"] for row in rows] == ["capital: one 1", "capital: two 2", "capital: three 3"]
    lines = [json.dumps({**row, "prediction": row["prediction"] or "?"}) for row in rows]
    beams.write_text("\n".join(lines) + "\n")
    task = TextTask(
        name="beams_of_a_teacher",
        vocabulary="bytes",
        files={"train": str(beams)},
        input_template="{input}",
        target_template="{prediction}",
    )
    train_config = replace(
        tiny_run.experiment(counting, model_dir="", total_steps=1).data.train, mixture=task.name
    )
    finished = tiny_run.run(
        counting, model_dir=str(counting / "taught"), total_steps=2, tasks=(task,), train=train_config
    )
    assert finished.completed
