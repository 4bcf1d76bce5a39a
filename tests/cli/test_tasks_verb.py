"""How ``t5x-like tasks show`` writes an example."""

from t5x_like.cli.tasks import _example
from t5x_like.text.batches.first_examples import TaskExample


def test_targets_that_are_not_learned_are_dots_and_long_rows_are_short():
    shown = TaskExample(
        raw=None,
        inputs="a<mask>c",
        targets="abc",
        input_ids=[5, 4, 7],
        target_ids=[5, 6, 7],
        input_pieces=["a", "<mask>", "c"],
        target_pieces=["a", "b", "c"],
        extra_features={
            "weights": [0, 1, 0],
            "positions": [0, 1, 2, 2, 2, 5],
            "ranks": [3, 0, 0],
            "label": [1],
        },
    )
    assert _example(shown).splitlines() == [
        "inputs   a<mask>c",
        "targets  abc",
        "         a:5 <mask>:4 c:7",
        "      -> · b:6 ·",
        "positions: 0..2, 2 x2, 5",
        "ranks: 3, 0 x2",
        "label: 1",
    ]


def test_weights_that_say_more_than_yes_or_no_are_written():
    shown = TaskExample(None, "", "ab", [], [5, 6], [], ["a", "b"], {"weights": [0.5, 1.0]})
    assert _example(shown).splitlines()[-1] == "weights: 0.5, 1"
