import json
from pathlib import Path

import pytest

from t5x_like.cli.main import USER_ERROR, main
from t5x_like.corpora.rules.contamination import Contamination

TASKS = ["--gin_file", "gin/recipes/quickstart/tasks.gin"]


def test_what_a_task_asks_is_found_on_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["wordnet_definitions", "--split", "validation", "--output", str(tmp_path), *TASKS]
    assert main(["corpus", "evaluation_texts", *arguments]) == 0
    file = tmp_path / "wordnet_definitions-validation.jsonl"
    assert capsys.readouterr().out == f"{file}: 1,500 examples\n"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows[1] == {"text": "definition: the capital and largest city of Nepal place"}
    long = next(row["text"] for row in rows if len(row["text"].split()) > 40)
    question_words = " ".join(long.split()[1:-1])
    overlaps = Contamination(files=str(file)).overlaps(f"On a page it says that {question_words} is so.")
    assert overlaps
    assert {each.evaluation_set for each in overlaps} == {"wordnet_definitions-validation"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["wordnet_definitions", "--split", "dev"], "has no split 'dev'; there are train, validation, test"),
        (["king_james"], "has no inputs and targets to keep out"),
    ],
)
def test_a_task_without_such_texts_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
):
    assert main(["corpus", "evaluation_texts", *arguments, "--output", str(tmp_path), *TASKS]) == USER_ERROR
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
