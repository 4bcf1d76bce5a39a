"""Measure how often fastText and langdetect agree on real pages, and at which threshold they agree best.

    apt-get download manpages-{de,fr,es,it,nl,pl,sv,fi,hu,tr,ru,uk,ja,zh} anarchism python3.11-doc
    python benchmarks/language_agreement.py --packages *.deb --output agreement.json

Texts are pieces of 200 to 3,000 characters of manual pages and of HTML in Debian packages. They are hard: manual pages
are full of options and file names, and translated ones have passages in English. The expected language of a page is
that in the name of its package, else English. Prints a JSON object; ``--output`` keeps it.
"""

import argparse
import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t5x_like.corpora.rules.language_fasttext import FastText
from t5x_like.corpora.rules.language_langdetect import LangDetect
from t5x_like.corpora.rules.rule import LanguageIdentifier, LanguagePrediction
from t5x_like.io.files import write_json

SIZES = (200, 500, 1000, 3000)
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.8, 0.9, 0.99)
CERTAIN = 0.99  # langdetect's threshold in C4
PIECES = 150  # of each size and language, of English four times as many
_LANGUAGE = re.compile(r"(?:manpages|debian-[a-z]+)-([a-z]{2})(?=[_-])")
_ROFF = re.compile(r"\\f(?:[A-Z0-9]|\(..)|\\\(..|\\[-&e]")


class Piece(NamedTuple):
    """A piece of a real page."""

    language: str
    text: str


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packages", nargs="+", required=True, metavar="DEB")
    parser.add_argument("--output", metavar="FILE")
    arguments = parser.parse_args()
    documents: dict[str, list[str]] = defaultdict(list)
    for package in sorted(arguments.packages):
        match = _LANGUAGE.match(Path(package).name)
        documents[match[1] if match else "en"] += read_documents(package)
    result: dict[str, Any] = {"documents": {name: len(texts) for name, texts in sorted(documents.items())}}
    for size in SIZES:
        pieces = [
            piece for name, texts in sorted(documents.items()) for piece in pieces_of(name, texts, size)
        ]
        result[f"{size} characters"] = row = compare(pieces)
        print(f"{size} characters: {row}", file=sys.stderr)
    print(json.dumps(result, indent=2))
    if arguments.output:
        write_json(arguments.output, result)


def read_documents(package: str) -> Iterator[str]:
    """Yield the texts of a Debian package's manual pages and HTML files."""
    from resiliparse.extract.html2text import extract_plain_text

    unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(unpacked.stdout)) as archive:
        for entry in archive:
            content = archive.extractfile(entry) if entry.isfile() else None
            if content is None:
                continue
            if "/man/" in entry.name and entry.name.endswith(".gz"):
                yield without_roff(gzip.decompress(content.read()).decode(errors="replace"))
            elif entry.name.endswith(".html"):
                yield extract_plain_text(content.read().decode(errors="replace"), main_content=True)


def without_roff(page: str) -> str:
    lines = [_ROFF.sub("", line) for line in page.split("\n") if not line.startswith((".", "'"))]
    return "\n".join(line for line in lines if line.strip())


def pieces_of(language: str, texts: Sequence[str], size: int) -> list[Piece]:
    """Return the middles of pages that are long enough, those with the lowest hashes."""
    middles = {text[(len(text) - size) // 2 :][:size] for text in texts if len(text) >= size}
    chosen = sorted(middles, key=lambda text: hashlib.md5(text.encode(errors="replace")).digest())
    return [Piece(language, text) for text in chosen[: PIECES * (4 if language == "en" else 1)]]


def compare(pieces: Sequence[Piece]) -> dict[str, Any]:
    slow, slow_rate = guess(LangDetect(), pieces)
    fast, fast_rate = guess(FastText(), pieces)
    english = [is_english(result, CERTAIN) for result in slow]
    row: dict[str, Any] = {
        "pieces": len(pieces),
        "langdetect_a_second": slow_rate,
        "fasttext_a_second": fast_rate,
    }
    row["same_language"] = share([code(a) == code(b) for a, b in zip(slow, fast, strict=True)])
    row["right"] = {
        name: share([code(result) == piece.language for result, piece in zip(guesses, pieces, strict=True)])
        for name, guesses in (("langdetect", slow), ("fasttext", fast))
    }
    for threshold in THRESHOLDS:
        too = [is_english(result, threshold) for result in fast]
        both = sum(a and b for a, b in zip(english, too, strict=True))
        row[f"english at {threshold}"] = {
            "same_verdict": share([a == b for a, b in zip(english, too, strict=True)]),
            "of_langdetects_kept": round(both / max(1, sum(english)), 4),
            "of_fasttexts_kept": round(both / max(1, sum(too)), 4),
        }
    return row


def guess(
    identifier: LanguageIdentifier, pieces: Sequence[Piece]
) -> tuple[list[LanguagePrediction | None], int]:
    """Return the most probable language of each text, and texts per CPU second."""
    identifier.predict("Load the tables.")
    start = time.process_time()
    results = [(identifier.predict(piece.text) or [None])[0] for piece in pieces]
    return results, round(len(pieces) / (time.process_time() - start))


def is_english(result: LanguagePrediction | None, threshold: float) -> bool:
    return result is not None and result.language == "en" and result.probability >= threshold


def code(result: LanguagePrediction | None) -> str | None:
    return result.language.split("-")[0] if result else None


def share(verdicts: Sequence[bool]) -> float:
    return round(sum(verdicts) / len(verdicts), 4)


if __name__ == "__main__":
    main()
