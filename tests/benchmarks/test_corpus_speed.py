"""What the speed of a corpus' rules is compared with gives the same pages."""

import pytest

from benchmarks.corpus_speed import FOOTER, MEASUREMENTS, MENU, measure
from benchmarks.corpus_whole import cut, write_wet_files
from t5x_like.corpora.pages.page_reader import read_pages

PROSE = "The old harbour was built by fishermen in the nineteenth century.[1]\n"
TEXTS = [
    MENU + PROSE * 3 + FOOTER,
    MENU + FOOTER,
    PROSE * 3 + "It has a { in it here.\n",
    PROSE + "Here you find more about javascript.\nWe use cookies on this site.\nIt ends. Here. It does...\n",
    PROSE
    + "Dr. Smith met Mr. Jones at 5 p.m. in the U.S. embassy. He left at 9.\n"
    + "x" * 1001
    + " a b c d.\n",
    PROSE * 3 + "Here is some Lorem Ipsum text.\n",
]


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_ours_and_the_yardstick_agree(name: str):
    row = measure(MEASUREMENTS[name], TEXTS, seconds=0.01)
    assert row["pages_compared"] == (len(TEXTS) if MEASUREMENTS[name].agree else 0)
    assert row["megabytes_per_second"] > 0


def test_pages_that_are_cut_and_written_as_wet_files_are_read_again(tmp_path):
    pages = list(cut(TEXTS, limit=200))
    assert "\n".join(pages).split() == " ".join(TEXTS).split()
    assert max(map(len, pages)) < 200 + 1100  # a line is never cut
    assert write_wet_files(pages, str(tmp_path)) == sum(len(page.encode()) for page in pages)
    read = [result.page.text for file in tmp_path.iterdir() for result in read_pages(file)]
    assert sorted(read) == sorted("\n".join(filter(None, page.split("\n"))) for page in pages)
