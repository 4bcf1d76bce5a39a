"""The page of results, from ``benchmarks/results``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docs.site import papers
from docs.site.result_file import ResultFile
from docs.site.result_files import FILES

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


INTRODUCTION = """# Results

Every measured figure comes from a file in [`benchmarks/results`](../benchmarks/README.md), written by a script in the
repository; published scores are the papers'. The machines are shared and noisy: compare figures of one file only.
"""


def pages() -> dict[str, str]:
    """Return the page of results: known files as tables, others as they are."""
    shown = {file.name for file in FILES} | {papers.COMPARISONS, "recipe_flops"}
    lines = [INTRODUCTION]
    for file in FILES:
        if (RESULTS / f"{file.name}.json").is_file():
            lines += _section(file)
    lines += papers.by_paper()
    lines += papers.comparisons()
    lines += ["## All files", ""]
    for path in sorted(RESULTS.glob("*.json")):
        note = "" if path.stem in shown else " (not in a table above)"
        lines.append(f"- [`{path.name}`](../benchmarks/results/{path.name}){note}")
    return {"results.md": "\n".join([*lines, ""])}


def _section(file: ResultFile) -> list[str]:
    content = json.loads((RESULTS / f"{file.name}.json").read_text(encoding="utf-8"))
    facts = [
        f"{name.replace('_', ' ')} {content[name]}"
        for name in ("date", "commit", "processor", "hardware")
        if name in content
    ]
    rows = _at(content, file.rows)
    lines = [f"## {file.title}", "", file.words, ""]
    if file.picture:
        lines += [
            '<div class="picture" markdown>',
            "",
            f"![{file.title}](pictures/{file.picture}_light.svg#gh-light-mode-only)",
            f"![{file.title}](pictures/{file.picture}_dark.svg#gh-dark-mode-only)",
            "",
            "</div>",
            "",
        ]
    if file.columns:
        lines += _table(file, rows)
    source = f"[`{file.name}.json`](../benchmarks/results/{file.name}.json)"
    return [*lines, "", f"{source}; {', '.join(facts)}" if facts else source, ""]


def _table(file: ResultFile, rows: Mapping[str, Any]) -> list[str]:
    lines = ["| | " + " | ".join(file.columns) + " |", "|---" * (len(file.columns) + 1) + "|"]
    for name, row in rows.items():
        if isinstance(row, dict):
            cells = [_words(_at(row, path)) for path in file.columns.values()]
            lines.append("| " + " | ".join([name.replace("_", " "), *cells]) + " |")
    return lines


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name, "") if isinstance(value, Mapping) else ""
    return value


def _words(value: Any) -> str:
    """Return a number with at most four digits, or an object as "name value; …"."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name.replace('_', ' ')} {_words(inner)}".strip() for name, inner in value.items())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return (
        f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    )
