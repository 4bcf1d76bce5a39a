"""Bars of a corpus' report, in HTML and SVG whose colours are the page's: dark where the reader's screen is."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import NamedTuple


class Bar(NamedTuple):
    """A row: what, how many, and in the bar how many stay (strong) and how many go (faint) of the whole."""

    label: str
    note: str
    numbers: tuple[str, ...]
    kept: float = 0.0
    lost: float = 0.0
    whole: float = 1.0


def bars(first: str, numbers: Iterable[str], rows: Iterable[Bar]) -> str:
    """A table of bars; ``numbers`` are the headers of the columns of numbers."""
    names = "".join(f'<th class="number">{escape(name)}</th>' for name in numbers)
    body = "\n".join(_row(row) for row in rows)
    return (
        f'<table class="bars"><thead><tr><th>{escape(first)}</th><th></th>{names}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table>"
    )


def _row(row: Bar) -> str:
    parts = "".join(
        f'<i class="{name}" style="width:{100 * part / row.whole:.2f}%"></i>'
        for name, part in (("kept", row.kept), ("lost", row.lost))
        if part > 0 and row.whole > 0
    )
    note = f"<small>{escape(row.note)}</small>" if row.note else ""
    cells = "".join(f'<td class="number">{escape(number)}</td>' for number in row.numbers)
    return f'<tr><td>{escape(row.label)}{note}</td><td class="track"><div class="bar">{parts}</div></td>{cells}</tr>'


def legend(*entries: tuple[str, str]) -> str:
    """Pairs of a colour's name and what it stands for."""
    spans = "".join(f'<span><i class="{name}"></i>{escape(meaning)}</span>' for name, meaning in entries)
    return f'<p class="legend">{spans}</p>'


def share(part: float, whole: float) -> str:
    """A part of a whole in percent, with as many digits as a small one needs."""
    if not whole:
        return "–"
    if not part:
        return "0 %"
    percent = 100 * part / whole
    if percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.2f} %" if percent < 1 else f"{percent:.1f} %"


_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 760, 250, 44, 38, 8


def length_histogram(read: Mapping[int, int], kept: Mapping[int, int]) -> str:
    """SVG of page lengths before and after, as parts of all pages; keys are the bits of the number of characters."""
    bits = [*read, *kept]
    shown = range(min(bits), max(bits) + 1)
    totals = {"before": sum(read.values()), "kept": sum(kept.values())}
    parts = {
        name: {bit: counts.get(bit, 0) / max(totals[name], 1) for bit in shown}
        for name, counts in (("before", read), ("kept", kept))
    }
    step, top = _ticks(max(max(each.values()) for each in parts.values()))
    slot = (_WIDTH - _LEFT) / len(shown)
    drawn = [_grid(line * step, top) for line in range(round(top / step) + 1)]
    for place, bit in enumerate(shown):
        left = _LEFT + place * slot
        for side, (name, counts) in enumerate((("before", read), ("kept", kept))):
            title = (
                f"{_range(bit)} characters: {counts.get(bit, 0):,} of {totals[name]:,} pages {_SIDES[name]}"
            )
            drawn.append(
                _column(name, left + slot * (0.1 + 0.4 * side), slot * 0.4, parts[name][bit] / top, title)
            )
        drawn.append(
            f'<text x="{left + slot / 2:.1f}" y="{_HEIGHT - 20}" text-anchor="middle">{_short(_lowest(bit))}</text>'
        )
    drawn.append(
        f'<text x="{_LEFT + (_WIDTH - _LEFT) / 2:.0f}" y="{_HEIGHT - 3}" text-anchor="middle">'
        "characters, from this number on</text>"
    )
    return (
        f'<figure><svg class="histogram" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="Lengths of pages, before and after">\n' + "\n".join(drawn) + "\n</svg></figure>"
    )


_SIDES = {"before": "as read", "kept": "in the corpus"}


def _ticks(highest: float) -> tuple[float, float]:
    """A round distance of lines, and the height of the uppermost."""
    step = next((each for each in (0.01, 0.02, 0.05, 0.1, 0.2) if highest / each <= 5), 0.25)
    count = -(-highest // step)
    return step, max(step * count, step)


def _grid(value: float, top: float) -> str:
    y = _y(value / top)
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{100 * value:.0f} %</text>'
    )


def _column(name: str, left: float, width: float, height: float, title: str) -> str:
    y = _y(height)
    return (
        f'<rect class="{name}" x="{left:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_y(0) - y:.1f}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _y(height: float) -> float:
    return _TOP + (1 - height) * (_HEIGHT - _BOTTOM - _TOP)


def _lowest(bit: int) -> int:
    return 0 if bit == 0 else 2 ** (bit - 1)


def _range(bit: int) -> str:
    return "0" if bit == 0 else f"{_lowest(bit):,} to {2**bit - 1:,}"


def _short(number: int) -> str:
    for size, letter in ((2**20, "M"), (2**10, "k")):
        if number >= size:
            return f"{number // size}{letter}"
    return str(number)
