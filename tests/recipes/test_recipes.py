"""Every shipped recipe builds: as it is once its macros are given, and to the same value by gin itself."""

import functools
import importlib.util  # noqa: F401  gin 0.5.0 needs it loaded on Python 3.11
import re
from pathlib import Path

import pytest

from benchmarks.recipe_names import file_and_row, recipe_names
from t5x_like.evaluation.saved_runs import RunEvaluation, RunPrediction
from t5x_like.gin_config.configuration import Configuration, load
from t5x_like.gin_config.gin_syntax import Override
from t5x_like.gin_config.user_error import UserError
from t5x_like.io.files import shipped_directory
from t5x_like.model.parameters import abstract
from t5x_like.pretrained.initial_weights import CheckpointModel
from t5x_like.reports.run_report import RunReport
from t5x_like.training.experiment import Experiment
from tests.recipes.built_recipes import CORPUS, with_included
from tests.slow_cases import slow_except

GIN = shipped_directory("gin")
RECIPES = sorted(file for file in (GIN / "recipes").rglob("*.gin") if file.stem != "tasks")
INCLUDES_RECIPE = re.compile(r"^include 'gin/recipes/(?!\S*tasks\.gin')", re.MULTILINE)
SPAN_CORRUPTION = ["OBJECTIVE_NAME='span_corruption'"]
ROOTS = [Experiment, RunEvaluation, RunPrediction, RunReport]


@functools.cache
def flags_of(name: str) -> list[Override]:
    """The row of a recipe's table, and a value for every macro that the message about the bare recipe asks for."""
    file, row = file_and_row(name)
    macros = {"VOCABULARY": "bytes"} if "VOCABULARY = %" in with_included(file) else {}
    try:
        load([str(file)], [*row, *(f"{name}={value!r}" for name, value in macros.items())], roots=ROOTS)
    except UserError as mistake:
        flags = [line.split("#")[0].strip() for line in str(mistake).splitlines()[1:]]
        names = [flag.removeprefix("--set ").split("=")[0] for flag in flags]
        macros |= {
            name: CORPUS[name] if name in ("VOCABULARY", "CHARACTERS") else "somewhere" for name in names
        }
    return [*row, *(f"{name}={value!r}" for name, value in macros.items())]


@functools.cache
def as_shipped(name: str) -> Configuration:
    """Return the recipe's configuration with its required macros."""
    return load([str(file_and_row(name)[0])], flags_of(name), roots=ROOTS)


def each_recipe() -> pytest.MarkDecorator:
    """Slow are those that change a few numbers of another recipe, such as another size of the model or another task."""
    names = recipe_names("**/*.gin")
    first_rows = {name.partition("=")[0]: name for name in reversed(names)}
    always = {
        name
        for name in names
        if not name.startswith("comparisons/toy_")  # which comparisons include
        if not INCLUDES_RECIPE.search(file_and_row(name)[0].read_text())
        if "OBJECTIVE_NAME=" in name or first_rows[name.partition("=")[0]] == name
    }
    return pytest.mark.parametrize("name", slow_except(names, always))


@each_recipe()
def test_a_recipe_builds_and_its_kept_text_builds_the_same(name: str, tmp_path: Path) -> None:
    loaded = as_shipped(name)
    assert not loaded.unused, "a recipe says nothing to no effect"
    kept = tmp_path / "config.gin"
    kept.write_text(loaded.text)
    again = load([str(kept)], roots=ROOTS)
    assert again.value == loaded.value
    assert again.text == loaded.text
    if isinstance(loaded.value, Experiment) and not isinstance(loaded.value.model, CheckpointModel):
        assert abstract(loaded.value.model)


@each_recipe()
def test_a_recipe_means_the_same_to_gin_itself(name: str, tmp_path: Path) -> None:
    """Tables are ours: gin reads the text that is kept with a run, which has the row's values."""
    import gin

    (file, row), actual = file_and_row(name), as_shipped(name)
    flags = [flag for flag in flags_of(name) if isinstance(flag, str)]
    if row:
        file, flags = tmp_path / "config.gin", []
        file.write_text(actual.text)
    gin.clear_config()
    try:
        gin.add_config_file_search_path(str(GIN.parent))
        gin.parse_config_files_and_bindings([str(file)], flags, finalize_config=False)
        assert gin.get_configurable(type(actual.value))() == actual.value
    finally:
        gin.clear_config()


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: str(file.relative_to(GIN)))
def test_a_recipe_opens_with_its_command_and_hardware(file: Path) -> None:
    header = "\n".join(line for line in file.read_text().split("from __gin__")[0].splitlines())
    assert str(file.relative_to(GIN.parent)) in header
    if "report" not in file.stem:
        assert "Hardware:" in header


# Where rows come from files, not from a benchmark by its name.
ON_FILES = [file for file in (GIN / "recipes").rglob("*.gin") if "'train': " in file.read_text()]


@pytest.mark.parametrize("file", ON_FILES, ids=lambda file: str(file.relative_to(GIN)))
def test_a_recipe_on_files_takes_them_and_the_vocabulary_by_macros_at_its_top(file: Path) -> None:
    text = file.read_text()
    assert "{'train': %TRAIN_FILES, 'validation': %VALIDATION_FILES}" in text
    first_block = text.index(":\n    ")
    for name in ("TRAIN_FILES", "VALIDATION_FILES"):
        assert text.index(f"\n{name} = ") < first_block
    assert "VOCAB_SIZE = " not in text, "it follows from the vocabulary"


def test_another_vocabulary_changes_the_models_size_and_a_given_size_counts() -> None:
    recipe, flags = str(GIN / "recipes/objectives/king_james.gin"), [*SPAN_CORRUPTION, "MODEL_DIR='run'"]
    vocabulary = "VOCABULARY='data/vocabulary/spiece.model'"
    assert load([recipe], flags, roots=ROOTS).value.model.vocab_size == 384
    assert load([recipe], [*flags, vocabulary], roots=ROOTS).value.model.vocab_size == 4224
    with_size = load([recipe], [*flags, vocabulary, "VOCAB_SIZE=5120"], roots=ROOTS)
    assert with_size.value.model.vocab_size == 5120
    assert with_size.unused == []


def test_a_vocabulary_that_is_not_there_is_placed_where_it_was_named() -> None:
    recipe = str(GIN / "recipes/objectives/king_james.gin")
    with pytest.raises(UserError, match=r"command line: .*vocabulary 'none.model'.*does not exist"):
        load([recipe], [*SPAN_CORRUPTION, "MODEL_DIR='run'", "VOCABULARY='none.model'"], roots=ROOTS)
