"""Recipes of papers' comparisons: every setting builds, for both runs."""

from pathlib import Path

import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import shipped_directory

FOLDER = shipped_directory("gin") / "recipes" / "comparisons"
RECIPES = sorted(file for file in FOLDER.glob("*.gin") if "\nCOMPARISON = " in file.read_text())
TEXT = [
    "--set=TRAIN_FILES=data/king_james/train.txt",
    "--set=VALIDATION_FILES=data/king_james/validation.txt",
    "--set=VOCABULARY=data/vocabulary/spiece.model",
]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda file: file.stem)
def test_every_setting_of_a_comparison_builds(recipe: Path, tmp_path: Path, capsys) -> None:
    # The vocabulary of words of these is learned first.
    vocabulary = TEXT[-1:] if recipe.stem in ("cove", "cove_sst2", "elmo") else []
    assert main(["sweep", str(recipe), *vocabulary, "--dry_run", f"--output={tmp_path}"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 2


@pytest.mark.parametrize(
    ("comparison", "pretraining", "then"),
    [
        ("t5_objectives", "gin/recipes/t5/pretrain_base.gin", "gin/recipes/comparisons/t5_glue.gin"),
        ("roberta_masking", "gin/recipes/roberta/pretrain_base.gin", "gin/recipes/roberta/glue_mnli.gin"),
    ],
)
def test_a_second_recipe_makes_it_the_papers_size(
    comparison: str, pretraining: str, then: str, tmp_path: Path
) -> None:
    recipes = [str(FOLDER / f"{comparison}.gin"), pretraining]
    assert main(["sweep", *recipes, "--then", then, *TEXT, "--dry_run", f"--output={tmp_path}"]) == 0
