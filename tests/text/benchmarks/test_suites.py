import math

import pytest

from benchmarks.references.metrics import averages
from benchmarks.references.reference import compare_all
from t5x_like.text.benchmarks import catalogue
from t5x_like.text.benchmarks.suites import GLUE, SUITES, SUPER_GLUE, suite_named


def test_groups_and_averages_are_t5s_and_nothing_where_a_part_is_missing(golden):
    assert compare_all(averages(golden / "metrics" / "averages.json")) > 2


def test_a_group_of_two_metrics_counts_as_one():
    scores = {name: 0.0 for names in GLUE.average.values() for name in names}
    assert GLUE.average_of(scores | {"glue_mrpc_v002/f1": 80.0}) == pytest.approx(5.0)
    assert GLUE.average_of(scores | {"glue_cola_v002/matthews_corrcoef": 80.0}) == pytest.approx(10.0)


def test_a_score_that_is_no_number_is_not_passed_over():
    scores: dict[str, float | None] = {name: 1.0 for names in GLUE.average.values() for name in names}
    average = GLUE.average_of(scores | {"glue_stsb_v002/pearson_corrcoef": math.nan})
    assert average is not None
    assert math.isnan(average)
    assert GLUE.average_of(scores | {"glue_stsb_v002/pearson_corrcoef": None}) is None


def test_an_average_concerns_only_scores_that_are_a_part_of_it():
    scores = {"glue_cola_v002/matthews_corrcoef": 1.0}
    assert [suite.name for suite in SUITES.values() if suite.has_any_score(scores)] == ["glue"]
    assert GLUE.average_of(scores) is None
    assert not any(suite.has_any_score({"squad/em": 1.0}) for suite in SUITES.values())
    assert SUPER_GLUE.missing({})[0] == "super_glue_boolq_v102/accuracy"
    with pytest.raises(ValueError, match="no suite 'glu', only glue, super_glue"):
        suite_named("glu")


def test_tasks_of_a_suite_are_in_the_catalogue_and_have_the_splits_that_it_asks_for():
    for suite in SUITES.values():
        assert suite.tasks_of("test") == suite.tasks_of("validation") + suite.test_only
        for split in ("validation", "test"):
            for task in suite.tasks_of(split):
                assert split in catalogue.benchmark(task).splits
