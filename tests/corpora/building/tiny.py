"""Rules, pages and builds small enough for hundreds of them in a test."""

import io
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import zstandard

from t5x_like.corpora.building.build import build_corpus
from t5x_like.corpora.building.recipe import CorpusRecipe, UniqueUrls
from t5x_like.corpora.duplicates.duplicate_lines import DuplicateLines
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped
from tests.engines import CallingEngine


@dataclass(frozen=True, kw_only=True)
class MinChars:
    """Drops short pages; each takes as many seconds as the environment says."""

    NAME: ClassVar[str] = "min-chars"
    VERSION: ClassVar[int] = 1

    chars: int = 3

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        time.sleep(float(os.environ.get("SECONDS_A_PAGE", "0")))
        counts["chars"] += len(page.text)
        return page if len(page.text) >= self.chars else Dropped("filtered:short")


@dataclass(frozen=True, kw_only=True)
class NoDigits:
    """Drops pages with digits, and breaks on a word."""

    NAME: ClassVar[str] = "no-digits"
    VERSION: ClassVar[int] = 1

    def apply(self, page: Page, counts: Counter[str]) -> Page | Dropped:
        if "explode" in page.text:
            raise ZeroDivisionError("boom")
        return Dropped("filtered:digits") if any(map(str.isdigit, page.text)) else page


LINES = DuplicateLines(min_sentences=0)
STEPS = (MinChars(), UniqueUrls(), NoDigits(), LINES, MinChars(chars=2))


def recipe(*steps: Any, **fields: Any) -> CorpusRecipe:
    """Return a recipe with a fifth of its pages in validation, so that few pages fill both splits."""
    return CorpusRecipe(**{"name": "tiny", "steps": steps or STEPS, "validation_share": 0.2, **fields})


def page(url: str, text: str, timestamp: str = "2019") -> dict[str, str]:
    return {"url": url, "text": text, "timestamp": timestamp}


def write_files(folder: Path, files: Iterable[Sequence[dict[str, str]]]) -> str:
    """JSONL files of pages, and the pattern that names them."""
    folder.mkdir(parents=True)
    for index, pages in enumerate(files):
        lines = [json.dumps(row) for row in pages]
        (folder / f"{index:03d}.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder / "*.jsonl")


def build(
    inputs: str,
    output: Path,
    *steps: Any,
    workers: int = 1,
    engine: Any = None,
    run_all: Any = None,
    **fields: Any,
) -> Any:
    """Build a corpus without progress and return its manifest; ``run_all`` runs the tasks of a stage."""
    made = recipe(*steps, **fields)
    engine = CallingEngine(run_all) if run_all else engine
    return build_corpus(made, inputs, output, workers=workers, engine=engine, progress=False).manifest


def contents(output: Path) -> dict[str, bytes]:
    """Return the files of a corpus, without the manifest's times."""
    return {path.name: path.read_bytes() for path in sorted(output.iterdir()) if path.name != "manifest.json"}


def rows(output: Path, split: str = "*") -> list[dict[str, str]]:
    """Return the pages of a corpus, shard after shard."""
    lines = b"".join(
        zstandard.ZstdDecompressor().stream_reader(io.BytesIO(path.read_bytes())).read()
        for path in sorted(output.glob(f"{split}-*.jsonl.zst"))
    )
    return [json.loads(line) for line in lines.splitlines()]


def step(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the manifest's entry for the first step of this name."""
    return next(each for each in manifest["steps"] if each["name"] == name)
