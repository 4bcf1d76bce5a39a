"""The messages a user reads when a configuration is wrong: file, line, cause, what to do."""

from collections.abc import Callable
from pathlib import Path

import bakery
import pytest
from bakery import HEAD, PLAIN

from t5x_like.gin_config.configuration import Configuration, load
from t5x_like.gin_config.user_error import UserError

LoadText = Callable[..., Configuration]


# Each: what line 6 says; the parts of the message, in order.
MISTAKES: list[tuple[str, ...]] = [
    ("bakery.Loff.grams = 3", "run.gin:6: bakery has no 'Loff'", "did you mean 'bakery.Loaf'?"),
    ("baker.Loaf.grams = 3", "run.gin:6: unknown name 'baker.Loaf'", "did you mean 'bakery.Loaf'?"),
    ("bakery.Oven.degree = 3", "run.gin:6: bakery.Oven has no parameter 'degree'", "did you mean 'degrees'?"),
    ("bakery.Bakery.vessel = @bakery.Ovn()", "run.gin:6: bakery has no 'Ovn'", "did you mean 'bakery.Oven'?"),
    ("bakery.Bakery.days = %DAYS", "run.gin:6: %DAYS is not defined", "or pass --set DAYS=…"),
    (
        "bakery.Bakery.days = '3'",
        "run.gin:6: bakery.Bakery.days needs an int, got '3' (text)",
        "drop the quotes",
    ),
    ("bakery.Bakery.days = 3.0", "bakery.Bakery.days needs an int, got 3.0 (a float)", "write 3"),
    ("bakery.Bakery.days = True", "bakery.Bakery.days needs an int, got True (a bool)"),
    ("bakery.Bakery.street = 5", "run.gin:6: bakery.Bakery.street needs text, got 5 (an int)"),
    (
        "bakery.Bakery.vessel = @bakery.Oven",
        "needs an Oven or a Pan, got Oven itself",
        "in gin @Oven()",
    ),
    ("bakery.Bakery.loaves = (3,)", "run.gin:6: bakery.Bakery.loaves item 0 needs a Loaf, got 3 (an int)"),
    ("bakery.Bakery.prices = {'rye': '3'}", "bakery.Bakery.prices entry 'rye' needs a float, got '3' (text)"),
    (
        "bakery.Bakery.vessel = @bakery.Pan()",
        "run.gin:6: bakery.Pan is given no width",
        "add bakery.Pan.width",
    ),
    ("bakery.Bakery.street = Mill Lane", "run.gin:6: 'Mill Lane' is not a gin value", "street = 'Mill Lane'"),
    ("bakery.Bakery.open_on_sunday = true", "run.gin:6: 'true' is not a gin value", "write True"),
    ("bakery.Bakery.street = 'Mill", "run.gin:6: this text has no closing quote"),
    (f"bakery.Bakery.loaves = {'(' * 900}{')' * 900}", "run.gin: brackets are nested too deeply"),
    ("bakery.Bakery.loaves = (", "run.gin:6: this '(' is never closed"),
    ("bakery.Bakery.loaves = [1,\n2\nbakery.Bakery.days = 3", "run.gin:6: this '[' is never closed"),
    ("bakery.Bakery.days = 3 4", "run.gin:6: '3 4' is not a gin value"),
    ("bakery.Bakery.days", "run.gin:6: gin can't read this line"),
    ("bakery.Bakery:\ndays = 3", "run.gin:7: gin can't read this line: Expected indentation"),
    (
        "import bakry",
        "run.gin:6: imports 'bakry', which is not a part of t5x_like",
        "import bakry",
        "add --module bakry if you trust it",
    ),
    ("import bakery.ovens", "run.gin:6: there is no module 'bakery.ovens'"),
    ("from t5x_like.text import tsks", "run.gin:6: there is no module 't5x_like.text.tsks'"),
    ("from bakery import Oven", "run.gin:6: there is no module", "import bakery and write bakery.Oven"),
    ("include 'oven.gin'", "run.gin:6: includes 'oven.gin', which does not exist (searched /"),
    ("include 'run2.gin'", "run.gin:6: includes 'run2.gin'", "did you mean 'run.gin'?"),
    ("include 'run.gin'", "run.gin:6: the file includes itself: run.gin:6 -> run.gin"),
    ("A = %B\nB = %A\nbakery.Bakery.days = %A", "run.gin:7: macros go round in a circle: A -> B -> A"),
]
FLAG_MISTAKES: list[tuple[str, ...]] = [
    ("Loaf.gramms=3", "command line: bakery.Loaf has no parameter 'gramms'\n    --gin.Loaf.gramms=3\n"),
    ("STREET=runs/x", "'runs/x' is not a gin value", "--gin.STREET=\"'runs/x'\", or --set STREET=runs/x"),
    ("DAYS", "--gin.DAYS gives no value", "write --gin.DAYS=value"),
    ("DAYS=", "command line: DAYS is given no value"),
    ("DAYZ=3", "command line: nothing here uses DAYZ\n    --gin.DAYZ=3\n", "did you mean 'DAYS'?"),
    ("DAYS='3'", "days needs an int, got '3' (text) (the macro DAYS is used for it in run.gin:7)"),
]


