"""Pages of the web as C4's own code cleans them: lines, counters, sentences, languages, bad words, addresses."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.references.reference import Reference, check_equal, read_json, read_rows
from t5x_like.corpora.building.recipe import CorpusRecipe
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.bad_words import BadWords
from t5x_like.corpora.rules.cleaning import C4Cleaning
from t5x_like.corpora.rules.language_langdetect import LangDetect
from t5x_like.corpora.rules.languages import Languages
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.sentences import count_sentences, split_sentences
from t5x_like.corpora.rules.size_rules import MaxLength, Paragraphs
from t5x_like.corpora.rules.url_lists import normalize_url, url_digest

_C4 = CorpusRecipe(name="c4", steps=())


def text_of(row: dict[str, Any]) -> str:
    """Return the text of a row; long ones are recorded as a unit and their length."""
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


def tagged_pages(file: Path) -> Iterator[Reference]:
    """Yield pages of a rule or boundary each."""
    toy_words = file.parent / "lang_and_badwords.json"
    words = read_json(toy_words)["toy_badwords"] if toy_words.is_file() else None
    for number, row in enumerate(read_rows(file), start=1):
        yield Reference(
            "pages", f"{file}:{number} {row.get('tag', '')}", lambda row=row: check_tagged(row, words)
        )


def check_tagged(row: dict[str, Any], toy_words: list[str] | None) -> None:
    """Compare all that is recorded of a page."""
    text = text_of(row)
    page = Page(url="", text=text)
    clean, reason, counts = cleaned(text)
    check_equal(reason, row["clean_dropped"], "reason")
    check_equal(counts, row["clean_counters"], "counters")
    own = clean
    if isinstance(row["clean_text"], dict) and clean is not None:
        own = {"chars": len(clean), "lines": clean.count("\n") + 1}
    check_equal(own, row["clean_text"], "clean text")
    if row["text"] is not None:
        lines = [
            (line.line, line.decision, line.sentences, line.out) for line in C4Cleaning().explain(page).lines
        ]
        wanted = [
            (line["line"], line["decision"], line.get("sentences"), line.get("out")) for line in row["lines"]
        ]
        check_equal(lines, wanted, "lines")
    check_equal(len(text), row["chars"], "number of characters")
    check_equal(MaxLength().apply(page, Counter()) is page, row["valid_length"], "valid length")
    check_equal(Paragraphs().apply(page, Counter()) is page, row["paragraph_filter_raw"], "paragraphs")
    _check_language(row)
    if isinstance(row["clean_text"], str) and row.get("badwords_toy_pass") is not None:
        if toy_words is not None:
            toy = verdict_of_words({"en": toy_words}, row["clean_text"])
            check_equal(toy, row["badwords_toy_pass"], "verdict with the toy list")
        own_lists = not isinstance(
            BadWords().apply(Page("", row["clean_text"], language="en"), Counter()), Dropped
        )
        check_equal(own_lists, row["badwords_ldnoobw_25e679f_pass"], "verdict with the lists of bad words")


def verdict_of_words(
    lists: dict[str, list[str]],
    text: str,
    *,
    language: str | None = "en",
    url: str = "example.org",
    filter_fraction: float = 1.0,
) -> bool:
    """Return whether a page is kept with lists of bad words by language."""
    with tempfile.TemporaryDirectory() as folder:
        for code, terms in lists.items():
            Path(folder, f"{code}.txt").write_text("".join(f"{term}\n" for term in terms), "utf-8")
        rule = BadWords(lists=folder, filter_fraction=filter_fraction)
        return not isinstance(rule.apply(Page(url, text, language=language), Counter()), Dropped)


def _check_language(row: dict[str, Any]) -> None:
    text = row["clean_text"]
    if isinstance(text, str) and row.get("english_counters"):
        counts: Counter[str] = Counter()
        outcome = Languages().apply(Page("example.org", text), counts)
        verdict = [outcome.reason if isinstance(outcome, Dropped) else "passed", *counts]
        check_equal(verdict, row["english_counters"], "counters of languages")
    if row.get("langdetect"):
        _check_probabilities(row)


def _check_probabilities(row: dict[str, Any]) -> None:
    text = row.get("clean_text", row["text"])
    if not isinstance(text, str):
        return
    predictions = LangDetect().predict(text)
    if predictions is None:
        check_equal("LangDetectException", row.get("error", *row.get("langdetect", [])), "languages")
        return
    rounded = [[each.language, round(each.probability, 6)] for each in predictions]
    check_equal(rounded, row["langdetect"], "probabilities of languages")


def random_pages(file: Path) -> Iterator[Reference]:
    """Yield pages of random lines."""
    for number, row in enumerate(read_rows(file), start=1):
        yield Reference("pages", f"{file}:{number}", lambda row=row: check_random(row))


def check_random(row: dict[str, Any]) -> None:
    """Compare the clean text and the counters of a page, and its language."""
    check_equal(cleaned(row["text"]), (row["clean_text"], row["dropped"], row["counters"]), "clean page")
    _check_language(row)


def sentences(file: Path) -> Iterator[Reference]:
    """Yield texts that NLTK split into sentences."""
    for number, row in enumerate(read_rows(file), start=1):
        yield Reference("pages", f"{file}:{number}", lambda row=row: check_sentences(row))


def check_sentences(row: dict[str, Any]) -> None:
    """Compare sentences and their number."""
    check_equal(split_sentences(row["text"]), row["sentences"], "sentences")
    check_equal(count_sentences(row["text"]), len(row["sentences"]), "number of sentences")


def bad_words(file: Path) -> Iterator[Reference]:
    """Yield verdicts with lists of bad words."""
    content = read_json(file)
    for number, case in enumerate(content["cases"], start=1):
        yield Reference(
            "pages", f"{file} case {number}", lambda case=case: check_bad_words(case, content["badwords"])
        )


def check_bad_words(case: dict[str, Any], lists: dict[str, list[str]]) -> None:
    """Compare the verdict on a page."""
    kept = verdict_of_words(
        lists,
        case["text"],
        language=case["language"],
        url=case["normalized_url"],
        filter_fraction=float(case["filter_fraction"]),
    )
    check_equal(kept, case["pass"], "verdict")


def languages(file: Path) -> Iterator[Reference]:
    """Yield probabilities of languages."""
    for number, row in enumerate(read_json(file)["langdetect"], start=1):
        yield Reference("pages", f"{file} text {number}", lambda row=row: _check_probabilities(row))


def urls(file: Path) -> Iterator[Reference]:
    """Yield normalized addresses with their place among splits."""
    for row in read_json(file):
        yield Reference("pages", f"{file} {row['url']}", lambda row=row: check_url(row))


def check_url(row: dict[str, Any]) -> None:
    """Compare an address, its digest and its split."""
    address = normalize_url(row["url"])
    check_equal(address, row["normalized"], "address")
    check_equal(int.from_bytes(url_digest(address), "big") % 1000, row["md5_mod_1000"], "digest")
    check_equal(_C4.is_held_out(url_digest(address)), row["md5_mod_1000"] == 0, "held out")


def crawled_urls(file: Path) -> Iterator[Reference]:
    """Yield normalized addresses of a crawl."""
    for number, row in enumerate(read_json(file), start=1):
        yield Reference(
            "pages",
            f"{file} page {number}",
            lambda row=row: check_equal(normalize_url(row["url"]), row["normalized_url"], "address"),
        )


def check_splits(pages: Sequence[dict[str, Any]]) -> None:
    """Compare the splits of pages of a corpus."""
    for page in pages:
        split = "validation" if _C4.is_held_out(url_digest(page["normalized_url"])) else "train"
        check_equal(split, page["split"], f"split of {page['normalized_url']}")
