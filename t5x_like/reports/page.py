"""The frame of a report: one HTML file that needs nothing else, reads well and prints well."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple


class Section(NamedTuple):
    """A heading and the HTML under it."""

    heading: str
    body: str


class Headline(NamedTuple):
    """One number a reader should see first: what, how much, and against what."""

    label: str
    value: str
    against: str
    good: bool


def page(
    *,
    title: str,
    introduction: str,
    headlines: Sequence[Headline],
    sections: Sequence[Section],
    style_of: str = "",
) -> str:
    """A whole HTML document. ``introduction`` is plain text, the sections' bodies are HTML.

    ``style_of`` names a second style sheet beside ``page.css``, for what only one kind of report has.
    """
    sheets = ["page.css", *([style_of] if style_of else [])]
    style = "".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in sheets)
    tiles = "\n".join(_tile(headline) for headline in headlines)
    parts = "\n".join(
        f"<section>\n<h2>{escape(heading)}</h2>\n{body}\n</section>" for heading, body in sections
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<h1>{escape(title)}</h1>
<p class="introduction">{escape(introduction)}</p>
</header>
<div class="headlines">
{tiles}
</div>
{parts}
</main>
</body>
</html>
"""


def _tile(headline: Headline) -> str:
    css_class = "good" if headline.good else "bad"
    return (
        f'<div class="headline"><span class="label">{escape(headline.label)}</span>'
        f'<span class="value {css_class}">{escape(headline.value)}</span>'
        f'<span class="against">{escape(headline.against)}</span></div>'
    )
