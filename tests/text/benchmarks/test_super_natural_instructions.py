"""Super-NaturalInstructions is read from its repository, worded as Tk-Instruct does, and scored by its metrics."""

import json
from pathlib import Path
from typing import Any

import pytest

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.super_natural_instructions import InstructionPrompt
from t5x_like.text.metrics import instruction_scores
from t5x_like.text.tasks.pairs import TextPair

TASK: dict[str, Any] = {
    "Contributors": ["Ann"],
    "Source": ["atlas"],
    "Categories": ["Question Answering"],
    "Definition": ["Name the capital of the given country."],
    "Input_language": ["English"],
    "Output_language": ["English"],
    "Positive Examples": [
        {"input": "Chile", "output": "Santiago", "explanation": "It is."},
        {"input": "Mali", "output": "Bamako", "explanation": "It is."},
        {"input": "Peru", "output": "Lima", "explanation": "It is."},
    ],
    "Negative Examples": [{"input": "Chile", "output": "Lima", "explanation": "It isn't."}],
    "Instance License": ["CC0"],
}


def write_task(folder: Path, name: str, num_instances: int, **changes: Any) -> None:
    (folder / "tasks").mkdir(parents=True, exist_ok=True)
    instances = [
        {"id": f"{name}-{index}", "input": f"country {index}", "output": [f"capital {index}"]}
        for index in range(num_instances)
    ]
    (folder / f"tasks/{name}.json").write_text(
        json.dumps(TASK | {"Instances": instances} | changes, indent=4)
    )


def write_splits(folder: Path, **splits: str) -> None:
    (folder / "splits/default").mkdir(parents=True)
    for split, names in splits.items():
        (folder / f"splits/default/{split}_tasks.txt").write_text(names)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "natural-instructions"
    write_splits(folder, train="task1_capitals\ntask2_small\n", test="task3_capitals\n")
    write_task(folder, "task1_capitals", 130)
    write_task(folder, "task2_small", 2, Definition="Rivers")
    write_task(folder, "task3_capitals", 130)
    write_task(folder, "task4_of_no_split", 5)
    return folder


def rows_of(repository: Path, split: str, name: str = "super_natural_instructions") -> list[TextPair]:
    task = catalogue.benchmark_task(name, vocabulary="bytes", data_dir=str(repository.parent))
    return list(task.read(split))


def test_a_test_tasks_first_hundred_instances_are_read(repository: Path) -> None:
    rows = rows_of(repository, "test")
    assert [row.row["id"] for row in rows] == [f"task3_capitals-{index}" for index in range(100)]
    assert rows[7].inputs == (
        "Definition: Name the capital of the given country.\n\n"
        " Positive Example 1 -\nInput: Chile.\n Output: Santiago.\n\n"
        " Positive Example 2 -\nInput: Mali.\n Output: Bamako.\n\n"
        "Now complete the following example -\nInput: country 7.\nOutput: "
    )
    assert (rows[7].targets, rows[7].extras["references"]) == ("capital 7", ["capital 7"])
    assert rows[7].location.endswith("tasks/task3_capitals.json:Instances[7]")


def test_a_training_task_gives_a_hundred_instances_from_all_of_its_rows(repository: Path) -> None:
    rows = rows_of(repository, "train")
    ids = [row.row["id"] for row in rows]
    assert len(ids) == len(set(ids)) == 102
    assert max(int(each.rpartition("-")[2]) for each in ids) >= 100
    assert ids[-2:] == ["task2_small-0", "task2_small-1"]
    assert rows[-1].inputs.startswith("Definition: Rivers.\n\n Positive")
    assert [row.row["id"] for row in rows_of(repository, "train")] == ids


def test_a_definition_alone_has_no_examples(repository: Path) -> None:
    (row, *_) = rows_of(repository, "test", "super_natural_instructions_definition")
    assert "Positive Example" not in row.inputs
    assert row.inputs.endswith(
        "country.\n\nNow complete the following example -\nInput: country 0.\nOutput: "
    )


