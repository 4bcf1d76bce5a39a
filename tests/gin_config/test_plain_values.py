"""``--set NAME=value``: text as it is written, everything else as in gin, by the type of what is set."""

import shlex
from typing import Any

import bakery
import pytest
from bakery import PLAIN, Loaf, Oven

from t5x_like.cli.main import split_overrides
from t5x_like.gin_config.configuration import load, load_one
from t5x_like.gin_config.statements import Setting
from t5x_like.gin_config.user_error import UserError

RECIPE = (
    PLAIN
    + """DAYS = 3
STREET = 'Mill Lane'
ADDRESS = %STREET
KIND = 'stone'
SEEDS = ('poppy',)
OPENING = None
SUNDAY = False
PRICE = 3.5
NAME = %gin.REQUIRED
SHAPE = 'round'
LOAVES = (@bakery.Loaf(),)
bakery.Bakery:
    days = %DAYS
    street = %ADDRESS
    loaves = %LOAVES
    opening = %OPENING
    open_on_sunday = %SUNDAY
    vessel = @bakery.Oven()
    prices = {'rye': %PRICE}
bakery.Loaf.name = %NAME
bakery.Loaf.seeds = %SEEDS
bakery.Oven.kind = %KIND
"""
)


@pytest.fixture(autouse=True)
def recipe(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.gin").write_text(RECIPE)


def built(*flags: str, name: str = "rye") -> bakery.Bakery:
    settings = [Setting(*flag.split("=", 1), flag=f"--set {flag}") for flag in (f"NAME={name}", *flags)]
    return load(["run.gin"], settings, roots=[bakery.Bakery]).value


@pytest.mark.parametrize(
    ("flag", "field", "value"),
    [
        ("DAYS=5", "days", 5),
        ("STREET=runs/a b", "street", "runs/a b"),
        ("STREET=512", "street", "512"),
        ("STREET=None", "street", "None"),
        ("STREET=@home", "street", "@home"),
        ("STREET=", "street", ""),
        ("ADDRESS=a=b", "street", "a=b"),
        ("OPENING=(7, 18)", "opening", (7, 18)),
        ("OPENING=None", "opening", None),
        ("SUNDAY=True", "open_on_sunday", True),
        ("PRICE=4", "prices", {"rye": 4.0}),
        ("KIND=steam", "vessel", Oven(kind="steam")),
        ("SEEDS=poppy, sesame", "loaves", (Loaf(name="rye", seeds=("poppy", "sesame")),)),
        ("SEEDS=()", "loaves", (Loaf(name="rye"),)),
        ("LOAVES=(@bakery.Loaf(), @bakery.Loaf())", "loaves", (Loaf(name="rye", seeds=("poppy",)),) * 2),
        ("Oven.degrees=99", "vessel", Oven(degrees=99.0)),
        ("Bakery.street=x", "street", "x"),
    ],
    ids=lambda value: str(value),
)
def test_a_value_is_read_by_its_type(flag: str, field: str, value: Any) -> None:
    assert getattr(built(flag), field) == value


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "DAYS=four",
            "command line: DAYS needs an int, got 'four' (text)\n    --set DAYS=four\n  DAYS is 3 in run.gin:6",
        ),
        (
            "DAYS=3.0",
            "DAYS needs an int, got 3.0 (a float)\n    --set DAYS=3.0\n  write 3\n  DAYS is 3 in run.gin:6",
        ),
        (
            "KIND=steamm",
            "KIND needs 'stone' or 'steam', got 'steamm' (text)\n    --set KIND=steamm\n"
            "  did you mean 'steam'?\n  KIND is 'stone' in run.gin:9",
        ),
        ("SUNDAY=true", "SUNDAY needs True or False, got 'true' (text)"),
        ("OPENING=7", "OPENING needs a tuple of 2: (an int, an int) or None, got 7 (an int)"),
        ("PRICE=dear", "PRICE needs a float, got 'dear' (text)"),
        ("SUNDAY=@x", "command line: unknown name 'x'"),
        ("days=3", "there is no macro 'days'\n    --set days=3\n  did you mean 'DAYS'?"),
        ("SHAPE=oval", "nothing here uses SHAPE\n    --set SHAPE=oval"),
        (
            "Oven.degree=3",
            "bakery.Oven has no parameter 'degree'\n    --set Oven.degree=3\n  did you mean 'degrees'?",
        ),
        ("two words=3", "'two words' is no name"),
        (
            "STREET='x'",
            "command line: the quotes would be part of the text\n    --set STREET='x'\n"
            "  write --set STREET=x, or in gin's own syntax --gin.STREET=\"'x'\"",
        ),
    ],
    ids=lambda value: value.split(" ")[0],
)
def test_a_wrong_value_is_explained_with_its_type_and_the_recipes_value(flag: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        built(flag)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["x", "two words", "it's", "$HOME", 'a "b"'])
def test_a_hint_typed_into_a_shell_sets_the_text(text: str) -> None:
    with pytest.raises(UserError) as quoted:
        built(f"STREET={text!r}")
    set_hint, gin_hint = quoted.value.hint.removeprefix("write ").split(", or in gin's own syntax ")
    for hint in (set_hint, gin_hint):
        (override,), _ = split_overrides(shlex.split(hint))
        configuration = load(["run.gin"], ["NAME='rye'", override], roots=[bakery.Bakery])
        assert configuration.value.street == text


def test_bare_words_in_gins_syntax_get_a_hint_that_a_shell_takes() -> None:
    with pytest.raises(UserError) as bare:
        load(["run.gin"], ["STREET=two words"], roots=[bakery.Bakery])
    assert bare.value.hint == "text needs quotes: --gin.STREET=\"'two words'\", or --set 'STREET=two words'"


def test_of_several_settings_the_last_counts_and_messages_name_the_recipes_own_value() -> None:
    assert built("DAYS=1", "DAYS=2").days == 2
    with pytest.raises(UserError, match=r"DAYS is 3 in run\.gin:6"):
        built("DAYS=1", "DAYS=two")


def test_a_setting_and_gins_syntax_overrule_one_another_in_order() -> None:
    name = Setting("NAME", "rye", "--set NAME=rye")
    first, second = Setting("DAYS", "1", "--set DAYS=1"), "DAYS=2"
    assert load(["run.gin"], [name, first, second], roots=[bakery.Bakery]).value.days == 2
    assert load(["run.gin"], [name, second, first], roots=[bakery.Bakery]).value.days == 1


def test_the_kept_configuration_holds_the_value_and_its_origin() -> None:
    settings = [Setting("NAME", "rye", "--set NAME=rye"), Setting("STREET", "a/b", "--set STREET=a/b")]
    loaded = load(["run.gin"], settings, roots=[bakery.Bakery])
    assert "STREET = 'a/b' # command line, over run.gin:7" in " ".join(loaded.annotated_text.split())
    assert "STREET = 'a/b'" in loaded.text


def test_one_part_alone_is_built_with_settings_too() -> None:
    setting = Setting("NAME", "spelt", "--set NAME=spelt")
    (loaf,) = load_one(["run.gin"], [setting], root=bakery.Bakery, parameter="loaves", macro="LOAVES")
    assert loaf.name == "spelt"
