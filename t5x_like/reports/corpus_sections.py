"""The sections of a corpus' report, each from the part of the manifest that it shows. Without that part it is empty."""

import itertools
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from t5x_like.reports.corpus_charts import Bar, bars, legend, length_histogram, share
from t5x_like.reports.corpus_samples import printable, samples_body
from t5x_like.reports.corpus_words import count_in_words, decision_in_words, reason_in_words
from t5x_like.reports.tables import facts_table, table

_LANGUAGES = 15
_REPEATED = 20
_OTHER_LANGUAGE = "filtered:ignored_language-"
_OF_LANGUAGES = (_OTHER_LANGUAGE, "passed:")


def funnel(manifest: Mapping[str, Any]) -> str:
    """How many pages came to each step and how many went on."""
    whole = max([manifest["input"]["pages"], *(step["in"] for step in manifest["steps"])])
    rows = [
        Bar(
            step["name"],
            _plain_rule(step["rule"]),
            (
                f"{step['kept']:,}",
                f"{step['in'] - step['kept']:,}",
                share(step["in"] - step["kept"], step["in"]),
            ),
            kept=step["kept"],
            lost=step["in"] - step["kept"],
            whole=whole,
        )
        for step in manifest["steps"]
    ]
    read = manifest["input"]["pages"]
    rows.insert(0, Bar("pages read", "", (f"{read:,}", "", ""), kept=read, whole=whole))
    return legend(("kept", "pages that go on"), ("lost", "pages this step drops")) + bars(
        "step", ("kept", "dropped", "of those that came"), rows
    )


def _plain_rule(rule: str) -> str:
    """``DuplicateLines(min_sentences=3), version 1`` without its version, and not too long for a row."""
    short = rule.rpartition(", version ")[0] or rule
    return short if len(short) <= 70 else short[:68] + "…"


def reasons(manifest: Mapping[str, Any]) -> str:
    """All reasons for which pages went, the most frequent first."""
    read = manifest["input"]["pages"]
    dropped = [(step["name"], *item) for step in manifest["steps"] for item in step["dropped"].items()]
    most = max((count for _, _, count in dropped), default=0)
    rows = [
        Bar(
            reason_in_words(reason),
            f"{step}: {reason}",
            (f"{count:,}", share(count, read)),
            lost=count,
            whole=most,
        )
        for step, reason, count in sorted(dropped, key=lambda row: -row[2])
    ]
    return bars("reason", ("pages", "of all read"), rows) if rows else "<p>No page was dropped.</p>"


def decisions(manifest: Mapping[str, Any]) -> str:
    """What became of lines or sentences, a table for each step that decided about them."""
    parts = []
    for step in manifest["steps"]:
        counts = {name: count for name, count in step["seen"].items() if is_decision(name)}
        total = sum(counts.values())
        rows = [
            Bar(
                decision_in_words(name),
                name,
                (f"{count:,}", share(count, total)),
                **{"kept" if name.endswith("passed") else "lost": count},
                whole=total,
            )
            for name, count in counts.items()
        ]
        if rows:
            parts.append(f"<h3>{escape(step['name'])}</h3>" + bars("decision", ("number", "share"), rows))
    return "\n".join(parts)


def repeated(manifest: Mapping[str, Any]) -> str:
    """The lines or spans that were removed most often, of which the manifest may have the beginnings only."""
    parts = []
    for step in manifest["steps"]:
        rows = [
            [f"{count:,}", escape(printable(text)) or "<em>an empty line</em>"]
            for text, count in itertools.islice(step.get("repeated", {}).items(), _REPEATED)
        ]
        if rows:
            heading = f"<h3>{escape(step['name'])}</h3>"
            parts.append(heading + table([">times", "how it begins"], rows, css_class="repeated"))
    return "\n".join(parts)


