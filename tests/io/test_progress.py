"""What is said of long work where there is no terminal to draw a bar on."""

import io
import re

from t5x_like.io.progress import Progress


def report(total, unit, *, before=0, **options):
    stream = io.StringIO()
    with Progress("reading", total, unit, stream=stream, **options) as progress:
        progress.skip(before)
        progress.reach(2_000_000)
        progress.relabel("writing")
        progress.add(500_000)
    return re.sub(r"[\d.,]+ (?:MB|GB|rows)/s", "N/s", stream.getvalue()).splitlines()


def test_lines_show_amount_share_rate_and_the_remaining_time():
    assert report(10_000_000, "bytes", seconds_between_lines=0.0) == [
        "reading: 2.0 MB of 10.0 MB (20%), N/s, 0 s left",
        "writing: 2.5 MB of 10.0 MB (25%), N/s, 0 s left",
    ]
    assert report(None, "rows", seconds_between_lines=0.0)[0] == "reading: 2,000,000 rows, N/s"


def test_earlier_work_counts_for_the_share_and_not_for_the_rate():
    assert report(10_000_000, "bytes", before=2_000_000, seconds_between_lines=0.0)[0] == (
        "reading: 2.0 MB of 10.0 MB (20%)"
    )


def test_short_or_hidden_work_is_silent():
    assert report(10_000_000, "bytes") == []
    assert report(10_000_000, "bytes", shown=False, seconds_between_lines=0.0) == []
