"""Recipes of papers' comparisons: every setting builds, for both runs."""

from pathlib import Path

import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import shipped_directory
from t5x_like.text.vocabularies.opening import open_tokenizer
from tests.slow_cases import slow_except

FOLDER = shipped_directory("gin") / "recipes" / "comparisons"
RECIPES = sorted(file for file in FOLDER.glob("*.gin") if "\nCOMPARISON = " in file.read_text())
FULL_SIZED = [file for file in RECIPES if "full_size = @" in file.read_text()]
TABLE_10 = FOLDER.parent / "tuning" / "t5_table_10.gin"
# The others change fields that these change too.
BUILT = [file for file in RECIPES if not file.stem.startswith(("t5_", "roberta_", "spanbert_", "ulmfit"))]
BUILT += [file for file in RECIPES if file.stem in ("t5_architectures", "roberta_inputs", "t5_multi_task")]
OFTEN_BUILT = ("t5_objectives", "roberta_inputs", "t5_table_10")
TEXT = [
    "--set=TRAIN_FILES=data/king_james/train.txt",
    "--set=VALIDATION_FILES=data/king_james/validation.txt",
    "--set=VOCABULARY=data/vocabulary/spiece.model",
]


@pytest.mark.parametrize("recipe", slow_except(RECIPES, BUILT), ids=lambda file: file.stem)
def test_every_setting_of_a_comparison_builds(recipe: Path, tmp_path: Path, capsys) -> None:
    # The vocabulary of words of these is learned first.
    vocabulary = TEXT[-1:] if recipe.stem in ("cove", "cove_sst2", "elmo") else []
    assert main(["sweep", str(recipe), *vocabulary, "--dry_run", f"--output={tmp_path}"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 2


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(file, id=file.stem, marks=() if file.stem in OFTEN_BUILT else pytest.mark.slow)
        for file in (*FULL_SIZED, TABLE_10)
    ],
)
def test_every_setting_builds_at_full_size(recipe: Path, tmp_path: Path, capsys) -> None:
    data = TEXT[-1:] if recipe == TABLE_10 else TEXT
    if recipe.stem in ("t5_table_10", "ulmfit"):
        data = ["--set=INITIAL_CHECKPOINT=pretrained", *data]
    assert main(["sweep", str(recipe), "--full_size", *data, "--dry_run", f"--output={tmp_path}"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 2


def test_most_pieces_of_phonemes_are_not_in_the_pretraining_text() -> None:
    # The header of TABLE_10 says why its adapters learn nearly nothing.
    data = shipped_directory("data")
    tokenizer = open_tokenizer(str(data / "vocabulary/spiece.model"), 100)
    known = {number for row in tokenizer.encode_all(lines(data / "king_james/train.txt")) for number in row}
    words = [line.split("\t")[2] for line in lines(data / "cmudict/train.tsv")[1:]]
    pieces = {number for row in tokenizer.encode_all(words) for number in row}
    assert (len(pieces - known), len(pieces)) == (22, 39)
    assert "22 of the 39 pieces of phonemes aren't in it" in TABLE_10.read_text()


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def test_a_second_recipe_may_change_the_size(tmp_path: Path) -> None:
    recipes = [str(FOLDER / "t5_span_lengths.gin"), "gin/recipes/t5/pretrain_base.gin"]
    then = "gin/recipes/comparisons/t5_glue.gin"
    assert main(["sweep", *recipes, "--then", then, *TEXT, "--dry_run", f"--output={tmp_path}"]) == 0


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("gin/recipes/comparisons/sequence_to_sequence.gin", "this comparison has no full size"),
        ("gin/recipes/quickstart/pretrain.gin", "the recipe compares nothing"),
    ],
)
def test_a_recipe_without_a_full_size_says_so(recipe: str, message: str, tmp_path: Path, capsys) -> None:
    assert main(["sweep", recipe, "--full_size", "--dry_run", f"--output={tmp_path}"]) == 2
    assert message in capsys.readouterr().err
