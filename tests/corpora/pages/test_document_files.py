"""Markdown becomes plain text."""

from pathlib import Path

import pytest

from t5x_like.corpora.pages.html_text import Extractor, Html
from t5x_like.corpora.pages.page_reader import PageReaderConfig, read_pages
from t5x_like.corpora.pages.reading_log import ReadLog

MARKDOWN = """\
---
title: Not part of the text
---
Setup
=====

Run `make` and **read** the
[manual](https://example.org/manual "a title"). ![a picture](logo.png)

```sh
make install
```

    indented code

1. first item
2. second item

   ```
   code of an item
   ```

> A quotation.

| name | meaning |
|------|---------|
| `-v` | verbose |

<p>HTML &amp; entities</p>
"""
TEXT = """\
Setup

Run make and read the manual.

first item
second item

A quotation.

name\t\tmeaning
-v\t\tverbose

HTML & entities"""


def read(path: Path, content: bytes, **fields):
    path.write_bytes(content)
    log = ReadLog()
    return [page for _, page in read_pages(path, PageReaderConfig(**fields), log)], log


def test_markup_code_and_front_matter_are_removed(tmp_path: Path):
    (page,), _ = read(tmp_path / "a.md", MARKDOWN.encode())
    assert [line.strip() for line in page.text.splitlines() if line.strip()] == [
        line for line in TEXT.splitlines() if line
    ]
    assert page.content_type == "text/markdown"


def test_a_mark_at_the_start_and_another_ending_make_no_difference(tmp_path: Path):
    (page,), _ = read(tmp_path / "a.markdown", "\ufeff# Title".encode())
    assert page.text == "Title"


def test_a_file_of_code_alone_is_no_page(tmp_path: Path):
    pages, log = read(tmp_path / "a.md", b"```\ncode\n```\n")
    assert not pages
    assert log.counts["split-markdown-file:filtered:no_content"] == 1


def test_invalid_utf8_is_damage(tmp_path: Path):
    with pytest.raises(ValueError, match="invalid UTF-8 at byte 5"):
        read(tmp_path / "a.md", b"# Caf\xe9")
    pages, log = read(tmp_path / "a.md", b"# Caf\xe9", on_corruption="skip")
    assert pages[0].text == "Caf\ufffd"
    assert log.num_damaged == 1


def test_markdown_that_takes_long_is_damage(tmp_path: Path):
    html = Html(max_seconds=0.2)
    pages, log = read(tmp_path / "a.md", b"[" * 100_000, html=html, on_corruption="skip")
    assert not pages
    assert "the Markdown takes more than 0.2 s" in log.examples["split-markdown-file:damaged:markdown"][0]
    pages, _ = read(tmp_path / "a.md", b"Text.", html=html)
    assert pages[0].text == "Text."


def test_skipped_elements_are_left_out_of_html_and_markdown(tmp_path: Path):
    html = Html(skip_elements=("table", "p.note"))
    (page,), _ = read(tmp_path / "a.md", b"| a |\n|---|\n| b |\n\nText.", html=html)
    assert page.text == "Text."
    (page,), _ = read(tmp_path / "a.html", b"<p class=note>Left out.<p>Text.", html=html)
    assert page.text == "Text."


@pytest.mark.parametrize("selectors", ["pre", ("",)])
def test_selectors_are_a_tuple(selectors):
    with pytest.raises(ValueError, match="must be a tuple of CSS selectors"):
        Html(skip_elements=selectors)


def test_what_is_no_selector_is_refused_before_a_page_is_read():
    with pytest.raises(ValueError, match=r"'a\[\[' is no CSS selector"):
        Extractor(Html(skip_elements=("pre", "a[[")))
