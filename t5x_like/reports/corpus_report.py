"""HTML report about a corpus: pages that each step of a recipe kept and dropped, reasons, and sample pages."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from t5x_like.corpora.building.corpus_manifest import SAMPLES, read_manifest
from t5x_like.corpora.building.input_files import describe_left_out
from t5x_like.io.files import as_path, read_jsonl, write_text
from t5x_like.reports.corpus_words import count_in_words, decision_in_words, reason_in_words
from t5x_like.reports.rendering import Tile, number, plural, printable, render, share

PathLike = str | os.PathLike[str]
Manifest = Mapping[str, Any]

_COPIES = ("filtered:duplicate_url", "filtered:near_duplicate")  # pages that repeat another page
_OTHER_LANGUAGE = "filtered:ignored_language-"
_NUM_LANGUAGES = 15
_SAMPLE_CHARS = 700
_LETTERS_AFTER_THE_FIRST = re.compile(r"(?<=\w)\w")


class Bar(NamedTuple):
    """Table row with a bar.

    Attributes:
      label: First cell.
      note: Small text under the label.
      numbers: Cells after the bar.
      kept: Length of the bar's strong part.
      lost: Length of the bar's faint part.
      whole: Number that the bar's full width represents.
    """

    label: str
    note: str
    numbers: tuple[str, ...]
    kept: int = 0
    lost: int = 0
    whole: int = 1


def write_corpus_report(corpus: PathLike, output: PathLike) -> None:
    """Write one self-contained HTML file about a corpus, from its manifest and samples.

    Args:
      corpus: Folder of the corpus.
      output: HTML file to write.

    Raises:
      ValueError: The folder holds no finished corpus.
    """
    folder = as_path(os.fspath(corpus))
    manifest = read_manifest(os.fspath(corpus))
    samples = list(read_jsonl(folder / SAMPLES)) if (folder / SAMPLES).exists() else []
    html = corpus_report(manifest, samples)
    write_text(output, html.encode("utf-8", "replace").decode())  # names of files may hold any byte


def corpus_report(manifest: Manifest, samples: Sequence[Mapping[str, Any]]) -> str:
    """Return the report's HTML.

    Args:
      manifest: Contents of a corpus's ``manifest.json``.
      samples: Pages with their fates, to show as examples.
    """
    read, made_from = manifest["input"], manifest["made from"]
    left_out = read.get("left out", {})
    facts = {
        name: value
        for name, value in made_from.items()
        if name not in ("recipe", "input", "reading") and not name.startswith("step ")
    }
    return render(
        "corpus_report.html.j2",
        title=f"Corpus {made_from['recipe']}",
        introduction=f"Fate of {read['pages']:,} pages in {plural(read['files'], 'file')}, step by step."
        + (f" Files of folders that were left out: {describe_left_out(left_out)}." if left_out else ""),
        headlines=_headlines(manifest),
        manifest=manifest,
        funnel=_funnel(manifest),
        reasons=_reasons(manifest),
        decisions=_decisions(manifest),
        other_counts=_other_counts(manifest),
        length_facts=_length_facts(manifest),
        histogram=_histogram(*(_by_bits(manifest["lengths"][side]) for side in ("read", "kept"))),
        languages=_languages(manifest),
        fates=_fates(manifest, samples),
        speeds=_speeds(manifest),
        facts=facts | {f"package {name}": version for name, version in manifest["libraries"].items()},
    )


def _headlines(manifest: Manifest) -> list[Tile]:
    read, splits = manifest["input"], manifest["splits"]
    pages = sum(split["pages"] for split in splits.values())
    chars = sum(split["chars"] for split in splits.values())
    kept = f"{share(pages, read['pages'])} of {read['pages']:,}; {splits['validation']['pages']:,} for validation"
    text = f"{share(chars, read['chars'])} of {_abbreviated(read['chars'])} characters"
    headlines = [
        Tile("pages kept", f"{pages:,}", kept, pages > 0),
        Tile("text kept", _abbreviated(chars), text, chars > 0),
    ]
    if duplicates := _duplicates(manifest):
        headlines.append(Tile("duplicates removed", *duplicates, good=True))
    damaged = manifest["reading"]["damaged"]
    left_out = "times, left out" if damaged else "all of it was read"
    return [*headlines, Tile("damage in the input", f"{damaged:,}", left_out, not damaged)]


def _duplicates(manifest: Manifest) -> tuple[str, str] | None:
    """Return the number of duplicate lines, sentences or pages, and a phrase about it."""
    lines = total = pages = 0
    for step in manifest["steps"]:
        counts = {name: count for name, count in step["seen"].items() if _is_decision(name)}
        repeated = sum(count for name, count in counts.items() if "duplicate" in name)
        if repeated:
            lines, total = lines + repeated, total + sum(counts.values())
        pages += sum(step["dropped"].get(reason, 0) for reason in _COPIES)
    if total:
        also = f"; {plural(pages, 'page')}" if pages else ""
        return f"{lines:,}", f"{share(lines, total)} of the lines or sentences processed{also}"
    return (f"{pages:,}", "pages with another kept version") if pages else None


def _funnel(manifest: Manifest) -> list[Bar]:
    """Return the number of pages read, and those kept and dropped by each step."""
    steps, read = manifest["steps"], manifest["input"]["pages"]
    whole = max([read, *(step["in"] for step in steps)])
    rows = [Bar("pages read", "", (f"{read:,}", "", ""), kept=read, whole=whole)]
    for step in steps:
        kept, lost = step["kept"], step["in"] - step["kept"]
        rule = step["rule"].rpartition(", version ")[0] or step["rule"]
        note = rule if len(rule) <= 70 else rule[:68] + "…"
        rows.append(
            Bar(step["name"], note, (f"{kept:,}", f"{lost:,}", share(lost, step["in"])), kept, lost, whole)
        )
    return rows


def _reasons(manifest: Manifest) -> list[Bar]:
    """Return all reasons for which pages were dropped, the most frequent first."""
    read = manifest["input"]["pages"]
    dropped = [(step["name"], *item) for step in manifest["steps"] for item in step["dropped"].items()]
    most = max((count for _, _, count in dropped), default=0)
    return [
        Bar(reason_in_words(why), f"{step}: {why}", (f"{count:,}", share(count, read)), 0, count, most)
        for step, why, count in sorted(dropped, key=lambda row: -row[2])
    ]


def _decisions(manifest: Manifest) -> list[tuple[str, list[Bar]]]:
    """Return the decisions of each step about lines or sentences."""
    decisions = []
    for step in manifest["steps"]:
        counts = {name: count for name, count in step["seen"].items() if _is_decision(name)}
        total = sum(counts.values())
        rows = []
        for name, count in counts.items():
            kept, lost = (count, 0) if name.endswith("passed") else (0, count)
            rows.append(
                Bar(decision_in_words(name), name, (f"{count:,}", share(count, total)), kept, lost, total)
            )
        if rows:
            decisions.append((step["name"], rows))
    return decisions


def _other_counts(manifest: Manifest) -> list[tuple[str, str, int]]:
    """Return further counts of steps: evaluation texts, masked personal data, bad words by language."""
    return [
        (step["name"], count_in_words(name), count)
        for step in manifest["steps"]
        for name, count in sorted(step["seen"].items())
        if not _is_decision(name) and not name.startswith((_OTHER_LANGUAGE, "passed:"))
    ]


def _is_decision(name: str) -> bool:
    """Return True for counts of kept or dropped lines and sentences."""
    return name.startswith(("line-", "sentence-"))


def _languages(manifest: Manifest) -> list[Bar]:
    """Return kept and dropped pages by language; rare languages are summed up in the last row."""
    kept = Counter({language: count for language, count in manifest["languages"].items() if language})
    lost: Counter[str] = Counter()
    for step in manifest["steps"]:
        for name, count in step["seen"].items():
            if name.startswith(_OTHER_LANGUAGE):
                lost[name.removeprefix(_OTHER_LANGUAGE)] += count
    names = sorted({*kept, *lost}, key=lambda name: (-kept[name] - lost[name], name))
    rows = [(name, kept[name], lost[name]) for name in names[:_NUM_LANGUAGES]]
    if more := names[_NUM_LANGUAGES:]:
        rows.append((f"{len(more)} more", sum(kept[name] for name in more), sum(lost[name] for name in more)))
    most = max((kept[name] + lost[name] for name in names), default=0)
    return [Bar(name, "", (f"{stay:,}", f"{go:,}"), stay, go, most) for name, stay, go in rows]


def _fates(manifest: Manifest, samples: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return sample pages by fate: kept pages first, then in the order of the steps."""
    totals = {
        (position, reason): count
        for position, step in enumerate(manifest["steps"], start=1)
        for reason, count in step["dropped"].items()
    }
    last = len(manifest["steps"]) + 1
    totals[last, "kept"] = sum(split["pages"] for split in manifest["splits"].values())
    fates: dict[tuple[int, str, str], list[Mapping[str, Any]]] = {}
    for sample in samples:
        fates.setdefault((sample["number"], sample["step"], sample["fate"]), []).append(sample)
    last = max((position for position, _, _ in fates), default=0)
    ordered = sorted(fates.items(), key=lambda item: (item[0][2] != "kept" or item[0][0] != last, *item[0]))
    return [
        {
            "kept": fate == "kept",
            "title": "Kept" if fate == "kept" else f"{step}: {reason_in_words(fate)}",
            "total": totals.get((position, fate), len(rows)),
            "is_masked": "badword" in fate,
            "pages": [_sample(row, is_masked="badword" in fate) for row in rows],
        }
        for (position, step, fate), rows in ordered
    ]


