"""The rules for single pages against TensorFlow Datasets' C4, on hand-made pages, random ones and a small crawl."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from t5x_like.corpora.building.recipe import CorpusRecipe
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.cleaning import C4Cleaning
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.sentences import count_sentences, split_sentences
from t5x_like.corpora.rules.size_rules import MaxLength, Paragraphs
from t5x_like.corpora.rules.url_lists import normalize_url, url_digest

C4 = CorpusRecipe(name="c4", steps=())


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().rstrip().split("\n")]


def text_of(row: dict[str, Any]) -> str:
    if row["text"] is not None:
        return row["text"]
    unit, size = row["text_repeat"]["unit"], row["text_repeat"]["total_chars"]
    return (unit * (size // len(unit) + 1))[:size]


def cleaned(text: str) -> tuple[str | None, str | None, dict[str, int]]:
    """Return the clean text or the reason for dropping the page, and the counters as the reference keeps them."""
    counts: Counter[str] = Counter()
    result = C4Cleaning().apply(Page(url="", text=text), counts)
    counts[result.reason if isinstance(result, Dropped) else "passed"] += 1
    if isinstance(result, Dropped):
        return None, result.reason, dict(counts)
    return result.text, None, dict(counts)


def test_pages_are_cleaned_as_the_reference_cleans_them(golden: Path):
    rows = rows_of(golden / "c4" / "pages.jsonl")
    assert len(rows) == 79
    for row in rows:
        text, reason, counts = cleaned(text_of(row))
        assert reason == row["clean_dropped"], row["tag"]
        assert counts == row["clean_counters"], row["tag"]
        if isinstance(row["clean_text"], dict):
            assert text is not None
            sizes = {"chars": len(text), "lines": text.count("\n") + 1}
            assert sizes == row["clean_text"], row["tag"]
        else:
            assert text == row["clean_text"], row["tag"]


def test_pages_made_at_random_are_cleaned_as_the_reference_cleans_them(golden: Path):
    rows = rows_of(golden / "c4" / "pages_random.jsonl")
    assert len(rows) == 150
    for row in rows:
        assert cleaned(row["text"]) == (row["clean_text"], row["dropped"], row["counters"])


def test_every_line_is_judged_as_the_reference_judges_it(golden: Path):
    for row in rows_of(golden / "c4" / "pages.jsonl"):
        judged = C4Cleaning().explain(Page(url="", text=text_of(row))).lines
        if row["text"] is None:
            continue
        expected = [
            (line["line"], line["decision"], line.get("sentences"), line.get("out")) for line in row["lines"]
        ]
        assert [(line.line, line.decision, line.sentences, line.out) for line in judged] == expected, row[
            "tag"
        ]


def test_pages_too_long_and_pages_without_paragraphs_are_those_of_the_reference(golden: Path):
    for row in rows_of(golden / "c4" / "pages.jsonl"):
        page = Page(url="", text=text_of(row))
        assert len(page.text) == row["chars"]
        assert (MaxLength().apply(page, Counter()) is page) == row["valid_length"], row["tag"]
        assert (Paragraphs().apply(page, Counter()) is page) == row["paragraph_filter_raw"], row["tag"]


def test_a_crawl_has_the_counters_of_the_reference(golden: Path):
    raw = json.loads((golden / "c4" / "wet_split.json").read_text())
    expected = json.loads((golden / "c4" / "end_to_end.json").read_text())["configs"]["en"]["counters"]
    counts: Counter[str] = Counter()
    newest: dict[str, Page] = {}
    for row in raw:
        page = Page(url=normalize_url(row["url"]), text=row["text"], timestamp=row["timestamp"])
        assert page.url == row["normalized_url"]
        if isinstance(MaxLength().apply(page, counts), Dropped):
            counts["filtered:too_long"] += 1
        elif page.url not in newest or page.timestamp > newest[page.url].timestamp:
            newest[page.url] = page
    assert counts.pop("filtered:too_long") == expected["too-long-filter:filtered"]
    for page in newest.values():
        result = C4Cleaning().apply(page, counts)
        counts[result.reason if isinstance(result, Dropped) else "passed"] += 1
    ours = {f"clean-page:{name}": count for name, count in counts.items()}
    assert ours == {name: count for name, count in expected.items() if name.startswith("clean-page:")}


def test_urls_and_the_validation_split_are_those_of_the_reference(golden: Path):
    for row in json.loads((golden / "c4" / "urls.json").read_text()):
        address = normalize_url(row["url"])
        assert address == row["normalized"]
        assert int.from_bytes(url_digest(address), "big") % 1000 == row["md5_mod_1000"]
        assert C4.is_held_out(url_digest(address)) == (row["md5_mod_1000"] == 0)


def test_sentences_are_those_of_the_reference(golden: Path):
    rows = rows_of(golden / "c4" / "punkt_sentences.jsonl")
    assert len(rows) == 280
    for row in rows:
        assert split_sentences(row["text"]) == row["sentences"]
        assert count_sentences(row["text"]) == len(row["sentences"])


@pytest.mark.parametrize("config", ["en", "en.noclean"])
def test_pages_of_the_crawl_are_in_the_split_of_the_reference(golden: Path, config: str):
    pages = json.loads((golden / "c4" / "end_to_end.json").read_text())["configs"][config]["pages"]
    assert pages
    for page in pages:
        held_out = C4.is_held_out(url_digest(page["normalized_url"]))
        assert page["split"] == ("validation" if held_out else "train")
