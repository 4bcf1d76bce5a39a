"""What is said of long work where there is no terminal to draw a bar on."""

import io
import re
import time

from t5x_like.io.progress import Progress


def told(total, unit, *, before=0, **options):
    stream = io.StringIO()
    with Progress("reading", total, unit, stream=stream, **options) as progress:
        progress.skip(before)
        progress.reach(2_000_000)
        progress.relabel("writing")
        progress.add(500_000)
    return re.sub(r"[\d.,]+ (?:MB|GB|rows)/s", "N/s", stream.getvalue()).splitlines()


def test_lines_tell_amount_share_rate_and_the_time_left():
    assert told(10_000_000, "bytes", seconds_between_lines=0.0) == [
        "reading: 2.0 MB of 10.0 MB (20%), N/s, 0 s left",
        "writing: 2.5 MB of 10.0 MB (25%), N/s, 0 s left",
    ]
    assert told(None, "rows", seconds_between_lines=0.0)[0] == "reading: 2,000,000 rows, N/s"


def test_what_was_done_before_counts_for_the_share_and_not_for_the_rate():
    assert told(10_000_000, "bytes", before=2_000_000, seconds_between_lines=0.0)[0] == (
        "reading: 2.0 MB of 10.0 MB (20%)"
    )


def test_short_or_hidden_work_is_silent():
    assert told(10_000_000, "bytes") == []
    assert told(10_000_000, "bytes", shown=False, seconds_between_lines=0.0) == []


def test_a_line_is_printed_also_while_a_single_unit_takes_long():
    stream = io.StringIO()
    with Progress("compiling", 3, "rows", stream=stream, seconds_between_lines=0.02) as progress:
        time.sleep(0.3)
        progress.add(1)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 3
    assert lines[0] == "compiling: 0 rows of 3 rows (0%)"
    time.sleep(0.1)
    assert stream.getvalue().splitlines() == lines
