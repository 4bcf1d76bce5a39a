"""Coreference scores: the worked examples of Pradhan et al. 2014, and properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.text.metrics import coreference_f1, intervals

# Pradhan et al. 2014, figure 3 and §4.1, §4.2, §4.4.
KEY = ["abc", "defg"]
RESPONSE = ["ab", "cd", "fghi"]


def test_the_papers_worked_example() -> None:
    scores = coreference_f1([KEY], [RESPONSE])
    results = {name: round(score / 100, 2) for name, score in scores.items() if not name.endswith("f1")}
    assert results == {
        "muc_recall": 0.40, "muc_precision": 0.40, "b_cubed_recall": 0.42, "b_cubed_precision": 0.50,
        "ceaf_e_recall": 0.65, "ceaf_e_precision": 0.43,
    }  # fmt: skip
    assert (scores["muc_f1"], scores["ceaf_e_f1"]) == (pytest.approx(40), pytest.approx(52))
    assert scores["b_cubed_recall"] == pytest.approx(100 * (4 / 3 + 1 / 3 + 1 / 4 + 4 / 4) / 7)
    assert scores["conll_f1"] == pytest.approx((40 + scores["b_cubed_f1"] + 52) / 3)


def test_clusters_are_paired_so_that_the_sum_is_largest() -> None:
    # Similarities: abcd-abcefg 3/5, abcd-d 2/5, efgh-abcefg 3/5, efgh-d 0. Only one sum is the largest.
    scores = coreference_f1([["abcd", "efgh"]], [["abcefg", "d"]])
    assert scores["ceaf_e_recall"] == pytest.approx(100 * (2 / 5 + 3 / 5) / 2)
    assert coreference_f1([["abc", "de"]], [["abc", "f"]])["ceaf_e_f1"] == pytest.approx(50.0)


def test_counts_are_summed_over_documents_before_they_are_divided() -> None:
    both = coreference_f1([KEY, ["ab"]], [RESPONSE, ["ab"]])
    assert both["muc_recall"] == pytest.approx(100 * 3 / 6)
    assert both["ceaf_e_recall"] == pytest.approx(100 * (1.3 + 1) / 3)
    assert both["b_cubed_precision"] == pytest.approx(100 * (4 + 2) / 10)


def test_a_document_without_clusters_costs_nothing_if_none_is_predicted() -> None:
    assert coreference_f1([[], ["ab"]], [[], ["ab"]])["conll_f1"] == 100.0
    assert coreference_f1([[]], [["ab"]])["conll_f1"] == 0.0
    assert coreference_f1([["ab"]], [[]])["conll_f1"] == 0.0
    with pytest.raises(ValueError, match="1 predictions for 2 targets"):
        coreference_f1([[], []], [[]])


PARTITIONS = st.lists(st.integers(0, 4), min_size=2, max_size=9).map(
    lambda numbers: [
        [place for place, each in enumerate(numbers) if each == number] for number in set(numbers)
    ]
)


@given(PARTITIONS, PARTITIONS)
def test_recall_and_precision_change_places_with_the_sides(truth: list, guess: list) -> None:
    scores, swapped = coreference_f1([truth], [guess]), coreference_f1([guess], [truth])
    for name in ("muc", "b_cubed", "ceaf_e"):
        assert scores[f"{name}_recall"] == pytest.approx(swapped[f"{name}_precision"])
        assert 0 <= scores[f"{name}_f1"] <= 100 + 1e-9
    perfect = coreference_f1([truth], [truth[::-1]])
    assert (perfect["b_cubed_f1"], perfect["ceaf_e_f1"]) == (pytest.approx(100), pytest.approx(100))


def test_intervals_draw_documents() -> None:
    result = intervals(coreference_f1, [KEY, ["ab"], ["cd"]], [RESPONSE, ["ab"], []], resamples=50)
    interval = result["conll_f1"]
    assert interval is not None
    assert (
        interval.low
        <= coreference_f1([KEY, ["ab"], ["cd"]], [RESPONSE, ["ab"], []])["conll_f1"]
        <= interval.high
    )
    assert np.isfinite(interval.low)
