"""The index of recipes, from the comments that open the gin files."""

import functools
import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "gin" / "recipes"
FLOPS = ROOT / "benchmarks" / "results" / "recipe_flops.json"

INTRODUCTION = """# Recipes

A recipe is a gin file with the settings of a paper, the command that runs it, the hardware it needs and the score
to expect. This index is made from the files' headers. Change any value by a flag:
[gin macros](../reference/gin_macros.md).

Chip-hours of pretraining are estimates: the FLOPs of the traced train step times the recipe's steps, on TPU v5e at
40 % of its peak ([figures](../../benchmarks/results/recipe_flops.json)). Nobody here has run them at full size.
"""
TITLES = {
    "quickstart": "Quickstart",
    "transformer": "Transformer",
    "rnn_seq2seq": "Recurrent sequence to sequence",
    "sixt": "SixT",
    "t5": "T5 1.0",
    "t5_1_1": "T5 1.1",
    "nanot5": "nanoT5",
    "mt5": "mT5",
    "umt5": "UMT5",
    "ul2": "UL2",
    "longt5": "LongT5",
    "switch_transformer": "Switch Transformer",
    "bert": "BERT",
    "roberta": "RoBERTa",
    "albert": "ALBERT",
    "electra": "ELECTRA",
    "deberta_v3": "DeBERTa v3",
    "spanbert": "SpanBERT",
    "ernie": "ERNIE 1.0",
    "entity_bert": "ERNIE of Tsinghua",
    "modernbert": "ModernBERT",
    "mmbert": "mmBERT",
    "unilm": "UniLM",
    "gpt1": "GPT",
    "gpt2": "GPT-2",
    "gpt3": "GPT-3",
    "llama": "LLaMA",
    "llama2": "Llama 2",
    "llama3": "Llama 3",
    "ettin": "Ettin",
    "olmoe": "OLMoE",
    "smollm3": "SmolLM3",
    "flan": "FLAN",
    "glm_orig": "GLM",
    "transfo_xl": "Transformer-XL",
    "ulmfit": "ULMFiT",
    "elmo": "ELMo",
    "xlnet": "XLNet",
    "glue": "GLUE on a CPU",
    "comparisons": "Comparisons",
    "tuning": "Ways of tuning",
    "distillation": "Distillation",
    "objectives": "Pretraining objectives",
}
_FIELD = re.compile(
    r"^(Hardware|Hours|Score to expect|Paper|Settings|Required to be set|Commonly overridden)\b", re.M
)
_NOT_RECIPES = {"tasks"}  # included by recipes


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The header of a recipe.

    Attributes:
      path: the gin file.
      summary: the first sentence.
      details: the other sentences before the fields.
      command: lines to run, without the comment sign; may be empty.
      fields: "Hardware", "Hours", "Score to expect", "Paper", "Settings" and the lists of macros -> text, of those
        given.
    """

    path: Path
    summary: str
    details: str
    command: str
    fields: dict[str, str]


def read_recipe(path: Path) -> Recipe:
    """Return the header of the recipe in ``path``: the comment before the first statement.

    Lines that are indented by three spaces or more are commands. A field is a line that begins with its name, and a
    colon ends what qualifies it: ``Score to expect (one run, seed 0): 85.2 %``.
    """
    header = itertools.takewhile(
        lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines()
    )
    lines = [line[1:] for line in header]
    command = "\n".join(line[3:] for line in lines if line.startswith("   "))
    plain = "\n".join(line[1:] for line in lines if not line.startswith("   "))
    words, *found = _FIELD.split(plain)
    fields = dict(_field(name, text) for name, text in zip(found[::2], found[1::2], strict=True))
    summary, _, details = " ".join(words.split()).rstrip(":").partition(". ")
    return Recipe(
        path=path, summary=summary.rstrip("."), details=details.strip(), command=command, fields=fields
    )


def _field(name: str, text: str) -> tuple[str, str]:
    """Split " (one run): 4.14" into the field's name and its words, "4.14 (one run)"."""
    qualifier, _, words = " ".join(text.split()).partition(":")
    return name, f"{words.strip().rstrip('.')} {qualifier}".strip()


