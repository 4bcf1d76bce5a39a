"""Recipes have the values of their papers; those that deviate say so."""

from pathlib import Path

import pytest

from benchmarks import recipe_values
from benchmarks.recipe_names import file_and_row, recipe_names
from benchmarks.recipe_values import TABLES, difference, main, published_values, values_at

FAMILIES = sorted(file.stem for file in TABLES.glob("*.tsv"))
WITHOUT_VALUES = {  # papers publish none for them, or their values are those of another recipe
    "distillation/minilm_sst2.gin",
    "transformer/handbook_en_de.gin",
}
TOYS = ("objectives/", "tuning/")  # which are compared where they claim values of a paper


def table(folder: Path, *rows: str) -> None:
    """Write a table of BERT's with these lines."""
    header = "recipe\tvalue\texpected\tsource\tkind\tdeviation"
    (folder / "bert.tsv").write_text("\n".join([header, *rows, ""]))


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(recipe_values, "TABLES", tmp_path)
    monkeypatch.setattr(recipe_values, "published_values", published_values.__wrapped__)
    return tmp_path


@pytest.mark.parametrize("family", FAMILIES)
def test_recipes_have_the_values_of_their_paper(family: str) -> None:
    assert [line for value in published_values(family) if (line := difference(value))] == []


def test_every_recipe_of_a_paper_has_published_values() -> None:
    compared = {value.recipe for family in FAMILIES for value in published_values(family)}
    recipes = {name for family in FAMILIES for name in recipe_names(f"{family}/*.gin")}
    assert {name for name in recipes - compared if not name.startswith(TOYS)} == WITHOUT_VALUES
    assert {name for name in recipe_names("*/pretrain*.gin") if name not in compared} == {
        "quickstart/pretrain.gin"
    }


def test_a_difference_is_printed_with_its_source_and_the_count(
    tables: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table(
        tables,
        "bert/pretrain_base.gin\tAdamW.beta2\t0.98\tA paper 2019, table 1\tpaper\t",
        "bert/pretrain_base.gin\tTRAIN_STEPS\t900000\tA paper 2019, table 1\tpaper\t",
    )
    monkeypatch.setattr("sys.argv", ["recipe_values"])
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().out.splitlines() == [
        "bert/pretrain_base.gin: AdamW.beta2 is 0.999, not 0.98 (A paper 2019, table 1)",
        "1 of 2 values agree",
    ]


def test_a_recipe_must_keep_the_value_of_its_deviation(tables: Path) -> None:
    rows = (
        f"bert/pretrain_base.gin\toptimizer.{field}\t0.98\tA paper\tpaper\t{here}: a reason"
        for field, here in (("beta1", 0.9), ("beta2", 0.99))
    )
    table(tables, *rows)
    kept, changed = map(difference, recipe_values.published_values("bert"))
    assert kept == ""
    assert (
        changed
        == "bert/pretrain_base.gin: optimizer.beta2 is 0.999, not 0.99 (A paper; deviates from 0.98: a reason)"
    )


def test_a_field_that_a_recipe_lacks_is_a_difference(tables: Path) -> None:
    table(tables, "bert/pretrain_base.gin\tLamb.beta1\t0.9\tA paper\tpaper\t")
    (value,) = recipe_values.published_values("bert")
    assert difference(value) == "bert/pretrain_base.gin: Lamb.beta1 is missing, not 0.9 (A paper)"


def test_values_are_named_by_field_by_class_and_by_macro() -> None:
    names = ("optimizer.learning_rate.peak", "LinearWarmupLinearDecay.peak", "LEARNING_RATE")
    assert [values_at("bert/pretrain_base.gin", name) for name in names] == [[1e-4]] * 3


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("bert/none.gin\tAdamW.beta1\t0.9\tA paper\tpaper\t", "no recipe is called 'bert/none.gin'"),
        ("bert/pretrain_base.gin\tAdamW.beta1\t0.9\tA paper\tguess\t", "a kind out of code, paper, memory"),
        ("bert/pretrain_base.gin\tAdamW.beta1\t0.9\t\tpaper\t", "needs a source"),
        ("bert/pretrain_base.gin\tAdamW.beta1\tbeta\tA paper\tpaper\t", "Python literals"),
        (
            "bert/pretrain_base.gin\tAdamW.beta1\t0.9\tA paper\tpaper\t0.8",
            "value and a reason",
        ),
    ],
)
def test_a_line_that_says_nothing_is_refused(tables: Path, row: str, message: str) -> None:
    table(tables, row)
    with pytest.raises(ValueError, match=message):
        recipe_values.published_values("bert")


def test_a_value_with_two_lines_is_refused(tables: Path) -> None:
    table(tables, *["bert/pretrain_base.gin\tAdamW.beta1\t0.9\tA paper\tpaper\t"] * 2)
    with pytest.raises(ValueError, match=r"bert.tsv:3: .* is in an earlier line"):
        recipe_values.published_values("bert")


def test_a_deviation_stands_in_the_recipes_header() -> None:
    for family in FAMILIES:
        for value in published_values(family):
            if value.deviation:
                lines = file_and_row(value.recipe)[0].read_text().partition("from __gin__")[0].splitlines()
                assert value.deviation in " ".join(line.removeprefix("# ") for line in lines), value
