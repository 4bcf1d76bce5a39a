"""BLiMP's and EWoK's rows in each form of their files, and what they are compared as."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from t5x_like.text.benchmarks import catalogue
from t5x_like.text.metrics import preference_accuracy
from t5x_like.text.tasks.pairs import TextPair

PAIR = {"sentence_good": "Ann woke herself.", "sentence_bad": "Ann woke himself.", "field": "morphology"}
PAIR |= {"linguistics_term": "anaphor_agreement", "UID": "anaphor_gender_agreement"}
OFFICIAL = PAIR | {"simple_LM_method": True, "one_prefix_method": False, "pairID": "0"}
ITEM = {"Domain": "material-dynamics", "ConceptA": "melt", "Context1": "It melts.", "Context2": "It lasts."}
ITEM |= {"Target1": "It is warm.", "Target2": "It is cold.", "ContextDiff": "antonym"}


def rows_of(name: str, folder: Path) -> list[TextPair]:
    task = catalogue.benchmark_task(name, vocabulary="bytes", data_dir=str(folder))
    return list(task.read("validation"))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_parquet(path: Path, row: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table({name: [value] for name, value in row.items()}), path)


@pytest.mark.parametrize(
    "file", ["blimp/data/anaphor_gender_agreement.jsonl", "blimp/a.jsonl", "full_eval/blimp_filtered/a.jsonl"]
)
def test_pairs_are_read_from_the_files_of_all_paradigms(file: str, tmp_path: Path) -> None:
    write(tmp_path / file, json.dumps(OFFICIAL) + "\n" + json.dumps(OFFICIAL | {"sentence_bad": "b"}) + "\n")
    write((tmp_path / file).with_name("z.jsonl"), json.dumps(OFFICIAL | {"UID": "z"}) + "\n")
    rows = rows_of("blimp", tmp_path)
    assert [row.extras["other_targets"] for row in rows] == ["Ann woke himself.", "b", "Ann woke himself."]
    assert {(row.inputs, row.targets) for row in rows} == {("", "Ann woke herself.")}
    paradigms = [row.extras["groups"] for row in rows_of("blimp_paradigms", tmp_path)]
    assert paradigms == [["anaphor_gender_agreement"], ["anaphor_gender_agreement"], ["z"]]


def test_hugging_faces_pairs_are_the_same(tmp_path: Path) -> None:
    for name in ("anaphor_gender_agreement", "causative"):
        write_parquet(tmp_path / f"blimp/{name}/train-00000-of-00001.parquet", OFFICIAL | {"UID": name})
    assert [row.extras["groups"] for row in rows_of("blimp", tmp_path)] == [
        ["morphology", "anaphor_agreement"]
    ] * 2


def test_a_bad_pair_is_named_by_file_and_line(tmp_path: Path) -> None:
    lacking = {name: value for name, value in OFFICIAL.items() if name != "sentence_bad"}
    write(tmp_path / "blimp/data/causative.jsonl", json.dumps(OFFICIAL) + "\n" + json.dumps(lacking) + "\n")
    with pytest.raises(ValueError, match=r"causative\.jsonl:2: no column 'sentence_bad'; the columns are"):
        rows_of("blimp", tmp_path)


def check_item(rows: list[TextPair]) -> None:
    own, other = rows
    assert (own.inputs, own.targets, own.extras["other_inputs"]) == ("It melts.", "It is warm.", "It lasts.")
    assert (other.inputs, other.targets, other.extras["other_inputs"]) == (
        "It lasts.",
        "It is cold.",
        "It melts.",
    )
    assert all(row.extras["other_targets"] == row.targets for row in rows)
    assert all(row.extras["groups"] == ["material-dynamics"] for row in rows)


@pytest.mark.parametrize(
    "mark", ["# EWoK canary UUID 8540 # EWoK-core-1.0 canary UUID e318\n", "\ufeff# EWoK canary\n", ""]
)
def test_items_are_read_from_suites_with_and_without_their_mark(mark: str, tmp_path: Path) -> None:
    table = mark + ",".join(ITEM) + "\n" + ",".join(ITEM.values()) + "\n"
    write(tmp_path / "ewok/testsuite-material-dynamics.csv", table)
    check_item(rows_of("ewok", tmp_path))
    write(tmp_path / "ewok/testsuite-material-dynamics.csv", table + "short,row\n")
    line = table.count("\n") + 1
    with pytest.raises(
        ValueError, match=rf"testsuite-material-dynamics\.csv:{line}: 2 columns, where 7 are expected"
    ):
        rows_of("ewok", tmp_path)


def test_hugging_faces_and_babylms_items_are_the_same(tmp_path: Path) -> None:
    write_parquet(tmp_path / "hub/ewok-core-1.0/data/test-00000-of-00001.parquet", ITEM)
    check_item(rows_of("ewok", tmp_path / "hub"))
    write(tmp_path / "babylm/full_eval/ewok_filtered/material-dynamics.jsonl", json.dumps(ITEM) + "\n")
    check_item(rows_of("ewok", tmp_path / "babylm"))


def test_equal_likelihoods_count_half_and_what_is_no_number_not_at_all() -> None:
    groups = [["a"], ["a"], ["b-c"], ["b-c"]]
    assert preference_accuracy(groups, [0.1, 0.0, -0.1, float("nan")]) == {
        "accuracy": 37.5,
        "a_accuracy": 75.0,
        "b_c_accuracy": 0.0,
    }


def test_scores_of_wider_groups_come_first() -> None:
    assert preference_accuracy([[""], ["a"]], [1.0, -1.0]) == {"accuracy": 50.0, "a_accuracy": 0.0}
    names = list(preference_accuracy([["a", "x"], ["b", "y"], ["a", "z"]], [1.0, 1.0, 1.0]))
    assert names == ["accuracy", "a_accuracy", "b_accuracy", "x_accuracy", "y_accuracy", "z_accuracy"]
