"""Headers of pretraining recipes name the macros that they need, and the values of those that users change."""

import re
from pathlib import Path

import pytest

from docs.site import recipe_macros, recipes
from t5x_like.gin_config.configuration import read
from tests.recipes.test_paper_settings import PRETRAINING

FILES = recipe_macros.full_size()


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_header_ends_with_the_macros_of_its_recipe(file: Path) -> None:
    header = file.read_text().partition("from __gin__")[0]
    assert header.endswith(recipe_macros.block(file)), "run python -m docs.site.recipe_macros"
    assert header.count(f"# {recipe_macros.REQUIRED}:") == 1
    assert header.count(f"# {recipe_macros.OVERRIDDEN}:") == 1


def test_every_recipe_that_is_compared_with_its_paper_has_them() -> None:
    assert {f"{file.parent.name}/{file.name}" for file in FILES} == {name.split()[0] for name in PRETRAINING}


def test_a_recipe_shows_its_own_values_and_not_those_of_the_one_it_includes() -> None:
    fields = recipes.read_recipe(recipe_macros.RECIPES / "llama3/pretrain_405b.gin").fields
    assert fields[recipe_macros.REQUIRED] == "MODEL_DIR, TRAIN_FILES, VALIDATION_FILES, VOCABULARY"
    shown = fields[recipe_macros.OVERRIDDEN]
    assert "NUM_MICROBATCHES = 32, " in shown
    assert "LEARNING_RATE = 8e-05, " in shown
    assert shown.endswith("SEED = 0")


@pytest.mark.parametrize("file", FILES[::8], ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_values_shown_are_those_that_gin_reads(file: Path) -> None:
    shown = recipes.read_recipe(file).fields[recipe_macros.OVERRIDDEN]
    settings = dict(re.findall(r"(\w+) = ([^,]+)", shown))
    values = {s.name: s.value for s, _ in read([str(file)]).bindings if not s.parameter}
    assert len(settings) >= 6
    assert {name: repr(values[name]) for name in settings} == settings


def test_a_block_is_replaced_and_the_rest_of_the_header_stays() -> None:
    others = "# A recipe.\n#\n# Paper: one.\n"
    rest = "from __gin__ import x\nB = 1\n"
    old = f"{others}# Required to be set: A.\n# Commonly overridden: B = 1,\n# C = 2.\n{rest}"
    lines = "# Required to be set: D.\n# Commonly overridden: E = 1.\n"
    new = recipe_macros.with_block(old, lines)
    assert new == f"{others}{lines}{rest}"
    assert recipe_macros.with_block(new, lines) == new