@functools.cache
def _computation() -> dict[str, Any]:
    return json.loads(FLOPS.read_text(encoding="utf-8"))["recipes"]


def hours(recipe: Recipe) -> str:
    """Return the hours of a recipe: measured, or those that its FLOPs take."""
    found = _counted(recipe)
    if not found:
        return recipe.fields.get("Hours", "–")
    shown = [f"{f'{row}: ' if row else ''}{counted['chip_hours']:,}" for row, counted in found.items()]
    return f"{', '.join(shown)} chip-hours, estimated"


def _counted(recipe: Recipe) -> dict[str, Any]:
    """Return the computation of a recipe by the rows of its table, ``SIZE=125m``; by ``""`` without a table."""
    path = recipe.path.relative_to(RECIPES).as_posix()
    split = {name: name.partition(" ") for name in _computation()}
    found = {row: _computation()[name] for name, (file, _, row) in split.items() if file == path}
    return dict(sorted(found.items(), key=lambda each: each[1]["flops"]))


def recipes() -> dict[str, list[Recipe]]:
    """Return the recipes of each folder, the quickstart's first."""
    folders = sorted(
        (folder for folder in RECIPES.iterdir() if folder.is_dir()), key=lambda folder: folder.name
    )
    folders.sort(key=lambda folder: list(TITLES).index(folder.name) if folder.name in TITLES else len(TITLES))
    return {
        folder.name: [
            read_recipe(file) for file in sorted(folder.glob("*.gin")) if file.stem not in _NOT_RECIPES
        ]
        for folder in folders
    }


def pages() -> dict[str, str]:
    """Return the index and one page for each folder of recipes."""
    found = recipes()
    return {"recipes/index.md": _index(found)} | {
        f"recipes/{folder}.md": _folder_page(folder, members) for folder, members in found.items()
    }


def _index(found: dict[str, list[Recipe]]) -> str:
    lines = [INTRODUCTION]
    for folder, members in found.items():
        lines += [
            f"## [{TITLES.get(folder, folder)}]({folder}.md)",
            "",
            "| recipe | purpose | hardware | hours | score to expect |",
        ]
        lines.append("|---|---|---|---|---|")
        for recipe in members:
            hardware, score = (recipe.fields.get(name, "–") for name in ("Hardware", "Score to expect"))
            link = f"[`{recipe.path.name}`]({folder}.md#{_anchor(recipe)})"
            cells = [link, recipe.summary, hardware, hours(recipe), score]
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
        lines.append("")
    return "\n".join(lines)


def _folder_page(folder: str, members: list[Recipe]) -> str:
    lines = [f"# {TITLES.get(folder, folder)}", ""]
    for recipe in members:
        name = recipe.path.relative_to(ROOT).as_posix()
        lines += [f"## {recipe.path.name} {{ #{_anchor(recipe)} }}", "", f"**{_escape(recipe.summary)}**", ""]
        lines += [_escape(recipe.details), ""] if recipe.details else []
        lines += ["```bash", recipe.command, "```", ""] if recipe.command else []
        lines += [f"- {field}: {_escape(text)}" for field, text in recipe.fields.items()]
        for row, counted in _counted(recipe).items():
            lines.append(
                f"- Computation (estimated{f', {row}' if row else ''}): {counted['flops']:.1e} FLOPs for "
                f"{counted['parameters']:,} parameters, {counted['chip_hours']:,} hours of a TPU v5e chip at 40 % of "
                "its peak"
            )
        lines += [f"- File: [`{name}`](../../{name})", ""]
    return "\n".join(lines)


def _anchor(recipe: Recipe) -> str:
    return recipe.path.stem


def _escape(text: str) -> str:
    """Return ``text`` with addresses as links and markdown's signs literal."""
    text = re.sub(r"([*_<>\[\]])", r"\\\1", text)
    return re.sub(r"https?://[^\s,;)]+[^\s,;).:]", lambda url: f"<{url[0].replace(chr(92), '')}>", text)


def _cell(text: str) -> str:
    return (text if text.startswith("[`") else _escape(text)).replace("|", "\\|")
