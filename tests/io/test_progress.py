"""Progress lines and bars of long operations."""

import io
import re
import time

import pytest

from t5x_like.io import progress as progress_module
from t5x_like.io.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def report(total, unit, *, before=0, **options):
    stream = io.StringIO()
    with Progress("reading", total, unit, stream=stream, **options) as progress:
        progress.skip(before)
        progress.reach(2_000_000)
        progress.relabel("writing")
        progress.add(500_000)
    return re.sub(r"[\d.,]+ (?:MB|GB|rows)/s", "N/s", stream.getvalue()).splitlines()


def test_lines_show_amount_share_rate_and_the_remaining_time():
    assert report(10_000_000, "bytes", seconds_between_lines=0.0)[:1] == [
        "reading: 2.0 MB of 10.0 MB (20%), N/s, 0 s left"
    ]
    assert "writing: 2.5 MB of 10.0 MB (25%), N/s, 0 s left" in report(
        10_000_000, "bytes", seconds_between_lines=0.0
    )
    assert report(None, "rows", seconds_between_lines=0.0)[0] == "reading: 2,000,000 rows, N/s, 0 s elapsed"


def test_earlier_work_counts_for_the_share_and_not_for_the_rate():
    assert report(10_000_000, "bytes", before=2_000_000, seconds_between_lines=0.0)[0] == (
        "reading: 2.0 MB of 10.0 MB (20%), 0 s elapsed"
    )


def test_short_or_hidden_work_is_silent():
    assert report(10_000_000, "bytes") == []
    assert report(10_000_000, "bytes", shown=False, seconds_between_lines=0.0) == []


def test_lines_come_even_while_nothing_is_finished():
    stream = io.StringIO()
    with Progress("reading", 10_000_000, "bytes", stream=stream, seconds_between_lines=0.05):
        time.sleep(0.4)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 3
    assert set(lines) == {"reading: 0.0 MB of 10.0 MB (0%), 0 s elapsed"}


@pytest.mark.parametrize("unit", ["bytes", "shards"])
def test_a_terminal_has_a_bar_with_the_remaining_time_that_keeps_running(unit, monkeypatch):
    monkeypatch.setattr(progress_module, "_BAR_DELAY", 0.0)
    monkeypatch.setattr(progress_module, "_REFRESH_SECONDS", 0.05)
    stream = Terminal()
    with Progress("reading", 4_000_000, unit, stream=stream) as progress:
        progress.reach(1_000_000)
        time.sleep(0.5)
        shown = stream.getvalue()
    assert shown.count("reading:  25%") >= 3
    assert re.search(r"\[00:00<00:0\d", shown)


def test_a_short_operation_shows_no_bar():
    stream = Terminal()
    with Progress("reading", 10, "rows", stream=stream) as progress:
        progress.reach(10)
    assert stream.getvalue() == ""
