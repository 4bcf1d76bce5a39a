"""Tables in gin files: a macro chooses a row, whose values count as if they stood in the table's place."""

from pathlib import Path

import pytest
from bakery import HEAD, Bakery

from t5x_like.gin_config.configuration import Configuration, load, load_one, required_macros, tables_in
from t5x_like.gin_config.statements import Setting
from t5x_like.gin_config.user_error import UserError

TABLE = """TABLE = {
    'TOWN': ('STREET', 'bakery.Bakery.days', 'include'),
    'bath': ('Mill Lane', 6, None),
    'york': ('Low Road', 5, 'steam.gin'),
}
"""
BAKERY = f"""{HEAD}
STREET = 'High Street'
TOWN = %gin.REQUIRED
{TABLE}
bakery.Bakery:
    loaves = ()
    street = %STREET
    vessel = @bakery.Oven()
"""
STEAM = f"{HEAD}bakery.Oven.kind = 'steam'\nSTREET = 'of the included file'\n"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.gin").write_text(BAKERY)
    (tmp_path / "steam.gin").write_text(STEAM)
    return tmp_path / "shop.gin"


def built(file: Path, *settings: str) -> Configuration:
    pairs = [text.partition("=") for text in settings]
    flags = [Setting(name, text, f"--set {name}={text}") for name, _, text in pairs]
    return load([str(file)], flags, roots=[Bakery])


def test_the_macro_chooses_a_row_and_a_row_may_include_a_file(shop: Path) -> None:
    bath, york = built(shop, "TOWN=bath").value, built(shop, "TOWN=york").value
    assert (bath.street, bath.days, bath.vessel.kind) == ("Mill Lane", 6, "stone")
    assert (york.street, york.days, york.vessel.kind) == ("Low Road", 5, "steam")


def test_a_row_may_include_several_files(shop: Path) -> None:
    (shop.parent / "hot.gin").write_text(f"{HEAD}bakery.Oven.degrees = 240.0\n")
    shop.write_text(BAKERY.replace("'steam.gin'", "('steam.gin', 'hot.gin')"))
    vessel = built(shop, "TOWN=york").value.vessel
    assert (vessel.kind, vessel.degrees) == ("steam", 240.0)


def test_flags_and_later_lines_win_over_a_row(shop: Path) -> None:
    assert built(shop, "TOWN=bath", "STREET=Quay", "Bakery.days=7").value.street == "Quay"
    shop.write_text(BAKERY + "STREET = 'Later'\nTOWN = 'bath'\n")
    assert built(shop).value.street == "Later"


def test_the_kept_text_has_the_values_of_the_row_alone(shop: Path, tmp_path: Path) -> None:
    configuration = built(shop, "TOWN=york")
    assert "TOWN" not in configuration.text
    assert "shop.gin:9" in configuration.annotated_text, "the line of the row"
    (tmp_path / "kept.gin").write_text(configuration.text)
    assert built(tmp_path / "kept.gin").value == configuration.value
    assert not configuration.unused


def test_the_missing_choice_is_asked_for_with_the_rows(shop: Path) -> None:
    with pytest.raises(UserError, match=r"shop.gin:6: TOWN chooses a row of the table here") as raised:
        built(shop)
    assert "pass --set TOWN=… with one of: bath, york" in str(raised.value)
    assert required_macros([str(shop)]) == ["TOWN"]


def test_a_part_that_needs_no_row_is_built_without_one(shop: Path) -> None:
    shop.write_text(f"{BAKERY}PRICE = 2.5\n")
    assert load_one([str(shop)], root=Bakery, parameter="prices", macro="PRICE") == 2.5
    with pytest.raises(UserError, match=r"--set TOWN=…"):
        load_one([str(shop)], root=Bakery, parameter="street", macro="STREET")


def test_an_unknown_row_is_refused_with_the_known_ones(shop: Path) -> None:
    with pytest.raises(UserError, match=r"TOWN is 'leeds'.*shop.gin:6 has no such row") as raised:
        built(shop, "TOWN=leeds")
    assert "bath, york" in str(raised.value)


def test_tables_of_two_files_are_chosen_by_one_macro(shop: Path, tmp_path: Path) -> None:
    more = "TABLE = {\n    'TOWN': ('bakery.Bakery.open_on_sunday',),\n    'bath': (True,),\n    'york': (False,),\n}\n"
    (tmp_path / "more.gin").write_text(f"{HEAD}include 'shop.gin'\n{more}")
    bakery = built(tmp_path / "more.gin", "TOWN=bath").value
    assert (bakery.days, bakery.open_on_sunday) == (6, True)


def test_a_macro_that_chooses_may_be_a_value_too(shop: Path) -> None:
    shop.write_text(BAKERY.replace("street = %STREET", "street = %TOWN"))
    assert built(shop, "TOWN=bath").value.street == "bath"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("TABLE = 3", "no dictionary of two or more rows"),
        ("TABLE = {'TOWN': ('STREET',)}", "no dictionary of two or more rows"),
        ("TABLE = {'TOWN': ('STREET',), 'bath': ('Mill Lane', 6)}", "'bath' has 2 values, and .* 1 columns"),
        ("TABLE = {'TOWN': ('bakery.Bakery.nights',), 'bath': (6,)}", "has no parameter 'nights'"),
        (
            "TABLE = {'TOWN': ('include',), 'bath': ('none.gin',)}",
            "includes 'none.gin', which does not exist",
        ),
        ("TABLE = {'TOWN': ('include',), 'bath': ('shop.gin',)}", "includes itself"),
    ],
)
def test_a_wrong_table_is_refused_where_it_stands(table: str, message: str, shop: Path) -> None:
    shop.write_text(BAKERY.replace(TABLE, table + "\n"))
    with pytest.raises(UserError, match=message) as raised:
        built(shop, "TOWN=bath")
    assert "shop.gin:6" in str(raised.value)


def test_a_file_that_is_a_row_now_is_answered_with_what_to_write(shop: Path) -> None:
    assert [list(table.rows) for table in tables_in(shop)] == [["bath", "york"]]
    with pytest.raises(UserError, match=r"row of shop.gin now: --gin_file=shop.gin --set TOWN=york"):
        load(["shop_york.gin"], roots=[Bakery])
    shop.write_text(f"{HEAD}include 'bakery_bath.gin'\n")
    (shop.parent / "bakery.gin").write_text(BAKERY)
    with pytest.raises(UserError, match=r"row of bakery.gin now: --gin_file=bakery.gin --set TOWN=bath"):
        built(shop)
