"""The corpus that C4's own builder makes of a WET file, from the golden set."""

import json

import pytest

from t5x_like.corpora.building.build import build_corpus
from t5x_like.corpora.building.recipe import CorpusRecipe
from t5x_like.gin_config.configuration import load
from tests.corpora.building.tiny import rows
from tests.references import GOLDEN

GOLDEN = GOLDEN / "c4"


# What the reference counts without a reason.
RENAMED = {
    "too-long-filter:filtered": "too-long-filter:filtered:too_long",
    "badwords-filter:filtered": "badwords-filter:filtered:badwords",
}


@pytest.fixture(scope="module")
def golden():
    return json.loads((GOLDEN / "end_to_end.json").read_text())


@pytest.mark.parametrize(("gin", "config"), [("c4_en", "en"), ("c4_en_noclean", "en.noclean")])
def test_the_corpus_is_the_references(tmp_path, golden, gin, config):
    words = tmp_path / "words"
    words.mkdir()
    (words / "en.txt").write_text("\n".join(golden["toy_badwords_en"]) + "\n")
    overrides = [f"BAD_WORDS='{words}'"] if gin == "c4_en" else []
    recipe = load([f"gin/corpora/{gin}.gin"], overrides, roots=[CorpusRecipe]).value
    built = build_corpus(recipe, str(GOLDEN / "sample.warc.wet.gz"), tmp_path / "out", progress=False)
    expected = golden["configs"][config]
    for split in ("train", "validation"):
        wanted = [page for page in expected["pages"] if page["split"] == split]
        fields = ("url", "timestamp", "text", "language")
        made = [tuple(row[name] for name in fields) for row in rows(tmp_path / "out", split)]
        assert sorted(made) == sorted(tuple(page[name] for name in fields) for page in wanted)
    # Beam counts addresses in several phases of a combination.
    counters = {
        RENAMED.get(name, name): count
        for name, count in expected["counters"].items()
        if not name.startswith("duplicate-url-filter:")
    }
    assert {name: _counters(built.manifest).get(name, 0) for name in counters} == counters


def _counters(manifest):
    found = dict(manifest["reading"]["counts"])
    for step in manifest["steps"]:
        own = {"passed": step["kept"], **step["dropped"], **step["seen"]}
        for name, count in own.items():
            found[step["name"] + ("" if name.startswith("-") else ":") + name] = count
    return found
