"""Metrics and postprocessing of users: functions in place of names, refused where no record can name them."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from t5x_like.evaluation.questions import load_questions
from t5x_like.evaluation.scores import score_questions
from t5x_like.text.batches.task_description import describe_task
from t5x_like.text.heads import SequenceClassification
from t5x_like.text.tasks.text_task import TextTask
from t5x_like.training.run_record import from_data, to_data

ROWS = "word\tnumber\none\t1\ntwo\t2\nthree\t3\nfour\t4\n"


def distance(targets: Sequence[Any], predictions: Sequence[Any], *, power: int = 1) -> dict[str, float]:
    pairs = zip(targets, predictions, strict=True)
    return {"distance": sum(abs(int(left) - int(right)) ** power for left, right in pairs) / len(targets)}


@dataclass(frozen=True)
class ShareNear:
    limit: int

    def __call__(self, targets: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        near = [abs(int(a) - int(b)) <= self.limit for a, b in zip(targets, predictions, strict=True)]
        return {f"share_within_{self.limit}": 100.0 * sum(near) / len(near)}


def bare_number(targets: Sequence[Any], predictions: Sequence[Any]) -> float:
    return float(len(targets) - len(predictions))


def doubled(text: str, **_: Any) -> int:
    return 2 * int(text)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "rows.tsv").write_text(ROWS)
    return {"validation": str(tmp_path / "rows.tsv")}


def task(files: dict[str, str], **changes: Any) -> TextTask:
    settings: dict[str, Any] = {"name": "numbers", "vocabulary": "bytes", "files": files}
    settings |= {"input_template": "{word}", "target_template": "{number}"}
    return TextTask(**settings | changes)


def scores(definition: TextTask, *predictions: str) -> dict[str, Any]:
    questions = load_questions(definition, "validation")
    return score_questions(questions, [{"prediction": text} for text in predictions], resamples=10)


def test_a_function_a_partial_and_a_dataclass_score_next_to_named_metrics(files: dict[str, str]) -> None:
    own = (distance, functools.partial(distance, power=2), ShareNear(1))
    for metric, expected in zip(own, (1.25, 2.25, 50.0), strict=True):
        entry = scores(task(files, metrics=("accuracy", metric)), "1", "3", "1", "6")
        assert list(entry["scores"].values()) == [25.0, expected]
        assert all(interval["low"] <= interval["high"] for interval in entry["intervals"].values())


def test_a_task_with_own_functions_is_recorded_by_their_names(files: dict[str, str]) -> None:
    metrics = ("accuracy", distance, functools.partial(distance, power=2), ShareNear(limit=2))
    definition = task(files, metrics=metrics, postprocess=doubled)
    assert str(to_data(definition)["metrics"][1]["$reference"]).endswith("test_own_metrics:distance")
    restored = from_data(to_data(definition))
    assert restored.metrics[1] is distance
    assert restored.metrics[2].keywords == {"power": 2}
    assert restored.metrics[3] == ShareNear(limit=2)
    assert restored.postprocess is doubled
    assert describe_task(definition).metrics[1].endswith("test_own_metrics.distance")


@pytest.mark.parametrize(
    "metric", [lambda targets, _: {"n": len(targets)}, functools.partial(distance, ["1"]), len, object]
)
def test_what_no_record_can_name_is_refused_at_the_start(metric: Any, files: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"can't be recorded.*give a function or a dataclass"):
        task(files, metrics=(metric,))
    with pytest.raises(ValueError, match=r"postprocess .* can't be recorded"):
        task(files, postprocess=metric)


def test_a_metric_that_returns_no_scores_by_name_is_named(files: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"bare_number returned 0\.0; return numbers by name"):
        scores(task(files, metrics=(bare_number,)), *"1234")


def test_postprocessing_reaches_targets_and_predictions(files: dict[str, str]) -> None:
    entry = scores(task(files, metrics=(distance,), postprocess=doubled), "1", "3", "1", "6")
    assert entry["scores"] == {"distance": 2.5}


def test_postprocessing_reaches_each_of_several_references(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"word": "a few", "number": ["3", "4"]}\n')
    files = {"validation": str(tmp_path / "rows.jsonl")}
    questions = load_questions(task(files, metrics=("accuracy",), postprocess=doubled), "validation")
    assert questions.targets == [[6, 8]]


def test_a_head_has_own_metrics_of_class_indices_and_no_postprocessing(files: dict[str, str]) -> None:
    (metric,) = task(files, labels=("1", "2", "3", "4"), metrics=(distance,)).head_metrics()
    assert metric([0, 3], [1, 3]) == {"distance": 0.5}
    head = SequenceClassification(texts=("{word}",), classes=("1", "2", "3", "4"), label="number")
    with pytest.raises(ValueError, match="a head predicts labels; leave it out"):
        task(files, head=head, postprocess=doubled)
    with pytest.raises(ValueError, match="a head predicts labels; leave it out"):
        task(files, labels=("1", "2", "3", "4"), postprocess=doubled).head_metrics()
