"""Rules for duplicates decide in a build as they do on pages in memory, for any partitions."""

import pytest

from benchmarks.references.corpora import texts
from t5x_like.corpora.building.recipe import CorpusRecipe
from t5x_like.corpora.duplicates.duplicate_lines import DuplicateLines
from t5x_like.corpora.duplicates.duplicate_spans import DuplicateSpans
from t5x_like.corpora.duplicates.duplicate_substrings import DuplicateSubstrings
from t5x_like.corpora.duplicates.near_duplicates import NearDuplicates
from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.gin_config.configuration import load
from tests.corpora.building.tiny import build, page, rows, write_files

SENTENCES = [f"The {color} {animal} sleeps." for color in ("red", "blue") for animal in ("cat", "dog", "owl")]


def _pages(number):
    """Pages of up to seven of the sentences, on lines of one or two."""
    pages = []
    for place in range(number):
        chosen = [SENTENCES[(place**2 + 3 * line + place // 5 * line) % 6] for line in range(1 + place % 7)]
        pages.append(
            Page(
                url=f"http://example.org/{place}",
                text="\n".join(chosen[:3]) + "".join(f" {c}" for c in chosen[3:]),
            )
        )
    return pages


@pytest.mark.parametrize(
    "rule",
    [
        DuplicateLines(min_sentences=0),
        DuplicateSpans(num_sentences=2, min_sentences=1),
        DuplicateSubstrings(num_tokens=8, min_characters=1),
        NearDuplicates(ngram=2, rows=4),
    ],
)
def test_a_corpus_keeps_what_the_rule_keeps(tmp_path, rule):
    pages = _pages(60)
    files = [[page(each.url, each.text) for each in pages[start : start + 20]] for start in (0, 20, 40)]
    build(write_files(tmp_path / "in", files), tmp_path / "out", rule, num_shards=4)
    made = {row["url"]: row["text"] for row in rows(tmp_path / "out")}
    expected = texts(rule, pages)
    assert made == expected
    assert 0 < len(made) < 60


@pytest.mark.parametrize(
    ("gin", "step", "rule"), [("c4_en_spans", 3, DuplicateSpans()), ("c4_en_near", 6, NearDuplicates())]
)
def test_recipes_of_c4_have_the_rules_in_their_positions(gin, step, rule):
    recipe = load([f"gin/corpora/{gin}.gin"], [], roots=[CorpusRecipe]).value
    assert recipe.name == gin
    assert recipe.steps[step] == rule


def test_the_manifest_lists_the_lines_removed_most_often(tmp_path):
    notice = "Follow us on all channels."
    files = [
        [page(f"{file}/{row}", f"Own text {file} {row}.\n{notice}\n") for row in range(9)]
        for file in range(2)
    ]
    built = build(write_files(tmp_path / "in", files), tmp_path / "out", DuplicateLines(min_sentences=0))
    assert built["steps"][0]["repeated"] == {"": 17, notice: 17}
