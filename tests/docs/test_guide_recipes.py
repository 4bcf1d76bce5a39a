"""The recipes that guides show build as they are."""

import re

import pytest

from t5x_like.gin_config.configuration import load
from t5x_like.training.experiment import Experiment
from tests.references import ROOT

RECIPES = [
    (guide.stem, recipe)
    for guide in sorted((ROOT / "docs/guides").glob("*.md"))
    for recipe in re.findall(r"^```\n(from __gin__.*?)^```", guide.read_text(encoding="utf-8"), re.M | re.S)
    if "include '" in recipe
]


@pytest.mark.parametrize(("guide", "recipe"), RECIPES, ids=[guide for guide, _ in RECIPES])
def test_a_recipe_of_a_guide_builds(guide, recipe, tmp_path):
    (tmp_path / "recipe.gin").write_text(recipe, encoding="utf-8")
    macros = ["MODEL_DIR='run'", *["INITIAL_CHECKPOINT='run'"] * ("runs/finetune" in recipe)]
    loaded = load([str(tmp_path / "recipe.gin")], macros, roots=[Experiment])
    assert loaded.unused == [], "a recipe says nothing to no effect"
    assert loaded.value.run.intervals.log_every_steps <= 100, f"{guide}: a run is silent for long"


def test_guides_have_recipes():
    assert {guide for guide, _ in RECIPES} >= {"your_own_task", "heads", "corpora", "objectives"}
