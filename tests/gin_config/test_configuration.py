"""What gin files mean: the same as to gin itself, with an origin for every value."""

import importlib.util  # noqa: F401  gin 0.5.0 needs it loaded on Python 3.11
from collections.abc import Callable, Iterator
from pathlib import Path

import bakery
import pytest
from bakery import HEAD, PLAIN, Bakery, Loaf, Oven

from t5x_like.gin_config.configuration import Configuration, load

LoadText = Callable[..., Configuration]

SCOPES_AND_MACROS = (
    HEAD
    + """
STREET = %gin.REQUIRED
GRAMS = 400
LOAVES = (@white/bakery.Loaf(), @rye/bakery.Loaf())
bakery.Bakery:
    loaves = %LOAVES
    street = %STREET  # a comment
    days = 6
    vessel = @bakery.Oven()
    prices = {'white': 2.5, 'rye': 3.0}
bakery.Loaf.grams = %GRAMS
bakery.Loaf.seeds = ('none',)
white/bakery.Loaf.name = 'white'
rye/bakery.Loaf.name = 'rye'
rye/bakery.Loaf.grams = 750
bakery.Oven.kind = 'steam'
STREET = 'High Street'
"""
)


@pytest.fixture
def gin_itself() -> Iterator[Callable[[str], Bakery]]:
    import gin

    def build(text: str) -> Bakery:
        gin.parse_config(text)
        return gin.get_configurable(bakery.Bakery)()

    gin.clear_config()
    yield build
    gin.clear_config()


def test_scopes_macros_and_references_mean_what_they_mean_to_gin(
    load_text: LoadText, gin_itself: Callable[[str], Bakery]
) -> None:
    actual = load_text(SCOPES_AND_MACROS).value
    assert actual == gin_itself(SCOPES_AND_MACROS)
    assert actual.loaves == (
        Loaf(name="white", grams=400, seeds=("none",)),
        Loaf(name="rye", grams=750, seeds=("none",)),
    )
    assert type(actual) is Bakery


def test_a_knob_is_evaluated_in_the_scope_of_its_name_as_in_gin(
    load_text: LoadText, gin_itself: Callable[[str], Bakery]
) -> None:
    text = PLAIN + "OVEN = @bakery.Oven()\nbakery.Bakery.vessel = %OVEN\nOVEN/bakery.Oven.degrees = 90.0\n"
    assert load_text(text).value == gin_itself(text)
    assert load_text(text).value.vessel == Oven(degrees=90.0)


def test_a_reference_with_a_scope_leaves_the_scope_it_stands_in_as_in_gin(
    load_text: LoadText, gin_itself: Callable[[str], Bakery]
) -> None:
    text = HEAD + (
        "bakery.Bakery.street = 's'\nbakery.Bakery.days = 1\nbakery.Bakery.loaves = (@a/bakery.Loaf(),)\n"
        "a/bakery.Loaf.name = 'a'\na/bakery.Loaf.seeds = (@b/bakery.twice(), @bakery.twice())\n"
        "bakery.twice.word = 'x'\na/bakery.twice.word = 'y'\nb/bakery.twice.word = 'z'\n"
    )
    assert load_text(text).value == gin_itself(text)
    assert load_text(text).value.loaves[0].seeds == ("zz", "yy")


def test_later_statements_overrule_earlier_ones_and_flags_come_last(load_text: LoadText) -> None:
    loaded = load_text(
        HEAD + "include 'oven.gin'\nbakery.Oven.degrees = 210.0\nbakery.Bakery.vessel = @bakery.Oven()\n"
        "bakery.Bakery.loaves = ()\nbakery.Bakery.street = 'a'\nbakery.Bakery.days = 1\n",
        "Bakery.days=2",
        oven=HEAD + "bakery.Oven.degrees = 100.0\nbakery.Oven.kind = 'steam'\n",
    )
    assert loaded.value.vessel == Oven(degrees=210.0, kind="steam")
    assert loaded.value.days == 2


def test_every_value_tells_where_it_came_from(load_text: LoadText) -> None:
    loaded = load_text(SCOPES_AND_MACROS, "STREET='Low Street'", "rye/bakery.Loaf.grams=800")
    origins = {name: origin for name, _, origin in loaded.resolved}
    assert origins["bakery.Bakery.days"] == "run.gin:10"
    assert origins["bakery.Bakery.street"] == "command line (STREET)"
    assert origins["bakery.Bakery.open_on_sunday"] == "default"
    assert "STREET = 'Low Street' # command line, over run.gin:19" in " ".join(loaded.annotated_text.split())
    assert "grams = 800   # command line, over run.gin:17" in loaded.annotated_text


def test_the_text_a_run_keeps_builds_the_same_again(
    load_text: LoadText, gin_itself: Callable[[str], Bakery]
) -> None:
    first = load_text(SCOPES_AND_MACROS, "GRAMS=333", "Bakery.opening=(7, 18)")
    again = load_text(first.text)
    assert again.value == first.value
    assert again.text == first.text
    assert gin_itself(first.text) == first.value


def test_macros_of_the_kept_text_can_still_be_turned(load_text: LoadText) -> None:
    kept = load_text(SCOPES_AND_MACROS).text
    assert load_text(kept, "GRAMS=111").value.loaves[0].grams == 111


def test_an_uncalled_reference_is_the_function_with_its_bindings(load_text: LoadText) -> None:
    assert load_text(PLAIN + "bakery.Bakery.rule = @bakery.half\n").value.rule is bakery.half
    bound = load_text(PLAIN + "bakery.Bakery.rule = @bakery.half\nbakery.half.share = 0.1\n")
    assert bound.value.rule(grams=100) == 10
    assert load_text(bound.text).value.rule(grams=100) == 10


def test_shipped_gin_files_are_found_from_any_folder(load_text: LoadText) -> None:
    loaded = load_text(PLAIN + "include 'gin/models/t5_1_1/small.gin'\n")
    assert any("T5Config.model_dim has no effect" in line for line in loaded.unused)


def test_search_paths_come_before_what_is_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "shop.gin").write_text(PLAIN)
    monkeypatch.chdir(tmp_path)
    assert load(["shop.gin"], roots=[Bakery], search_paths=["mine"]).value.days == 6


def test_the_first_root_that_is_configured_is_built(load_text: LoadText, tmp_path: Path) -> None:
    load_text(PLAIN)
    (tmp_path / "oven.gin").write_text(HEAD + "bakery.Oven.kind = 'steam'\n")
    assert load(["oven.gin"], roots=[Bakery, Oven]).value == Oven(kind="steam")
