"""Pages of each fate, shown as text: whatever they hold, it is neither run nor, where it is foul, spelled out."""

import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from t5x_like.reports.corpus_words import reason_in_words

_SHOWN = 700  # characters of a sample
_LETTERS_AFTER_THE_FIRST = re.compile(r"(?<=\w)\w")
# Control characters, of which HTML knows none, and marks that turn the direction of what follows them.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def samples_body(samples: Iterable[Mapping[str, Any]], counts: Mapping[tuple[int, str], int]) -> str:
    """Folded lists, one a fate, in the order of the steps. ``counts`` is {(number of step, fate): pages}."""
    fates: dict[tuple[int, str, str], list[Mapping[str, Any]]] = {}
    for sample in samples:
        fates.setdefault((sample["number"], sample["step"], sample["fate"]), []).append(sample)
    last = max((number for number, _, _ in fates), default=0)
    ordered = sorted(fates.items(), key=lambda item: (item[0][2] != "kept" or item[0][0] != last, *item[0]))
    folds = [_fold(*key, rows, counts.get((key[0], key[2]), len(rows))) for key, rows in ordered]
    return f'<div class="samples">\n{"".join(folds)}</div>'


def _fold(_number: int, step: str, fate: str, rows: list[Mapping[str, Any]], total: int) -> str:
    kept = fate == "kept"
    what = "Kept" if kept else f"{step}: {reason_in_words(fate)}"
    shown = "".join(_sample(row, masked="badword" in fate) for row in rows)
    masked = "<p>Only the first letter of each word is shown.</p>" if "badword" in fate else ""
    return (
        f"<details{' open' if kept else ''}><summary>{escape(what)}<small>{len(rows)} of {total:,} pages</small>"
        f"</summary>{masked}{shown}</details>\n"
    )


def _sample(row: Mapping[str, Any], *, masked: bool) -> str:
    url, text = str(row["url"]), str(row["text"])
    cut = text[:_SHOWN] + (" …" if len(text) > _SHOWN else "")
    if masked:
        url, cut = _mask(url), _mask(cut)
    shown = f'<pre dir="auto">{_safe(cut)}</pre>' if cut.strip() else "<pre><em>no text</em></pre>"
    return f"<p><code>{_safe(url)}</code></p>{shown}\n"


def _mask(text: str) -> str:
    return _LETTERS_AFTER_THE_FIRST.sub("·", text)


def printable(text: str) -> str:
    """The text with a replacement mark for every character that has no shape of its own."""
    return _UNPRINTABLE.sub("\ufffd", text)


def _safe(text: str) -> str:
    return escape(printable(text))
