"""Measure how many megabytes of crawled text a second one core filters by the rules of a corpus.

    apt-get download python3.11-doc anarchism
    python -m benchmarks.corpus_speed --packages python3.11-doc_*.deb anarchism_*.deb
    python -m benchmarks.corpus_speed --packages *.deb --measure cleaning --output speed.json
    python -m benchmarks.corpus_speed --packages *.deb --measure --whole

Pages are the HTML files of Debian packages, as the text that resiliparse extracts: menus, tables, code and prose, a
line for each block, as in Common Crawl's WET files. The shipped King James Bible is added, a chapter a page, between
the lines of a menu. Without ``--packages`` it is the only input, and more of it is kept than of a crawl.

Rates are 10^6 bytes of UTF-8 per CPU second of this process, which is pinned to one core. The reference
(``corpus_plain.py``) runs on the same pages in the same session: one step after another for every line, with NLTK's
sentences. The outputs of both are compared. Prints a JSON object; ``--output`` keeps it.
"""

import argparse
import hashlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.corpus_plain import (
    MAX_CHARS,
    in_turn,
    plain_bad_words,
    plain_cleaning,
    plain_count,
    plain_english,
    plain_path,
)
from benchmarks.corpus_whole import measure_whole
from benchmarks.machine import about

ROOT = Path(__file__).resolve().parent.parent
MENU = "Home\nAbout us\nContact\nSearch this site\nLog in | Register\n"
FOOTER = "\nCopyright 2019 All rights reserved\nTerms of Service\nBack to top\n"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Our rule and the reference, each a function of a page's text."""

    what: str
    implementation: Callable[[], Callable[[str], Any]]
    reference: Callable[[], Callable[[str], Any]]
    agree: bool = True  # whether they must


def main() -> None:
    arguments = parse()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    texts = read_texts(arguments.packages)
    measured = {}
    for name in arguments.measure:
        measured[name] = measure(MEASUREMENTS[name], texts, arguments.seconds)
        print(f"{name}: {measured[name]}", file=sys.stderr)
    result = about(num_cores=1) | {"input": described(texts), "measurements": measured}
    if arguments.whole:
        result["whole_builds"] = measure_whole(texts, whole_rules(), arguments.seconds)
    print(json.dumps(result, indent=2))
    if arguments.output:
        from t5x_like.io.files import write_json

        write_json(arguments.output, result)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packages", nargs="*", default=[], metavar="DEB", help="Debian packages with HTML")
    names = list(MEASUREMENTS)
    parser.add_argument("--measure", nargs="*", choices=names, default=names, metavar="NAME")
    parser.add_argument(
        "--whole", action="store_true", help="measure whole builds too, from WET files to shards"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of CPU for each rate")
    parser.add_argument("--output", metavar="FILE")
    return parser.parse_args()


def read_texts(packages: Sequence[str]) -> list[str]:
    """Return the texts of pages, in an order that mixes their kinds."""
    from resiliparse.extract.html2text import extract_plain_text

    chapters = (ROOT / "data/king_james/train.txt").read_text().splitlines()
    texts = [MENU + re.sub(r"(?<=[.?!]) (?=[A-Z])", "\n", chapter) + FOOTER for chapter in chapters]
    texts += [extract_plain_text(html) for package in packages for html in html_files(package)]
    short = [text for text in texts if len(text) <= MAX_CHARS]
    return sorted(short, key=lambda text: hashlib.md5(text.encode()).digest())


def html_files(package: str) -> Iterator[str]:
    unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(unpacked.stdout)) as archive:
        for entry in archive:
            content = archive.extractfile(entry) if entry.isfile() and entry.name.endswith(".html") else None
            if content is not None:
                yield content.read().decode(errors="replace")


