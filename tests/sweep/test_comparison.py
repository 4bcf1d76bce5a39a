"""Fields of a comparison: each is obeyed or refused."""

from typing import Any

import pytest

from t5x_like.sweep.comparison import Comparison, FullSize

SETTINGS: dict[str, Any] = {"small": ("BATCH_SIZE = 16",), "large": ("BATCH_SIZE = 32",)}
PUBLISHED: dict[str, Any] = {"published": {"small": 84.7}, "source": "a paper, table 1, accuracy"}


@pytest.mark.parametrize("unused", [{"published_lowest": True}, {"source": "a paper"}])
def test_facts_about_published_scores_need_scores(unused: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=f"{next(iter(unused))}=.* has no effect: there are no published scores"
    ):
        Comparison(settings=SETTINGS, **unused)
    assert Comparison(settings=SETTINGS, **PUBLISHED | unused)


def test_a_full_size_without_published_settings_names_no_paper() -> None:
    full = FullSize(recipes=("full.gin",), settings={"huge": ("BATCH_SIZE = 64",)})
    compared = Comparison(settings=SETTINGS, full_size=full, published_lowest=True, **PUBLISHED)
    assert (compared.as_toy().source, compared.at_full_size().source) == (PUBLISHED["source"], "")
    assert compared.as_toy().published_lowest
    assert not compared.at_full_size().published_lowest


def test_first_runs_lack_settings_of_the_second_run_alone() -> None:
    compared = Comparison(
        settings={
            "baseline": (),
            "both": ("BATCH_SIZE = 8", "then: BATCH_SIZE = 8"),
            "second": ("then: BATCH_SIZE = 8",),
        },
        then=("second.gin",),
        published={"baseline": 1.0, "both": 2.0, "second": 3.0},
        source="a table",
    )
    first = compared.of_first_run()
    assert first.settings == {"baseline": (), "both": ("BATCH_SIZE = 8",)}
    assert (first.then, first.published) == ((), {"baseline": 1.0, "both": 2.0})
