"""Measure how often the rules of a recipe and datatrove's filters agree on pages.

    python -m benchmarks.datatrove_agreement tests/fixtures/datatrove --output agreement.json
    python -m benchmarks.datatrove_agreement french --recipe fineweb2 --output agreement_fra_Latn.json

The folder has verdicts of datatrove, which ``tests/fixtures/make_datatrove.py`` writes. Prints a JSON object: for each
rule the pages, those that both keep or drop, the same with the counting of the papers, and pages on which they differ.
"""

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from t5x_like.corpora.building.recipe import CorpusRecipe
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.cleaning import C4Cleaning
from t5x_like.corpora.rules.personal_data import MaskPersonalData
from t5x_like.corpora.rules.quality import FineWebQuality, GopherQuality, GopherRepetition
from t5x_like.corpora.rules.rule import Dropped, PageRule
from t5x_like.corpora.rules.size_rules import Paragraphs
from t5x_like.gin_config.configuration import load
from t5x_like.io.files import write_json

_NAMES = {
    GopherRepetition: "gopher_repetition",
    GopherQuality: "gopher_quality",
    C4Cleaning: "c4",
    FineWebQuality: "fineweb",
}
_COUNTING = "same verdict with the paper's counting"
MASKS = MaskPersonalData(email="EMAIL", phone=None, ip="IP")


def rules_of(recipe: str) -> dict[str, PageRule]:
    """Return the rules of a recipe that datatrove has filters for, and that of mC4.

    Args:
      recipe: Name of a file in ``gin/corpora``.
    """
    steps = load([f"gin/corpora/{recipe}.gin"], [], roots=[CorpusRecipe]).value.steps
    rules: dict[str, PageRule] = {_NAMES[type(step)]: step for step in steps if type(step) in _NAMES}
    return {**rules, "paragraphs": Paragraphs()}


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``pages.jsonl.gz``."""
    with gzip.open(folder / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def agreement(folder: Path, rules: Mapping[str, PageRule]) -> dict[str, dict[str, Any]]:
    """Return the figures of each rule that the rows have verdicts for, and of the masks of personal data.

    Args:
      folder: Folder with ``pages.jsonl.gz``.
      rules: Rules by the name of their verdict.
    """
    pages = list(rows(folder))
    figures: dict[str, dict[str, Any]] = {}
    for name, rule in rules.items():
        if name not in pages[0]:
            continue
        differing = _differing(rule, name, pages)
        figures[name] = {
            "pages": len(pages),
            "dropped by datatrove": sum(bool(row[name]) for row in pages),
            "same verdict": len(pages) - len(differing),
            "differing": differing,
        }
        if isinstance(rule, GopherRepetition | GopherQuality | FineWebQuality):
            others = _differing(_as_in_the_paper(rule), name, pages)
            figures[name][_COUNTING] = len(pages) - len(others)
    if "c4" in figures:
        cleaned = [(row, _outcome(rules["c4"], row)) for row in pages if not row["c4"]]
        kept = [(row, result.text) for row, result in cleaned if isinstance(result, Page)]
        same = [text == row["c4_text"] for row, text in kept]
        figures["c4"] |= {"kept by both": len(kept), "same text": sum(same)}
    masked = [row["url"] for row in pages if _masked(row) != (row["masked"] or row["text"])]
    changed = sum(row["masked"] is not None for row in pages)
    figures["masks"] = {"pages": len(pages), "masked by datatrove": changed, "differing": masked}
    return figures


def _as_in_the_paper(rule: Any) -> PageRule:
    """Return the rule with the paper's counting; of ``FineWebQuality`` also the paper's thresholds for English."""
    if isinstance(rule, FineWebQuality) and rule.max_duplicate_line_characters == 0.01:
        return FineWebQuality()
    return replace(rule, counting="paper")


def _differing(rule: PageRule, name: str, pages: list[dict[str, Any]]) -> list[str]:
    return [row["url"] for row in pages if isinstance(_outcome(rule, row), Dropped) != bool(row[name])]


def _outcome(rule: PageRule, row: dict[str, Any]) -> Page | Dropped:
    return rule.apply(Page(row["url"], row["text"]), Counter())


def _masked(row: dict[str, Any]) -> str:
    result = _outcome(MASKS, row)
    assert isinstance(result, Page)
    return result.text


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recipe", default="fineweb", help="name of a file in gin/corpora (%(default)s)")
    parser.add_argument("--output", help="also write them to this file")
    arguments = parser.parse_args()
    figures = agreement(arguments.folder, rules_of(arguments.recipe))
    print(json.dumps(figures, indent=1))
    if arguments.output:
        write_json(arguments.output, figures)


if __name__ == "__main__":
    main()