def _sample(row: Mapping[str, object], *, is_masked: bool) -> tuple[str, str]:
    """Return a page's address and the start of its text; bad words are masked after their first letter."""
    url, text = str(row["url"]), str(row["text"])
    text = text[:_SAMPLE_CHARS] + (" …" if len(text) > _SAMPLE_CHARS else "")
    if is_masked:
        url, text = (_LETTERS_AFTER_THE_FIRST.sub("·", part) for part in (url, text))
    return printable(url), printable(text)


def _length_facts(manifest: Manifest) -> dict[str, str]:
    splits = manifest["splits"].values()
    kept = sum(split["chars"] for split in splits), sum(split["pages"] for split in splits)
    read = manifest["input"]["chars"], manifest["input"]["pages"]
    return {
        f"characters a page, {stage}": f"{chars / pages:,.0f}" if pages else "–"
        for stage, (chars, pages) in (("as read", read), ("in the corpus", kept))
    }


def _speeds(manifest: Manifest) -> dict[str, str]:
    processor = sum(stage["seconds"].get("processor", 0) for stage in manifest["stages"])
    if not processor:
        return {}
    return {
        "processor seconds": number(float(processor)),
        "pages a second and core": number(manifest["input"]["pages"] / processor),
        "million characters a second and core": number(manifest["input"]["chars"] / processor / 1e6),
    }


