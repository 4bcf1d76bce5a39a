"""One page that tells what became of a crawl: what was kept and dropped, by which step, and why, with samples."""

import os
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from t5x_like.corpora.building.corpus_manifest import SAMPLES, read_manifest
from t5x_like.io.files import as_path, read_jsonl, write_text
from t5x_like.reports.corpus_charts import share
from t5x_like.reports.corpus_sections import (
    decisions,
    found,
    funnel,
    is_decision,
    languages,
    lengths,
    reading,
    reasons,
    repeated,
    samples,
)
from t5x_like.reports.page import Headline, Section, page
from t5x_like.reports.tables import facts_table, number, table

PathLike = str | os.PathLike[str]


def write_corpus_page(corpus: PathLike, output: PathLike) -> None:
    """Writes one self-contained HTML file about the corpus in a folder, from its manifest and samples.

    Raises:
      ValueError: no corpus was finished there.
    """
    folder = os.fspath(corpus)
    manifest = read_manifest(folder)
    shown = list(read_jsonl(as_path(folder) / SAMPLES)) if (as_path(folder) / SAMPLES).exists() else []
    html = corpus_page(manifest, shown)
    write_text(output, html.encode("utf-8", "replace").decode())  # names of files may hold any byte


def corpus_page(manifest: Mapping[str, Any], shown: Sequence[Mapping[str, Any]]) -> str:
    """The page's HTML."""
    sections = [
        Section("What each step kept", funnel(manifest)),
        Section("Why pages went", reasons(manifest)),
        Section("Lines and sentences", decisions(manifest)),
        Section("What was removed most often", repeated(manifest)),
        Section("What else was found", found(manifest)),
        Section("Lengths of pages", lengths(manifest)),
        Section("Languages", languages(manifest)),
        Section("Reading the input", reading(manifest)),
        Section("Samples", samples(manifest, shown)),
        Section("Time", _time(manifest)),
        Section("What it was made by", _made_by(manifest)),
    ]
    read = manifest["input"]
    return page(
        title=f"Corpus {manifest['made from']['recipe']}",
        introduction=f"What became of {read['pages']:,} pages in {_plural(read['files'], 'file')}, step by step.",
        headlines=_headlines(manifest),
        sections=[section for section in sections if section.body],
        style_of="corpus_page.css",
    )


def _headlines(manifest: Mapping[str, Any]) -> list[Headline]:
    read, splits = manifest["input"], manifest["splits"]
    pages = sum(split["pages"] for split in splits.values())
    chars = sum(split["chars"] for split in splits.values())
    headlines = [
        Headline(
            "pages kept",
            f"{pages:,}",
            f"{share(pages, read['pages'])} of {read['pages']:,}; {splits['validation']['pages']:,} for validation",
            pages > 0,
        ),
        Headline(
            "text kept",
            _size(chars),
            f"{share(chars, read['chars'])} of {_size(read['chars'])} characters",
            chars > 0,
        ),
    ]
    gone = _duplicates(manifest)
    if gone:
        headlines.append(Headline("duplicates removed", *gone, good=True))
    damaged = manifest["reading"]["damaged"]
    headlines.append(
        Headline(
            "damage met in the input",
            f"{damaged:,}",
            "times, left out" if damaged else "all of it was read",
            not damaged,
        )
    )
    return headlines


def _duplicates(manifest: Mapping[str, Any]) -> tuple[str, str] | None:
    """How many lines, sentences and pages went because they are elsewhere, of how many there were."""
    lines, seen = 0, 0
    pages = 0
    for step in manifest["steps"]:
        names = {name: count for name, count in step["seen"].items() if is_decision(name)}
        repeated = sum(count for name, count in names.items() if "duplicate" in name)
        if repeated:
            lines, seen = lines + repeated, seen + sum(names.values())
        pages += sum(step["dropped"].get(reason, 0) for reason in _COPIES)
    if seen:
        also = f"; {_plural(pages, 'page')}" if pages else ""
        return f"{lines:,}", f"{share(lines, seen)} of the lines or sentences that came so far{also}"
    return (f"{pages:,}", "pages that are there in another version") if pages else None


_COPIES = ("filtered:duplicate_url", "filtered:near_duplicate")  # not a page that repeats itself


def _time(manifest: Mapping[str, Any]) -> str:
    rows = []
    for stage in manifest["stages"]:
        seconds = stage["seconds"]
        rows.append(
            [
                escape(stage["name"]),
                f"{stage['tasks']:,}",
                *(number(float(seconds.get(kind, 0))) for kind in _CLOCKS),
            ]
        )
    processor = sum(stage["seconds"].get("processor", 0) for stage in manifest["stages"])
    facts = {}
    if processor:
        facts = {
            "processor seconds": number(float(processor)),
            "pages a second and core": number(manifest["input"]["pages"] / processor),
            "million characters a second and core": number(manifest["input"]["chars"] / processor / 1e6),
        }
    return table(
        ["stage", ">tasks", ">seconds of tasks", ">of processors"], rows, css_class="stages"
    ) + facts_table(facts)


_CLOCKS = ("wall", "processor")


def _made_by(manifest: Mapping[str, Any]) -> str:
    made_from = manifest["made from"]
    steps = [[str(place), escape(step["rule"])] for place, step in enumerate(manifest["steps"], start=1)]
    steps.insert(0, ["", escape(str(made_from.get("reading", "")))])
    facts = {
        name: value
        for name, value in made_from.items()
        if name not in ("recipe", "input", "reading") and not name.startswith("step ")
    }
    shards = [
        [
            escape(shard["file"]),
            f"{shard['pages']:,}",
            f"{shard['bytes']:,}",
            f"<code>{escape(str(shard['crc32c']))}</code>",
        ]
        for shard in manifest["shards"][:_SHARDS]
    ]
    more = len(manifest["shards"]) - len(shards)
    return (
        table(["", "step"], steps, css_class="steps")
        + facts_table(
            {**facts, **{f"package {name}": version for name, version in manifest["libraries"].items()}}
        )
        + table(["file", ">pages", ">bytes", "crc32c"], shards, css_class="shards")
        + (f"<p>And {more:,} more files, in manifest.json.</p>" if more > 0 else "")
    )


_SHARDS = 20


def _size(chars: int) -> str:
    for size, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if chars >= size:
            return f"{chars / size:,.1f} {name}"
    return str(chars)


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
