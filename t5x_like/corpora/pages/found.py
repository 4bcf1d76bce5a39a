"""A page and where it was found."""

from typing import NamedTuple

from t5x_like.corpora.pages.page import Page


class Found(NamedTuple):
    """``place``: the byte of the unpacked file at which its record begins (WET, WARC), or its line or row, from 1."""

    place: int
    page: Page
