"""The corpus that C4's own builder makes of a WET file, from the golden set."""

import json
from pathlib import Path

import pytest

from benchmarks.references.corpora import check_build


@pytest.mark.parametrize(("recipe", "config"), [("c4_en", "en"), ("c4_en_noclean", "en.noclean")])
def test_the_corpus_is_the_references(golden: Path, recipe: str, config: str):
    content = json.loads((golden / "c4" / "end_to_end.json").read_text())
    check_build(recipe, golden / "c4" / "sample.warc.wet.gz", content, config)
