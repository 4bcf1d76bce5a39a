"""Results by paper: what was run here, what the paper reports, what to expect."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docs.site import recipes

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
COMPARISONS = "comparisons_cpu"

INTRODUCTION = """## By paper

Nobody here has run these recipes at full size. They have the papers' settings; a recipe's header says what differs, and
which score the paper reports. What was run here are toys: small models, shipped text, minutes.
"""
COMPARISONS_INTRODUCTION = """## Papers' comparisons, as toys

By the recipes of [comparisons](guides/comparisons.md). Published scores are of other tasks, at full size. What counts
is the order: how many pairs of settings have the paper's. With one seed any difference decides a pair, so read those as
anecdotes.
"""
# Folder of recipes -> recipes in gin/recipes/objectives, and prefix of those in gin/recipes/comparisons.
TOYS: dict[str, tuple[tuple[str, ...], str]] = {
    "t5": (
        ("span_corruption", "prefix_lm", "bert_style_denoising", "mass_style_denoising", "deshuffling"),
        "t5_",
    ),
    "ul2": (("ul2",), ""),
    "bert": (("masked_lm", "sentence_pairs", "whole_word_masked_lm"), "bert_"),
    "roberta": (("full_sentences", "doc_sentences"), "roberta_"),
    "albert": (("sentence_order",), "albert_"),
    "electra": (("electra_pretraining", "replaced_tokens"), ""),
    "spanbert": (("span_masking",), "spanbert_"),
    "ernie": (("knowledge_masking",), ""),
    "unilm": (("unilm",), ""),
    "gpt1": (("causal_lm",), "gpt_"),
    "glm_orig": (("blank_infilling", "blank_infilling_document", "blank_infilling_sentence"), ""),
    "transfo_xl": (("contiguous_lm",), "transfo_xl_"),
    "elmo": (("bidirectional_lm",), "elmo"),
    "ulmfit": ((), "ulmfit"),
    "rnn_seq2seq": ((), "sequence_to_sequence"),
    "xlnet": (("permutation_lm",), "xlnet_"),
}
# Folders that are no paper's.
_OTHERS = {"quickstart", "glue", "tuning", "objectives", "comparisons"}


def by_paper() -> list[str]:
    """Return a section for each paper that has recipes."""
    lines = [INTRODUCTION]
    for folder, members in recipes.recipes().items():
        if folder not in _OTHERS:
            lines += [f"### {recipes.TITLES.get(folder, folder)}", ""]
            lines += [*_toys(folder), ""] if folder in TOYS else []
            lines += ["| recipe | computation | the paper reports |", "|---|---|---|"]
            for recipe in members:
                link = f"[`{recipe.path.name}`](recipes/{folder}.md#{recipe.path.stem})"
                score = recipe.fields.get("Score to expect", "–").replace("|", "\\|")
                lines.append(f"| {link} | {recipes.hours(recipe)} | {score} |")
            lines.append("")
    return lines


def _toys(folder: str) -> list[str]:
    objectives, prefix = TOYS[folder]
    losses = _read("objectives_cpu")
    shown = [
        f"`{name}` {_number(found['cross_entropy'])} nats (knowing only frequencies: {_number(found['baseline'])})"
        for name in objectives
        for found in list(losses.get(name, {}).get("losses", {}).values())[:1]
    ]
    lines = [f"Run here, [held-out losses](recipes/objectives.md): {'; '.join(shown)}."] if shown else []
    names = [name for name in _compared() if prefix and name.startswith(prefix)]
    links = ", ".join(f"[`{name}`](#{name})" for name in names)
    return [*lines, f"Run here, comparisons: {links}."] if names else lines


def comparisons() -> list[str]:
    """Return a table for each comparison that was run: scores here, and the paper's."""
    lines = [COMPARISONS_INTRODUCTION]
    for name, found in _compared().items():
        metric = f"{found['metric']} (lowest is best)" if found["lowest_is_best"] else found["metric"]
        seeds = f"{found['seeds']} seed{'s' * (found['seeds'] != 1)}"
        lines += [f"### `{name}` {{ #{name} }}", ""]
        lines += [f"Published: {found['source']}.", ""] if found["source"] else []
        sizes = {row.get("parameters") for row in found["settings"].values()}
        sized = len(sizes) > 1 and None not in sizes
        lines.append(f"| setting |{' parameters |' if sized else ''} here: {metric}, {seeds} | published |")
        lines.append("|---" * (3 + sized) + "|")
        for setting, row in found["settings"].items():
            size = f" {row['parameters']:,} |" if sized else ""
            spread = "" if row["std"] is None else f" ± {_number(row['std'])}"
            published = "" if row["published"] is None else _number(row["published"])
            lines.append(f"| {setting} |{size} {_number(row['mean'])}{spread} | {published} |")
        if found["pairs"]:
            pairs = found["pairs"]
            lines += [
                "",
                f"Pairs in the paper's order: {pairs['same']} of {sum(pairs.values())}; in the opposite order: "
                f"{pairs['other']}; undecided: {pairs['undecided']}.",
            ]
        facts = f"{found['date']}, commit {found['commit']}, {found['processor']}, {found['minutes']} minutes"
        lines += ["", facts, ""]
    return lines


def _compared() -> Mapping[str, Any]:
    return _read(COMPARISONS).get("comparisons", {})


def _read(name: str) -> Mapping[str, Any]:
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _number(value: float) -> str:
    return f"{value:.4g}"
