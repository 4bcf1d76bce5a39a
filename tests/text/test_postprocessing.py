import json

import pytest

from t5x_like.text import postprocessing


def test_answers_are_read_as_t5_reads_them(golden):
    rows = [
        json.loads(line) for line in (golden / "metrics" / "postprocessors.jsonl").read_text().splitlines()
    ]
    assert len(rows) > 300
    for row in rows:
        found = getattr(postprocessing, row["postprocessor"])(*row["args"], **row["kwargs"])
        expected = row["out"]
        if isinstance(found, float):
            assert found == pytest.approx(float(expected), abs=0, nan_ok=True), row
        else:
            assert found == expected, row


def test_targets_of_tensorflow_are_read_too():
    example = {"answers": [b"Zo\xc3\xab"], "idx/passage": 3, "idx/query": 4}
    assert postprocessing.record("x", example, is_target=True) == {"value": ["Zoë"], "group": [3, 4]}


def test_what_a_target_lacks_is_named():
    with pytest.raises(ValueError, match="must have 'answers'"):
        postprocessing.qa("x", {"id": "1"}, is_target=True)
