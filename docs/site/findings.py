"""The page of findings, ``docs/findings.md``, from the files that ``benchmarks.findings`` writes.

python -m docs.site.findings
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.findings.plan import Finding, read_left_out, read_plan
from t5x_like.io.files import read_jsonl

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "findings.md"
RESULTS = ROOT / "benchmarks" / "results"

INTRODUCTION = """# Findings

Do papers' conclusions show in small runs? [The plan](../benchmarks/findings/plan.toml) was written before the runs:
settings, measure, steps and seeds. A pair of settings is decided once, when both have all seeds. It has
the paper's order (`same`) or the other (`other`) if the 95 % interval of the difference of means (Welch) excludes zero.
Pairs that the paper's own noise can't tell apart are left out. Differences here are of other tasks and of far smaller
models than the paper's: only their signs compare.
"""

_COMMAND = """## Repeat it

```
python -m data.prepare.open_docs --output corpus/open_docs
python -m benchmarks.findings --minutes 60 --text corpus/open_docs --runs runs/findings
```

takes the next undecided runs of the plan that fit into the time; a later call continues. `make findings` repeats one
small finding, and stops after ten minutes.
"""


def page() -> str:
    """Return the page as Markdown."""
    entries = json.loads((RESULTS / "findings.json").read_text(encoding="utf-8"))
    runs = list(read_jsonl(RESULTS / "findings_runs.jsonl"))
    plan = read_plan()
    lines = [
        INTRODUCTION,
        *_totals(entries, runs),
        *(_picture() if entries else ()),
        *_overview(plan, entries),
    ]
    for finding in plan:
        own = [entry for entry in entries if entry["finding"] == finding.name]
        if own:
            lines += _section(finding, own, [run for run in runs if run["finding"] == finding.name])
    return "\n".join([*lines, *_not_shown(), _COMMAND])


def _totals(entries: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> list[str]:
    verdicts = Counter(entry["verdict"] for entry in entries)
    decided = verdicts["same"] + verdicts["other"]
    hours = sum(run["seconds"] for run in runs) / 3600
    return [
        f"Of {len(entries)} pairs that have all their seeds, {decided} are decided: {verdicts['same']} in the paper's "
        f"order, {verdicts['other']} in the other. {verdicts['undecided']} are undecided. {len(runs)} runs took "
        f"{hours:.1f} hours of one core.",
        "",
    ]


def _picture() -> list[str]:
    return [
        '<div class="picture" markdown>',
        "",
        "![Differences with their intervals](pictures/findings_light.svg#gh-light-mode-only)",
        "![Differences with their intervals](pictures/findings_dark.svg#gh-dark-mode-only)",
        "",
        "</div>",
        "",
    ]


def _overview(plan: Sequence[Finding], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| finding | paper | same | other | undecided |", "|---|---|---|---|---|"]
    waiting = []
    for finding in plan:
        counts = Counter(entry["verdict"] for entry in entries if entry["finding"] == finding.name)
        if not counts:
            waiting.append(f"`{finding.name}`")
            continue
        cells = [f"[{finding.sentence}](#{finding.name})", finding.paper]
        cells += [str(counts[verdict]) for verdict in ("same", "other", "undecided")]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    return (
        [*lines, f"In the plan, and without all seeds yet: {', '.join(waiting)}.", ""] if waiting else lines
    )


def _not_shown() -> list[str]:
    links = {each: f"[`{Path(each.recipe).stem}`](../gin/recipes/{each.recipe})" for each in read_left_out()}
    waiting = [link for each, link in links.items() if not each.why]
    lines = [
        "## Not shown here",
        "",
        "Comparisons of objectives wait for more computation: after the million tokens of these runs no pretraining is "
        "worth much to a task ([a pilot](../benchmarks/results/findings_pilot_cpu.json)). "
        f"So do those that begin with models of other recipes. They are {', '.join(waiting)}.",
        "",
        "Differences that small runs can't tell from noise:",
        "",
    ]
    return [*lines, *(f"- {link}: {each.why}." for each, link in links.items() if each.why), ""]


def _section(
    finding: Finding, entries: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]
) -> list[str]:
    first = entries[0]
    lines = [f"## {finding.name} {{ #{finding.name} }}", "", f"{finding.sentence} ({finding.paper}).", ""]
    lines += ["| better in the paper | worse | the paper | here | verdict |", "|---|---|---|---|---|"]
    for entry in entries:
        low, high = entry["interval"]
        here = f"{entry['difference']:+.3g} [{low:+.3g}, {high:+.3g}]"
        cells = [entry["better"], entry["worse"], f"+{entry['paper_difference']:.3g}", here, entry["verdict"]]
        lines.append(f"| {' | '.join(cells)} |")
    minutes = sum(run["seconds"] for run in runs) / 60
    lines += [
        "",
        f"Measure: {first['metric']}. {first['seeds']} seeds, {first['steps']:,} steps, {first['parameters']:,} "
        f"parameters; {minutes:.0f} minutes of one core ({first['device']}, commit {first['commit']}).",
        "",
    ]
    whys = dict.fromkeys(entry["why"] for entry in entries if entry["why"])
    for why in whys:
        lines += [why, ""]
    recipe = f"gin/recipes/{finding.recipe}"
    lines += [
        f"Command: `python -m benchmarks.findings --names {finding.name} …`, settings of [`{recipe}`](../{recipe}).",
        "",
    ]
    return lines


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