def test_examples_that_make_a_prompt_too_long_are_left_out() -> None:
    row = {
        "id": "a",
        "category": "c",
        "definition": "Sort",
        "example_inputs": ["b a", "d c"],
        "example_outputs": ["a b", "c d"],
        "input": "f e!",
        "outputs": ["e f"],
    }
    whole = InstructionPrompt()(row)[0]["inputs"]
    assert InstructionPrompt(max_characters=len(whole))(row)[0]["inputs"] == whole
    shorter = InstructionPrompt(max_characters=len(whole) - 1)(row)[0]["inputs"]
    assert " Positive Example 1 -\nInput: b a.\n Output: a b.\n\nNow" in shorter
    assert "Input: f e!\nOutput: " in shorter


def test_bad_tasks_are_named(repository: Path) -> None:
    instances = [
        {"id": "a", "input": "x", "output": ["y"]},
        {"id": "b", "input": "x", "output": []},
        {"id": "c"},
    ]
    write_task(repository, "task3_capitals", 0, Instances=instances)
    with pytest.raises(ValueError, match=r"task3_capitals\.json:Instances\[1\]: the instance has no output"):
        rows_of(repository, "test")
    write_task(repository, "task3_capitals", 0, Instances=instances[2:])
    with pytest.raises(ValueError, match=r"Instances\[0\]: the instance has no 'output', only id"):
        rows_of(repository, "test")
    (repository / "tasks/task3_capitals.json").write_text(json.dumps({"Definition": ["x"]}))
    with pytest.raises(ValueError, match=r"task3_capitals\.json: the task has no 'Positive Examples', only"):
        rows_of(repository, "test")
    (repository / "tasks/task3_capitals.json").write_text('{\n"Definition": x}')
    with pytest.raises(ValueError, match=r"task3_capitals\.json:2: invalid JSON"):
        rows_of(repository, "test")
    (repository / "tasks/task3_capitals.json").unlink()
    with pytest.raises(ValueError, match=r"test_tasks\.txt:1: there is no file .*tasks/task3_capitals\.json"):
        rows_of(repository, "test")


def test_the_best_of_several_outputs_counts_in_all_and_by_category() -> None:
    targets = [
        {"outputs": ["two red boats", "a ship"], "category": "Title Generation"},
        {"outputs": ["Yes"], "category": "Textual Entailment"},
        {"outputs": ["no"], "category": "Textual Entailment"},
    ]
    scores = instruction_scores(targets, ["the red boat", "yes.", "maybe"])
    # "boat" and "boats" have one stem: two of three words in order.
    assert scores == pytest.approx(
        {
            "rougeL": (200 / 3 + 100) / 3,
            "exact_match": 100 / 3,
            "rougeL_for_textual_entailment": 50.0,
            "rougeL_for_title_generation": 200 / 3,
        }
    )
    assert instruction_scores(targets, ["ship", "", ""])["rougeL"] == pytest.approx(200 / 9)


def test_a_row_is_scored_with_all_of_its_references() -> None:
    benchmark = catalogue.benchmark("super_natural_instructions")
    assert benchmark.postprocess is not None
    row = {"references": ["a", "b"], "category": "Title Generation"}
    target = benchmark.postprocess("a", example=row, is_target=True)
    assert target == {"outputs": ["a", "b"], "category": "Title Generation"}
    assert benchmark.metrics[0]([target], [benchmark.postprocess(" b\n", example=row)])["rougeL"] == 100.0


def test_a_users_question_needs_no_output() -> None:
    task = catalogue.benchmark_task("super_natural_instructions_definition", vocabulary="bytes")
    line = json.dumps({"definition": "Sort.", "example_inputs": [], "example_outputs": [], "input": "b a"})
    assert task.word_question(line).endswith("Input: b a.\nOutput: ")
