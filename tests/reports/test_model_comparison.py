"""Students next to teachers: sizes, speeds and scores, in a table and on the page."""

import re

import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import write_json
from t5x_like.reports.model_comparison import ComparedModel, compare_models, models_table


@pytest.fixture(scope="module")
def pair(tmp_path_factory, golden):
    """A teacher of two layers, and a student of one that was evaluated."""
    folder = tmp_path_factory.mktemp("models")
    teacher = golden / "models" / "bert_seqcls"
    assert main(["convert", "--from", str(teacher), "--to", str(folder / "student"), "--every", "2"]) == 0
    scores = {"tasks": {"sst2": {"scores": {"accuracy": 81.25}}}, "settings": {}, "averages": {}}
    write_json(folder / "student" / "evaluation" / "scores.json", scores)
    return {"Teacher": str(teacher), "Student": str(folder / "student")}


def test_sizes_speeds_and_scores_are_measured(pair):
    teacher, student = compare_models(pair, num_rows=2, length=8, repeats=1)
    assert (teacher.num_layers, student.num_layers) == ((2,), (1,))
    assert teacher.num_parameters > student.num_parameters > teacher.num_parameters / 2
    assert min(teacher.rows_per_second, student.rows_per_second) > 0
    assert (teacher.scores, student.scores) == ({}, {"sst2/accuracy": 81.25})


def test_everything_is_relative_to_the_first_model():
    models = [
        ComparedModel("Teacher", 1000, (6, 6), 10.0, {"sst2/accuracy": 90.0}),
        ComparedModel("Student", 600, (3, 6), 15.0, {"sst2/accuracy": 87.5, "rte/accuracy": None}),
    ]
    header, teacher, student = (re.split(r"\s{2,}", line) for line in models_table(models).splitlines())
    assert header[-2:] == ["sst2/accuracy", "rte/accuracy"]
    assert teacher == ["Teacher", "6 + 6", "1,000", "100%", "10.0", "1.00 x", "90.00", "-"]
    assert student == ["Student", "3 + 6", "600", "60%", "15.0", "1.50 x", "87.50", "-"]


def test_the_command_prints_the_table_and_refuses_half_a_page(pair, capsys):
    flags = [f"--model={title}={directory}" for title, directory in pair.items()]
    assert main(["report", *flags]) == 0
    table = capsys.readouterr().out
    assert "Student" in table
    assert "81.25" in table
    assert main(["report", *flags, "--output", "page.html"]) == 2
    assert "or --model alone" in capsys.readouterr().err
