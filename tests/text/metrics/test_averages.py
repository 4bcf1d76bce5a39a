import json
import math

import pytest

from t5x_like.text.metrics.averages import AVERAGES, average, averages, missing_parts, over_runs


def test_averages_are_t5s_and_nothing_where_a_part_is_missing(golden):
    reference = json.loads((golden / "metrics" / "averages.json").read_text())
    names = {
        label: name
        for groups in reference["groups"].values()
        for parts in groups.values()
        for name, label in parts
    }
    assert reference["cases"]
    for case in reference["cases"]:
        scores = {names[label]: value for label, value in case["scores"].items()}
        for benchmark in AVERAGES:
            expected = case[f"{benchmark}_average"]
            expected = None if expected is None else pytest.approx(expected, abs=1e-9)
            assert average(benchmark, scores) == expected


def test_groups_are_t5s(golden):
    reference = json.loads((golden / "metrics" / "averages.json").read_text())["groups"]
    theirs = {
        benchmark: {group: tuple(name for name, _ in parts) for group, parts in groups.items()}
        for benchmark, groups in reference.items()
    }
    assert theirs == AVERAGES


def test_a_group_of_two_metrics_counts_as_one():
    scores = {name: 0.0 for names in AVERAGES["glue"].values() for name in names}
    assert average("glue", scores | {"glue_mrpc_v002/f1": 80.0}) == pytest.approx(5.0)
    assert average("glue", scores | {"glue_cola_v002/matthews_corrcoef": 80.0}) == pytest.approx(10.0)


def test_a_score_that_is_no_number_is_not_passed_over():
    scores: dict[str, float | None] = {name: 1.0 for names in AVERAGES["glue"].values() for name in names}
    found = average("glue", scores | {"glue_stsb_v002/pearson_corrcoef": math.nan})
    assert found is not None
    assert math.isnan(found)
    assert average("glue", scores | {"glue_stsb_v002/pearson_corrcoef": None}) is None


def test_only_averages_that_concern_the_scores_are_named():
    assert averages({"glue_cola_v002/matthews_corrcoef": 1.0}) == {"glue": None}
    assert averages({"squad/em": 1.0}) == {}
    assert missing_parts("super_glue", {})[0] == "super_glue_boolq_v102/accuracy"
    with pytest.raises(ValueError, match="no average of 'glu', only of glue, super_glue"):
        average("glu", {})


def test_runs_have_a_mean_and_a_deviation():
    found = over_runs([{"a": 1.0, "b": 5.0}, {"a": 3.0, "b": math.nan}, {"a": 2.0, "b": 1.0}])
    assert found == {"a": (2.0, 1.0, 3)}
    assert over_runs([{"a": 4.0}])["a"].deviation is None
    with pytest.raises(ValueError, match="no runs"):
        over_runs([])
