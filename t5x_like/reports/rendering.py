"""HTML reports from the jinja2 templates in ``reports/templates``: single files without external resources."""

import functools
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import jinja2

from t5x_like.reports.calibration_plot import draw_calibration
from t5x_like.reports.recordings import played
from t5x_like.value_types import fits

# Control characters, which HTML forbids, and marks that change the text's direction.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Tile(NamedTuple):
    """Number at the top of a report.

    Attributes:
      label: Name of the number.
      value: The number.
      against: Number to compare with.
      good: True for a favorable value.
    """

    label: str
    value: str
    against: str
    good: bool


def render(template: str, **values: object) -> str:
    """Render a template; values are escaped.

    Args:
      template: File name in ``reports/templates``.
      **values: Variables of the template.
    """
    return _environment().get_template(template).render(values)


def words(name: str) -> str:
    """Return ``wordnet_definitions`` with spaces."""
    return name.replace("_", " ")


def number(value: float) -> str:
    """Format a number with about three digits; NaN and infinity stay visible."""
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def share(part: float, whole: float) -> str:
    """Return a part of a whole in percent, with more digits for small parts.

    Args:
      part: Number in the part.
      whole: Number in all; 0 gives a dash.
    """
    if not whole:
        return "–"
    if not part:
        return "0 %"
    percent = 100 * part / whole
    if percent < 0.01:
        return "< 0.01 %"
    return f"{percent:.2f} %" if percent < 1 else f"{percent:.1f} %"


def plural(count: int, noun: str) -> str:
    """Return ``1 page`` or ``2,000 pages``.

    Args:
      count: Number of things.
      noun: Singular that takes an "s".
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(num_bytes: float) -> str:
    """Return ``512 B``, ``4.1 kB`` or ``12.3 GB``."""
    if num_bytes < 1000:
        return f"{num_bytes:.0f} B"
    power = min(int(math.log10(num_bytes)) // 3, 4)
    return f"{num_bytes / 1000**power:,.1f} {' kMGT'[power]}B"


def date_and_time(seconds: float) -> str:
    """Return a time since 1970 as local date and time, to the minute."""
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"


def iso_time(seconds: float) -> str:
    """Return a time since 1970 for JSON, in UTC: ``2026-11-23T12:00:00Z``."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def printable(text: str) -> str:
    """Replace control characters and direction marks by ``�``."""
    return _UNPRINTABLE.sub("\ufffd", text)


def _fact(value: object) -> str:
    return number(value) if fits(value, float) else str(value)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "calibration_plot": draw_calibration,
        "fact": _fact,
        "number": number,
        "played": played,
        "printable": printable,
        "share": share,
        "thousands": "{:,}".format,
        "words": words,
    }
    return environment
