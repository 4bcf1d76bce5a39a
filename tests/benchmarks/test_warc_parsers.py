"""What is lost in damaged WARC files: the figures of the decision to delimit records by code of our own."""

from benchmarks.warc_parsers import recovery, speed


def test_our_parser_reads_every_intact_record_and_fastwarc_loses_those_after_damage() -> None:
    table = recovery()
    assert {what: row["ours"]["read"] for what, row in table.items()} == {
        what: row["intact records"] for what, row in table.items()
    }
    losing = {what for what, row in table.items() if row["fastwarc"]["read"] < row["intact records"]}
    assert len(losing) >= 9
    assert all(table[what]["ours"]["reports damage"] for what in losing if what.startswith("Content-Length"))


def test_speeds_of_both_are_measured_on_intact_files() -> None:
    rates = speed(num_records=5, page_bytes=1000, repeats=1)
    assert min(rates.values()) > 0
