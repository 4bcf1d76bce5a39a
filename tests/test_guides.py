"""Commands and recipes of guides, cards and gin headers work as they are written."""

import importlib
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from t5x_like.cli import main as cli
from t5x_like.gin_config.configuration import load
from t5x_like.gin_config.statements import Setting
from t5x_like.gin_config.user_error import UserError
from t5x_like.training.experiment import Experiment
from tests.references import ROOT

GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))
PROSE = [*GUIDES, ROOT / "README.md", ROOT / "launch/README.md", *sorted((ROOT / "data").glob("*/README.md"))]
HEADERS = sorted((ROOT / "gin").glob("*/**/*.gin"))


def blocks(file: Path) -> list[str]:
    """Return the fenced blocks of a page, or the indented lines of a gin file's header."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return re.findall(r"^```(?:sh|bash)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    header = text.split("from __gin__")[0].splitlines()
    return ["\n".join(line[4:] for line in header if line.startswith("#   "))]


def commands(file: Path) -> Iterator[list[str]]:
    """Yield the words of every ``t5x-like`` command, without comments."""
    for block in blocks(file):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("t5x-like ") and "VERB" not in line:
                line = re.split(r" [|>&]+ ", line.replace("…", "any"))[0]
                yield shlex.split(line, comments=True)[1:]


def parse(words: list[str]):
    verb = words[0]
    assert verb in cli.VERBS, f"no verb {verb}"
    parser = cli.VerbParser(prog=f"t5x-like {verb}", allow_abbrev=False)
    importlib.import_module(f"t5x_like.cli.{verb}").add_arguments(parser)
    kept = [word for before, word in itertools.pairwise(words) if word != "any" or before.startswith("--")]
    return cli._parse(parser, kept)


@pytest.mark.parametrize("file", PROSE, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_command_of_a_page_has_flags_that_exist(file):
    for words in commands(file):
        try:
            parse(words)
        except UserError as mistake:
            pytest.fail(f"{file}: t5x-like {' '.join(words)}\n{mistake}")


def test_every_command_of_a_gin_header_has_flags_that_exist():
    found = [(file, words) for file in HEADERS for words in commands(file)]
    assert len(found) > 80
    for file, words in found:
        try:
            parse(words)
        except UserError as mistake:
            pytest.fail(f"{file}: t5x-like {' '.join(words)}\n{mistake}")


@pytest.mark.parametrize("file", GUIDES, ids=lambda file: file.stem)
def test_every_training_command_of_a_guide_sets_macros_of_its_recipe(file):
    for words in commands(file):
        if words[0] != "train" or "any" in words or not (arguments := parse(words)).gin_file:
            continue
        if all((ROOT / recipe).exists() for recipe in arguments.gin_file):
            settings = [*arguments.overrides, Setting("MODEL_DIR", "runs/any", "--model_dir runs/any")]
            load([str(ROOT / recipe) for recipe in arguments.gin_file], settings, roots=[Experiment])


RECIPES = [
    (file, block)
    for file in GUIDES
    for block in blocks(file)
    if "from __gin__" in block and "include '" in block
]


@pytest.mark.parametrize(("file", "recipe"), RECIPES, ids=[file.stem for file, _ in RECIPES])
def test_a_recipe_of_a_guide_builds(file, recipe, tmp_path):
    (tmp_path / "recipe.gin").write_text(recipe, encoding="utf-8")
    macros = ["MODEL_DIR='run'", *["INITIAL_CHECKPOINT='run'"] * ("runs/finetune" in recipe)]
    loaded = load([str(tmp_path / "recipe.gin")], macros, roots=[Experiment])
    assert loaded.unused == [], "a recipe says nothing to no effect"
