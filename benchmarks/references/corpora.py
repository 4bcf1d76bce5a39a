"""Corpora: duplicate lines and spans, and a whole build from a crawl, as C4's own code and datatrove make them."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.references.pages import check_splits
from benchmarks.references.reference import DifferenceError, Reference, check_equal, read_json
from t5x_like.corpora.building.build import build_corpus
from t5x_like.corpora.building.recipe import CorpusRecipe
from t5x_like.corpora.duplicates.duplicate_lines import DuplicateLines
from t5x_like.corpora.duplicates.duplicate_rule import DuplicateRule, PagePosition, all_but_first
from t5x_like.corpora.duplicates.duplicate_spans import DuplicateSpans
from t5x_like.corpora.duplicates.page_groups import all_but_first_pages, links_of, settled
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.cleaning import C4Cleaning
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.size_rules import MaxLength
from t5x_like.corpora.rules.url_lists import normalize_url, url_digest
from t5x_like.gin_config.configuration import load
from t5x_like.text.tasks.row_files import read_rows
from t5x_like.text.tasks.rows import Row

_NUM_PARTITIONS = 3
_RECIPES = {"en": "c4_en", "en.noclean": "c4_en_noclean"}
# What the reference counts without a reason.
_RENAMED = {
    "too-long-filter:filtered": "too-long-filter:filtered:too_long",
    "badwords-filter:filtered": "badwords-filter:filtered:badwords",
}


def deduplicate(
    rule: DuplicateRule, pages: Sequence[Page], counts: Counter[str] | None = None
) -> dict[str, Page | Dropped]:
    """Return by URL the page after the rule, or ``Dropped``; stages of a build do the same with files."""
    counts = Counter() if counts is None else counts
    keys = np.concatenate([keys_of_page(rule, page, index) for index, page in enumerate(pages)])
    hashes = keys["hash_high"] % np.uint64(_NUM_PARTITIONS)
    parts = [keys[hashes == part] for part in range(_NUM_PARTITIONS)]
    if rule.BY_HASH_ALONE:
        gone = np.concatenate([all_but_first(part) for part in parts])
    else:
        gone = all_but_first_pages(settled(np.concatenate([links_of(part) for part in parts])))
    results = {}
    for index, page in enumerate(pages):
        is_of_page = (gone["page"] == index // _NUM_PARTITIONS) & (
            gone["partition"] == index % _NUM_PARTITIONS
        )
        parts = np.sort(gone[is_of_page]["part"].astype(np.int64))
        result = results[page.url] = rule.remove(page, parts, counts)
        counts[result.reason if isinstance(result, Dropped) else "passed"] += 1
    return results


def texts(rule: DuplicateRule, pages: Sequence[Page]) -> dict[str, str]:
    """Return by URL the remaining texts of pages that stay."""
    return {url: page.text for url, page in deduplicate(rule, pages).items() if not isinstance(page, Dropped)}


def keys_of_page(rule: DuplicateRule, page: Page, number: int) -> np.ndarray:
    """Return ``KEY`` [number of parts] of a page with this number."""
    position = PagePosition(url_digest(normalize_url(page.url)), source=0, record=number)
    keys = rule.keys(page, position)
    keys["partition"], keys["page"] = number % _NUM_PARTITIONS, number // _NUM_PARTITIONS
    return keys


def duplicate_lines(file: Path) -> Iterator[Reference]:
    """Yield pages without the lines that others have."""
    content = read_json(file)
    pages = [Page(**row) for row in content["in"]]
    for setting, wanted in content["results"].items():
        yield Reference(
            "corpora",
            f"{file} {setting}",
            lambda setting=setting, wanted=wanted: check_lines(pages, setting, wanted),
        )


def check_lines(pages: Sequence[Page], setting: str, wanted: dict[str, Any]) -> None:
    """Compare the remaining texts and the counters of a setting, such as ``min_num_sentences=3``."""
    counts: Counter[str] = Counter()
    rule = DuplicateLines(min_sentences=int(setting.partition("=")[2]))
    kept = deduplicate(rule, pages, counts)
    remaining = {url: page.text for url, page in kept.items() if isinstance(page, Page)}
    check_equal(remaining, {row["url"]: row["text"] for row in wanted["out"]}, "texts")
    check_equal(
        {f"{rule.NAME}:{name}": count for name, count in counts.items()}, wanted["counters"], "counters"
    )


def duplicate_spans(file: Path) -> Iterator[Reference]:
    """Yield documents without the sentences that others have."""
    content = read_json(file)
    pages = [Page(url=row["id"], text=row["text"]) for row in content["in"]]
    for number, result in enumerate(content["results"], start=1):
        yield Reference(
            "corpora", f"{file} result {number}", lambda result=result: check_spans(pages, result)
        )


def check_spans(pages: Sequence[Page], result: dict[str, Any]) -> None:
    """Compare the remaining texts of a configuration of datatrove."""
    config = result["config"]
    rule = DuplicateSpans(
        num_sentences=config["n_sentences"],
        split_sentences=config["split_sentences"],
        min_sentences=config["min_num_sentences"],
        min_words=config["min_doc_words"],
    )
    check_equal(texts(rule, pages), {row["id"]: row["text"] for row in result["out"]}, "texts")


def built(file: Path) -> Iterator[Reference]:
    """Yield corpora of the crawl beside a file, and the stages of their build."""
    content = read_json(file)
    crawls = sorted(file.parent.glob("*.warc.wet.gz"))
    raw = file.parent / "wet_split.json"
    for config, wanted in content["configs"].items():
        name = f"{file} {config}"
        yield Reference("corpora", f"{name} splits", lambda wanted=wanted: check_splits(wanted["pages"]))
        if config not in _RECIPES:
            yield Reference("corpora", name, lambda config=config: _no_recipe(config))
        elif crawls:
            yield Reference(
                "corpora",
                name,
                lambda config=config: check_build(_RECIPES[config], crawls[0], content, config),
            )
        if config == "en" and raw.is_file():
            yield Reference(
                "corpora", f"{name} stages", lambda wanted=wanted: check_stages(read_json(raw), wanted)
            )


def _no_recipe(config: str) -> None:
    raise DifferenceError(f"we have no recipe of C4's configuration {config!r}")


def check_build(recipe_name: str, crawl: Path, content: dict[str, Any], config: str) -> None:
    """Build a corpus of a crawl, and compare its pages and counters."""
    with tempfile.TemporaryDirectory() as folder:
        words, output = Path(folder, "words"), Path(folder, "out")
        words.mkdir()
        (words / "en.txt").write_text("\n".join(content["toy_badwords_en"]) + "\n", "utf-8")
        overrides = [f"BAD_WORDS='{words}'"] if recipe_name == "c4_en" else []
        recipe = load([f"gin/corpora/{recipe_name}.gin"], overrides, roots=[CorpusRecipe]).value
        corpus = build_corpus(recipe, str(crawl), output, progress=False)
        wanted = content["configs"][config]
        fields = ("url", "timestamp", "text", "language")
        for split in ("train", "validation"):
            recorded = [page for page in wanted["pages"] if page["split"] == split]
            made = [tuple(row[name] for name in fields) for row in _pages_of(output, split)]
            check_equal(
                sorted(made), sorted(tuple(page[name] for name in fields) for page in recorded), split
            )
    # Beam counts addresses in several phases of a combination.
    of_reference: dict[str, int] = wanted["counters"]
    counters = {
        _RENAMED.get(name, name): count
        for name, count in of_reference.items()
        if not name.startswith("duplicate-url-filter:")
    }
    own = _counters(corpus.manifest)
    check_equal({name: own.get(name, 0) for name in counters}, counters, "counters")


def _pages_of(output: Path, split: str) -> list[dict[str, str]]:
    files = sorted(output.glob(f"{split}-*.jsonl.zst"))
    rows = [row for file in files for row in read_rows(str(file), "jsonl")]
    return [dict(row.cells) for row in rows if isinstance(row, Row)]


def _counters(manifest: dict[str, Any]) -> dict[str, int]:
    counters = dict(manifest["reading"]["counts"])
    for step in manifest["steps"]:
        own = {"passed": step["kept"], **step["dropped"], **step["seen"]}
        for name, count in own.items():
            counters[step["name"] + ("" if name.startswith("-") else ":") + name] = count
    return counters


def check_stages(raw: Sequence[dict[str, Any]], wanted: dict[str, Any]) -> None:
    """Compare the counters of cleaning and of duplicate lines over the pages of a crawl, and the texts."""
    counts: Counter[str] = Counter()
    newest: dict[str, Page] = {}
    for row in raw:
        page = Page(url=row["url"], text=row["text"], timestamp=row["timestamp"])
        address = normalize_url(page.url)
        if isinstance(MaxLength().apply(page, counts), Dropped):
            counts["filtered:too_long"] += 1
        elif address not in newest or page.timestamp > newest[address].timestamp:
            newest[address] = page
    check_equal(
        counts.pop("filtered:too_long", 0), wanted["counters"].get("too-long-filter:filtered", 0), "too long"
    )
    clean = []
    for page in newest.values():
        result = C4Cleaning().apply(page, counts)
        counts[result.reason if isinstance(result, Dropped) else "passed"] += 1
        clean += [result] if isinstance(result, Page) else []
    own = {f"clean-page:{name}": count for name, count in counts.items()}
    recorded = {name: count for name, count in wanted["counters"].items() if name.startswith("clean-page:")}
    check_equal(own, recorded, "counters of cleaning")
    rule = DuplicateLines(min_sentences=3)
    lines: Counter[str] = Counter()
    kept = deduplicate(rule, clean, lines)
    own = {f"{rule.NAME}:{name}": count for name, count in lines.items()}
    recorded = {name: count for name, count in wanted["counters"].items() if name.startswith(rule.NAME)}
    check_equal(own, recorded, "counters of duplicate lines")
    for row in wanted["pages"]:
        page = kept[row["url"]]
        check_equal(page.text if isinstance(page, Page) else page, row["text"], row["url"])
