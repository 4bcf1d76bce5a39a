"""A task's answers on a report: who is taken for whom, and the worst of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from t5x_like.reports.tables import table

_MOST_CLASSES = 12
_INVALID = "none of these"
_SHOWN_CHARACTERS = 600

Row = Mapping[str, Any]


def confusion_table(labels: Sequence[str], rows: Sequence[Row]) -> str:
    """True classes down, predicted ones across, each cell as dark as its share of the row; nothing for open answers."""
    known = [row for row in rows if row.get("target") is not None]
    if not 2 <= len(labels) <= _MOST_CLASSES or not known:
        return ""
    counts = Counter((str(row["target"]), _predicted(labels, row)) for row in known)
    across = [*labels, *([_INVALID] if any(guess == _INVALID for _, guess in counts) else [])]
    body = []
    for truth in labels:
        total = sum(counts[truth, guess] for guess in across)
        cells = "".join(_cell(counts[truth, guess], total, truth == guess) for guess in across)
        body.append(f'<tr><th scope="row">{escape(truth)}</th>{cells}<td class="total">{total:,}</td></tr>')
    head = "".join(f'<th scope="col">{escape(guess)}</th>' for guess in across)
    return (
        "<h3>Confusion <small>true classes down, predicted across</small></h3>"
        f'<table class="confusion"><thead><tr><td></td>{head}<th scope="col">rows</th></tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _predicted(labels: Sequence[str], row: Row) -> str:
    return str(row["prediction"]) if row["prediction"] in labels else _INVALID


def _cell(count: int, total: int, right: bool) -> str:
    share = count / total if total else 0.0
    kind = "right" if right else "wrong"
    return f'<td class="{kind}" style="--share:{share:.2f}">{count:,} <small>{share:.0%}</small></td>'


def worst_table(rows: Sequence[Row], number: int) -> str:
    """Wrong answers, those first whose right answer was found least likely; nothing where none is wrong."""
    wrong = [row for row in rows if row.get("target") is not None and not is_right(row)]
    if not wrong or not number:
        return ""
    wrong.sort(key=lambda row: (gap(row), row["number"]))
    cells = [
        [
            str(row["number"]),
            escape(_short(str(row["input"]))),
            escape(_short(str(row["target"]))),
            escape(_short(str(row["prediction"]))) or "<em>nothing</em>",
            f"{gap(row):.2f}" if row.get("log_likelihood") is not None else "–",
        ]
        for row in wrong[:number]
    ]
    return f"<h3>Worst answers <small>{len(wrong):,} are not the target</small></h3>" + table(
        [">row", "input", "target", "prediction", ">nats"], cells, css_class="worst"
    )


def is_right(row: Row) -> bool:
    """Whether an answer is its target as it is written."""
    return str(row["prediction"]).strip() == str(row["target"]).strip()


def gap(row: Row) -> float:
    """How likely the right answer was: beside the one that was chosen, where answers were ranked."""
    likelihood = row.get("log_likelihood")
    if likelihood is None:
        return 0.0
    choices = row.get("choices")
    return likelihood - max(choices.values()) if choices else likelihood


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} …"
