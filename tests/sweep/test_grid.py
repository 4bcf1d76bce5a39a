"""Grids from flags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.gin_config.user_error import UserError
from t5x_like.sweep.grid import grid_points, split


def test_a_grid_is_every_combination_with_every_seed() -> None:
    grid = grid_points(["LEARNING_RATE=1e-5,2e-5", "BATCH_SIZE=16,32"], 2)
    assert len(grid) == 8
    assert grid[1].bindings == ["LEARNING_RATE=1e-5", "BATCH_SIZE=16", "SEED=1"]
    assert grid[1].name == "LEARNING_RATE=1e-5,BATCH_SIZE=16,SEED=1"
    assert [point.name for point in grid_points([], None)] == ["recipe"]


def test_values_that_belong_together_vary_together() -> None:
    grid = grid_points(["BATCH_SIZE:TRAIN_STEPS=16:400,32:200"], None)
    assert [point.settings for point in grid] == [
        {"BATCH_SIZE": "16", "TRAIN_STEPS": "400"},
        {"BATCH_SIZE": "32", "TRAIN_STEPS": "200"},
    ]


def test_settings_of_a_recipe_come_first_and_are_combined_with_flags_and_seeds() -> None:
    settings = {
        "prefix LM": (
            "gin/objectives/prefix_lm.gin",
            "TARGETS_LENGTH = 64",
            "then: LEARNING_RATE = 0.1",
            "then: a.gin",
        ),
        "plain": (),
    }
    grid = grid_points(["BATCH_SIZE=8,16"], 1, settings)
    assert [point.name for point in grid][1:3] == [
        "prefix_LM,BATCH_SIZE=16,SEED=0",
        "plain,BATCH_SIZE=8,SEED=0",
    ]
    first = grid[0]
    assert first.shown == {"setting": "prefix LM", "BATCH_SIZE": "8"}
    assert (first.gin_files, first.then_gin_files) == (["gin/objectives/prefix_lm.gin"], ["a.gin"])
    assert first.bindings == ["TARGETS_LENGTH = 64", "BATCH_SIZE=8", "SEED=0"]
    assert first.then_bindings == ["LEARNING_RATE = 0.1", "SEED=0"]


def test_text_needs_no_quotes_and_may_have_them() -> None:
    grid = grid_points(
        ["INITIAL_CHECKPOINT=runs/a:b,'runs/b'", "LENGTHS=(1,2),None", "MODEL=@t5.T5Config(),%OTHER"], None
    )
    assert grid[0].bindings == ["INITIAL_CHECKPOINT='runs/a:b'", "LENGTHS=(1,2)", "MODEL=@t5.T5Config()"]
    assert grid[-1].bindings == ["INITIAL_CHECKPOINT='runs/b'", "LENGTHS=None", "MODEL=%OTHER"]
    assert "/" not in grid[0].name


@pytest.mark.parametrize(
    ("overs", "seeds", "message"),
    [
        (["LEARNING_RATE"], None, "write it as NAME=first,second"),
        (["A:B=1:2,3"], None, "'3' has 1 value, and there are 2 names, A, B"),
        (["A=1", "A=2"], None, "over=… gives A twice"),
        (["A=1,1"], None, "two runs would both be called A=1"),
        (["SEED=1,2"], 3, "say the same thing twice"),
        ([], 0, "seeds=0: give at least 1"),
    ],
)
def test_what_can_t_be_a_grid_is_refused(overs: list[str], seeds: int | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        grid_points(overs, seeds)


@given(st.lists(st.sampled_from(["1e-5", "'a,b'", "(1, 2)", "[1, {2: 3, 4: 5}]", "runs/x"]), min_size=1))
def test_brackets_and_quotes_keep_their_commas(parts: list[str]) -> None:
    assert split(",".join(parts), ",") == parts
