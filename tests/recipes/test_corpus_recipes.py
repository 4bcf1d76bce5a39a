"""Every file of gin/corpora builds a recipe, and says what it is and where it comes from."""

import pytest

from t5x_like.corpora.building.recipe import CorpusRecipe
from t5x_like.gin_config.configuration import load
from tests.references import ROOT

FILES = sorted((ROOT / "gin" / "corpora").glob("*.gin"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recipe_builds_and_names_its_command_and_source(file):
    header = "".join(line for line in file.read_text().splitlines(keepends=True) if line.startswith("#"))
    assert f"t5x-like corpus build --recipe gin/corpora/{file.name} --input" in header
    assert "http" in header
    loaded = load([str(file)], roots=[CorpusRecipe])
    assert loaded.value.name == file.stem
    assert loaded.unused == []
