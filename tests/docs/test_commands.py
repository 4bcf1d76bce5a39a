"""Every command that a document or a recipe shows is one that t5x-like has, flag by flag."""

import re
import shlex
from pathlib import Path

import pytest

from docs.site.gin_macros import read_macros
from docs.site.recipes import recipes
from t5x_like.cli.main import main, module_of
from tests.references import ROOT

DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), ROOT / "launch/README.md"]
)
_BLOCK = re.compile(r"^```(?:bash|sh|console)?\n(.*?)^```", re.M | re.S)


def commands_of(text: str) -> list[list[str]]:
    """The arguments of each ``t5x-like`` in shell lines, without redirections and placeholders."""
    results = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if not re.match(r"\s*(?:[A-Z0-9_]+=\S+ )*t5x-like ", line):
            continue
        arguments = shlex.split(line, comments=True)
        arguments = arguments[arguments.index("t5x-like") + 1 :]
        ends = [place for place, word in enumerate(arguments) if word in ("|", ">", "<", "&&")]
        arguments = arguments[: min(ends, default=None)]
        flags = ["", *arguments]
        results.append(
            [word for flag, word in zip(flags, arguments, strict=False) if word != "…" or flag[:2] == "--"]
        )
    return results


def shown() -> dict[str, list[str]]:
    """Command as shown -> its arguments."""
    texts = {
        str(path.relative_to(ROOT)): "\n".join(_BLOCK.findall(path.read_text(encoding="utf-8")))
        for path in DOCUMENTS
    }
    texts |= {
        str(recipe.path.relative_to(ROOT)): recipe.command for group in recipes().values() for recipe in group
    }
    return {
        f"{name}: {shlex.join(arguments)}": arguments
        for name, text in texts.items()
        for arguments in commands_of(text)
    }


SHOWN = shown()
MACROS = set(read_macros(sorted((ROOT / "gin").rglob("*.gin")))) | {"TRAIN_FILES", "VALIDATION_FILES"}


def test_commands_are_found():
    assert len(SHOWN) > 120
    assert ["train", "--set", "A=1"] in commands_of("  X=1 t5x-like train \\\n    --set A=1  # words\n")


@pytest.mark.parametrize("command", SHOWN)
def test_a_shown_command_has_known_flags(command, monkeypatch, capsys):
    arguments = SHOWN[command]
    if not arguments[0].startswith("-"):
        monkeypatch.setattr(module_of(arguments[0]), "run", lambda _: 0)
    if "--help" not in arguments:
        assert main(arguments) == 0, capsys.readouterr().err


@pytest.mark.parametrize("command", SHOWN)
def test_a_shown_command_names_files_and_macros_that_exist(command):
    arguments = SHOWN[command]
    for before, word in zip(["", *arguments], arguments, strict=False):
        for path in re.findall(r"(?:^|=)(gin/\S+\.gin)$", word):
            assert (ROOT / path).is_file()
        if before == "--set":
            name = word.partition("=")[0]
            assert name in MACROS or "." in name, f"no gin file has the macro {name}"


def test_files_of_a_document_exist():
    """``gin/…`` and ``data/…`` in code of the prose."""
    for document in DOCUMENTS:
        for path in re.findall(
            r"`((?:gin|data|launch)/[\w/.-]+\.\w+)`", document.read_text(encoding="utf-8")
        ):
            assert Path(ROOT, path).exists(), f"{document}: {path}"
