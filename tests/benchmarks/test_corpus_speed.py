"""What the speed of a corpus' rules is compared with gives the same pages."""

import pytest

from benchmarks.corpus_speed import FOOTER, MEASUREMENTS, MENU, measure

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
    assert row["pages_compared"] == len(TEXTS)
    assert row["megabytes_per_second"] > 0
