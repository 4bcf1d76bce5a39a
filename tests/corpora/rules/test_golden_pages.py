"""The rules for single pages against TensorFlow Datasets' C4, on hand-made pages, random ones and a small crawl."""

import json
from pathlib import Path

import pytest

from benchmarks.references.corpora import check_stages
from benchmarks.references.pages import check_splits, random_pages, sentences, tagged_pages, urls
from benchmarks.references.reference import compare_all


def test_tagged_pages_are_judged_as_the_reference_judges_them(golden: Path):
    assert compare_all(tagged_pages(golden / "c4" / "pages.jsonl")) == 79


def test_pages_made_at_random_are_cleaned_as_the_reference_cleans_them(golden: Path):
    assert compare_all(random_pages(golden / "c4" / "pages_random.jsonl")) == 150


def test_a_crawl_has_the_counters_and_texts_of_the_reference(golden: Path):
    raw = json.loads((golden / "c4" / "wet_split.json").read_text())
    check_stages(raw, json.loads((golden / "c4" / "end_to_end.json").read_text())["configs"]["en"])


def test_urls_and_the_validation_split_are_those_of_the_reference(golden: Path):
    assert compare_all(urls(golden / "c4" / "urls.json")) > 5


def test_sentences_are_those_of_the_reference(golden: Path):
    assert compare_all(sentences(golden / "c4" / "punkt_sentences.jsonl")) == 280


@pytest.mark.parametrize("config", ["en", "en.noclean"])
def test_pages_of_the_crawl_are_in_the_split_of_the_reference(golden: Path, config: str):
    pages = json.loads((golden / "c4" / "end_to_end.json").read_text())["configs"][config]["pages"]
    assert pages
    check_splits(pages)