def _by_bits(counts: Mapping[str, int]) -> dict[int, int]:
    return {int(bits): count for bits, count in counts.items()}


def _histogram(read: Mapping[int, int], kept: Mapping[int, int]) -> dict[str, object] | None:
    """Return bins of page lengths, as shares of all pages, with the grid's step and number of lines.

    Args:
      read: Number of pages by the bit length of their character count, before the recipe.
      kept: Number of pages by that bit length, after the recipe.
    """
    both = [*read, *kept]
    if not both:
        return None
    bins = []
    for bit in range(min(both), max(both) + 1):
        lowest = 2 ** (bit - 1) if bit else 0
        chars = f"{lowest:,} to {2**bit - 1:,}" if bit else "0"
        columns = []
        for css, counts, where in (("before", read, "as read"), ("kept", kept, "in the corpus")):
            count, total = counts.get(bit, 0), sum(counts.values())
            title = f"{chars} characters: {count:,} of {total:,} pages {where}"
            columns.append((css, count / max(total, 1), title))
        bins.append({"label": _binary(lowest), "columns": columns})
    highest = max(height for each in bins for _, height, _ in each["columns"])
    step = next((each for each in (0.01, 0.02, 0.05, 0.1, 0.2) if highest / each <= 5), 0.25)
    return {"bins": bins, "step": step, "num_lines": max(int(-(-highest // step)), 1)}


def _binary(count: int) -> str:
    for size, letter in ((2**20, "M"), (2**10, "k")):
        if count >= size:
            return f"{count // size}{letter}"
    return str(count)


def _abbreviated(chars: int) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if chars >= size:
            return f"{chars / size:,.1f} {letter}"
    return str(chars)