def assert_says(message: str, parts: tuple[str, ...]) -> None:
    """Every part stands in the message, in this order."""
    rest = message
    for part in parts:
        assert part in rest, message
        rest = rest.split(part, 1)[1]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake[0])
def test_a_mistake_is_placed_and_explained(load_text: LoadText, mistake: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as caught:
        load_text(f"{PLAIN}{mistake[0]}\n")
    assert_says(str(caught.value), mistake[1:])


@pytest.mark.parametrize("mistake", FLAG_MISTAKES, ids=lambda mistake: mistake[0])
def test_a_mistake_in_a_flag_shows_the_flag(load_text: LoadText, mistake: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as caught:
        load_text(f"{PLAIN}DAYS = 3\nbakery.Bakery.days = %DAYS\n", mistake[0])
    assert_says(str(caught.value), mistake[1:])


def test_all_values_still_to_be_given_are_listed_as_flags(load_text: LoadText) -> None:
    text = HEAD + (
        "STREET = %gin.REQUIRED\nDAYS = %gin.REQUIRED\nbakery.Bakery.loaves = ()\n"
        "bakery.Bakery.street = %STREET\nbakery.Bakery.days = %DAYS\n"
    )
    with pytest.raises(UserError) as caught:
        load_text(text)
    assert str(caught.value).splitlines() == [
        "2 values are still to be given; pass, or set in your recipe:",
        "  --set STREET=…   # run.gin:3",
        "  --set DAYS=…     # run.gin:4",
    ]


def test_an_objects_own_refusal_is_placed_at_the_value_it_speaks_of(load_text: LoadText) -> None:
    text = PLAIN + "GRAMS = 0\nbakery.Loaf.name = 'x'\nbakery.Loaf.grams = %GRAMS\n"
    with pytest.raises(UserError) as caught:
        load_text(text + "bakery.Bakery.loaves = (@bakery.Loaf(),)\n")
    assert_says(
        str(caught.value), ("run.gin:6: bakery.Loaf: grams is 0; a loaf weighs", "GRAMS", "run.gin:8")
    )


def test_a_missing_gin_file_is_named_with_where_it_was_looked_for(load_text: LoadText) -> None:
    load_text(PLAIN)
    with pytest.raises(UserError) as caught:
        load(["runx.gin"], roots=[bakery.Bakery])
    parts = ("there is no gin file 'runx.gin' (searched ", str(Path.cwd()), "did you mean 'run.gin'?")
    assert_says(str(caught.value), parts)


def test_a_missing_gin_file_with_an_absolute_path_has_its_neighbor_as_hint(load_text: LoadText) -> None:
    load_text(PLAIN)
    with pytest.raises(UserError) as caught:
        load([str(Path("runx.gin").absolute())], roots=[bakery.Bakery])
    assert_says(str(caught.value), (f"did you mean '{Path('run.gin').absolute()}'?",))


def test_a_gin_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.gin").write_bytes(b"X = '\xff'\n")
    with pytest.raises(UserError, match=r"bad\.gin: not UTF-8 text"):
        load([str(tmp_path / "bad.gin")], roots=[bakery.Bakery])


def test_files_that_configure_something_else_have_nothing_to_run(load_text: LoadText) -> None:
    with pytest.raises(UserError, match=r"say nothing about bakery\.Bakery"):
        load_text(HEAD + "bakery.Oven.degrees = 1.0\n")


def test_what_has_no_effect_is_reported(load_text: LoadText) -> None:
    assert load_text(PLAIN + "bakery.Oven.degrees = 1.0\n").unused == [
        "run.gin:6: bakery.Oven.degrees has no effect"
    ]


REPLACED_THING = (
    "from __gin__ import dynamic_registration\nimport bakery\n"
    "bakery.Bakery.street = 'Mill Lane'\nbakery.Bakery.days = 6\n"
    "bakery.Bakery.loaves = (@bakery.Loaf(),)\nbakery.Loaf.name = 'rye'\n"
    "bakery.Bakery.rule = @bakery.half\nbakery.half.share = 0.1\n"
)


def test_what_a_shared_file_says_of_a_thing_that_a_recipe_replaced_is_nothing_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shared.gin").write_text(REPLACED_THING)
    recipe = HEAD + "include 'shared.gin'\nbakery.Bakery.loaves = ()\n"
    (tmp_path / "run.gin").write_text(recipe)
    assert load(["run.gin"], roots=[bakery.Bakery]).unused == []
    (tmp_path / "run.gin").write_text(recipe + "bakery.Loaf.grams = 5\nbakery.Oven.degrees = 1.0\n")
    assert load(["run.gin"], roots=[bakery.Bakery]).unused == [
        "run.gin:5: bakery.Loaf.grams has no effect",
        "run.gin:6: bakery.Oven.degrees has no effect",
    ]


def test_what_a_sweep_compares_is_not_reported_at_any_depth(load_text: LoadText) -> None:
    other = (
        "COMPARISON = @bakery.Other()\nbakery.Other.shop = @bakery.Shop()\n"
        "bakery.Shop.oven = @bakery.Oven()\nbakery.Oven.degrees = 1.0\n"
    )
    assert load_text(PLAIN + other).unused == []
    assert load_text(PLAIN + other.replace("@bakery.Oven()", "None")).unused == [
        "run.gin:9: bakery.Oven.degrees has no effect"
    ]


def test_macros_of_overridden_values_are_not_reported(load_text: LoadText) -> None:
    text = "RYE_PRICE = 1.0\nRYE_PRIZE = 2.0\nbakery.Bakery.prices = {'rye': %RYE_PRICE}\n"
    used = "WHEAT_PRICE = 1.0\nbakery.Bakery.prices = {'wheat': %WHEAT_PRICE}\n"
    (line,) = load_text(PLAIN + text + used).unused
    assert "RYE_PRIZE has no effect" in line


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "from t5x_like.training import experiment\nexperiment.Intervals.keep_checkpoints = 5",
            "it is in t5x_like.training.run_config now",
        ),
        (
            "from t5x_like.training.losses import distillation\ndistillation.Distillation.temperature = 3.0",
            "what it had is in t5x_like.training.methods.distillation now",
        ),
        (
            "from t5x_like.training import experiment\nexperiment.Experiment.total_steps = 3",
            "it is run_config.RunConfig.total_steps now",
        ),
    ],
)
def test_names_that_moved_are_answered_by_their_place(tmp_path, text, hint):
    (tmp_path / "run.gin").write_text(f"from __gin__ import dynamic_registration\n{text}\n")
    with pytest.raises(UserError) as error:
        load([str(tmp_path / "run.gin")], roots=["t5x_like.training.experiment.Experiment"])
    assert error.value.hint == hint
