"""``--set Class.field=value`` on a configuration that is built already: a saved run's."""

from dataclasses import replace

import pytest
from bakery import Bakery, Loaf, Oven

from t5x_like.gin_config.recorded_values import with_values
from t5x_like.gin_config.statements import Setting
from t5x_like.gin_config.user_error import UserError

BUILT = Bakery(
    loaves=(Loaf(name="white"), Loaf(name="rye")),
    street="Mill Lane",
    days=6,
    prices={"rye": 3.0},
    vessel=Oven(),
)


def changed(*flags: str) -> Bakery:
    settings = [Setting(*flag.split("=", 1), flag=f"--set {flag}") for flag in flags]
    return with_values(BUILT, settings, where="runs/a")


def test_a_field_changes_wherever_its_class_is() -> None:
    assert changed("Loaf.grams=300").loaves == (Loaf(name="white", grams=300), Loaf(name="rye", grams=300))
    assert changed("bakery.Oven.degrees=90", "Bakery.days=5") == replace(
        BUILT, vessel=Oven(degrees=90.0), days=5
    )
    assert BUILT.days == 6


def test_the_last_value_wins_and_text_needs_no_quotes() -> None:
    assert changed("Bakery.street=Low Street", "Bakery.street=512").street == "512"
    assert changed("Loaf.seeds=poppy,sesame").loaves[0].seeds == ("poppy", "sesame")


def test_gins_own_syntax_is_read_too() -> None:
    assert with_values(BUILT, ["Bakery.street='High Street'"], where="runs/a").street == "High Street"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("DAYS=3", "the record of runs/a has no 'DAYS'"),
        ("DAYS=3", "those of a gin file can be set: --gin_file=runs/a/config.gin"),
        ("Loff.grams=3", "did you mean 'Loaf.grams'?"),
        ("Pan.width=3", "the record of runs/a has no 'Pan.width'"),
        (
            "Loaf.gramms=3",
            "bakery.Loaf has no field 'gramms'\n    --set Loaf.gramms=3\n  did you mean 'grams'?",
        ),
        ("Loaf.grams=0", "command line: bakery.Loaf: grams is 0; a loaf weighs at least 1"),
        ("Bakery.days=many", "bakery.Bakery.days needs an int, got 'many' (text)"),
        ("Bakery.vessel=@bakery.Pan()", "a saved run takes plain values only"),
        ("scope/Loaf.grams=3", "has no 'Loaf.grams'"),
    ],
)
def test_what_it_cannot_set_is_refused(flag: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        changed(flag)
    assert message in str(caught.value)