def found(manifest: Mapping[str, Any]) -> str:
    """What steps counted besides: evaluation texts met, personal data masked, bad words by language."""
    rows = [
        [escape(step["name"]), escape(count_in_words(name)), f"{count:,}"]
        for step in manifest["steps"]
        for name, count in sorted(step["seen"].items())
        if not is_decision(name) and not name.startswith(_OF_LANGUAGES)
    ]
    return table(["step", "what", ">times"], rows, css_class="found") if rows else ""


def is_decision(name: str) -> bool:
    """Whether a count tells what became of lines or sentences."""
    return name.startswith(("line-", "sentence-"))


def lengths(manifest: Mapping[str, Any]) -> str:
    """How long pages were and are."""
    read, kept = (
        {int(bits): count for bits, count in manifest["lengths"][side].items()} for side in ("read", "kept")
    )
    if not read and not kept:
        return ""
    splits = manifest["splits"].values()
    pages, chars = sum(split["pages"] for split in splits), sum(split["chars"] for split in splits)
    facts = {
        "characters a page, as read": _mean(manifest["input"]["chars"], manifest["input"]["pages"]),
        "characters a page, in the corpus": _mean(chars, pages),
    }
    return (
        legend(("before", "of the pages as read"), ("kept", "of the pages in the corpus"))
        + length_histogram(read, kept)
        + facts_table(facts)
    )


def languages(manifest: Mapping[str, Any]) -> str:
    """The languages of the pages that stay and of those that went for it."""
    kept = {language: count for language, count in manifest["languages"].items() if language}
    gone: dict[str, int] = {}
    for step in manifest["steps"]:
        for name, count in step["seen"].items():
            if name.startswith(_OTHER_LANGUAGE):
                language = name.removeprefix(_OTHER_LANGUAGE)
                gone[language] = gone.get(language, 0) + count
    names = sorted({*kept, *gone}, key=lambda name: (-kept.get(name, 0) - gone.get(name, 0), name))
    if not names:
        return ""
    most = max(kept.get(name, 0) + gone.get(name, 0) for name in names)
    rows = [
        Bar(
            name,
            "",
            (f"{kept.get(name, 0):,}", f"{gone.get(name, 0):,}"),
            kept.get(name, 0),
            gone.get(name, 0),
            most,
        )
        for name in names[:_LANGUAGES]
    ]
    more = names[_LANGUAGES:]
    if more:
        rest = (sum(kept.get(name, 0) for name in more), sum(gone.get(name, 0) for name in more))
        rows.append(Bar(f"{len(more)} more", "", (f"{rest[0]:,}", f"{rest[1]:,}"), *rest, most))
    return legend(("kept", "kept"), ("lost", "dropped for their language")) + bars(
        "language", ("kept", "dropped"), rows
    )


def reading(manifest: Mapping[str, Any]) -> str:
    """What readers found in the input files, damage with examples."""
    rows = []
    examples = manifest["reading"]["examples"]
    for name, count in manifest["reading"]["counts"].items():
        kind, _, what = name.partition(":")
        shown = "".join(f"<br><small>{escape(example)}</small>" for example in examples.get(name, []))
        css = "bad" if what.startswith("damaged") else ""
        rows.append(
            [
                escape(kind),
                f'<span class="{css}">{escape(what.replace(":", ": ").replace("_", " "))}</span>{shown}',
                f"{count:,}",
            ]
        )
    return table(["files", "found", ">times"], rows, css_class="reading") if rows else ""


def samples(manifest: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> str:
    """Pages of each fate."""
    counts = {
        (place, reason): count
        for place, step in enumerate(manifest["steps"], start=1)
        for reason, count in step["dropped"].items()
    }
    kept = sum(split["pages"] for split in manifest["splits"].values())
    counts[len(manifest["steps"]) + 1, "kept"] = kept
    if not samples:
        return ""
    about = (
        "Some pages of each fate, as they were when it was decided: those of the lowest md5 of the address."
    )
    return f"<p>{about}</p>" + samples_body(samples, counts)


def _mean(total: int, count: int) -> str:
    return f"{total / count:,.0f}" if count else "–"