def described(texts: Sequence[str]) -> dict[str, Any]:
    sizes = [len(text.encode()) for text in texts]
    lines = [line for text in texts for line in text.splitlines()]
    clean = [cleaned for text in texts if (cleaned := our_cleaning()(text)[0]) is not None]
    return {
        "pages": len(texts),
        "megabytes": round(sum(sizes) / 1e6, 1),
        "median_bytes_a_page": sorted(sizes)[len(sizes) // 2],
        "mean_chars_a_line": round(sum(map(len, lines)) / len(lines), 1),
        "kept_share_of_pages": round(len(clean) / len(texts), 3),
        "kept_share_of_bytes": round(sum(len(text.encode()) for text in clean) / sum(sizes), 3),
    }


def measure(measurement: Measurement, texts: Sequence[str], seconds: float) -> dict[str, Any]:
    actual, reference = measurement.implementation(), measurement.reference()
    compared = 0
    for text in itertools.islice(texts, 200):  # and both are warm now
        if actual(text) != reference(text) and measurement.agree:
            raise SystemExit(f"the package and the reference differ: {actual(text)!r}, {reference(text)!r}")
        compared += measurement.agree
    rate, yardstick = rate_of(actual, texts, seconds), rate_of(reference, texts, seconds)
    return {
        "what": measurement.what,
        "megabytes_per_second": round(rate, 2),
        "reference_megabytes_per_second": round(yardstick, 2),
        "times_the_reference": round(rate / yardstick, 1),
        "pages_compared": compared,
    }


def rate_of(work: Callable[[str], Any], texts: Sequence[str], seconds: float) -> float:
    """Return 10^6 bytes per CPU second, measured in rounds of 100 pages."""
    size, waiting = 0, itertools.cycle(texts)
    start = time.process_time()
    while time.process_time() - start < seconds:
        some = list(itertools.islice(waiting, 100))
        for text in some:
            work(text)
        size += sum(len(text) if text.isascii() else len(text.encode()) for text in some)
    return size / 1e6 / (time.process_time() - start)


def our_cleaning() -> Callable[[str], Any]:
    from t5x_like.corpora.pages.crawled_page import Page
    from t5x_like.corpora.rules.cleaning import C4Cleaning
    from t5x_like.corpora.rules.rule import Dropped

    rule = C4Cleaning()

    def clean(text: str) -> tuple[str | None, Counter[str]]:
        counts: Counter[str] = Counter()
        result = rule.apply(Page("", text), counts)
        return (None if isinstance(result, Dropped) else result.text), counts

    return clean


def our_count() -> Callable[[str], Any]:
    from t5x_like.corpora.rules.sentences import count_sentences

    return count_sentences


def our_english(fast: bool) -> Callable[[str], Any]:
    from t5x_like.corpora.pages.crawled_page import Page
    from t5x_like.corpora.rules.language_fasttext import FastText
    from t5x_like.corpora.rules.languages import Languages
    from t5x_like.corpora.rules.rule import Dropped

    rule = Languages(identifier=FastText(), min_probability=0.4) if fast else Languages()
    return lambda text: not isinstance(rule.apply(Page("", text), Counter()), Dropped)


def whole_rules() -> dict[str, Callable[[str], Any]]:
    """Return functions that clean a page and detect its language: those of the reference and of the package."""
    actual = {name: in_turn(our_cleaning(), our_english(name == "fast")) for name in ("exact", "fast")}
    return {"reference": plain_path(), **actual}


def our_bad_words() -> Callable[[str], Any]:
    from t5x_like.corpora.pages.crawled_page import Page
    from t5x_like.corpora.rules.bad_words import BadWords
    from t5x_like.corpora.rules.rule import Dropped

    rule = BadWords()
    return lambda text: not isinstance(rule.apply(Page("", text, language="en"), Counter()), Dropped)


MEASUREMENTS = {
    "cleaning": Measurement(
        what="line and page rules of C4, with the sentences they ask for",
        implementation=our_cleaning,
        reference=plain_cleaning,
    ),
    "sentences": Measurement(
        what="all sentences of all lines, counted", implementation=our_count, reference=plain_count
    ),
    "english": Measurement(
        what="what langdetect says is English",
        implementation=lambda: our_english(False),
        reference=plain_english,
    ),
    "fast_english": Measurement(
        what="what fastText says is English, compared with langdetect",
        implementation=lambda: our_english(True),
        reference=plain_english,
        agree=False,
    ),
    "bad_words": Measurement(
        what="English bad words, 377 terms", implementation=our_bad_words, reference=plain_bad_words
    ),
}


if __name__ == "__main__":
    main()
