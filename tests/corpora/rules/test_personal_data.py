"""Masking of personal data, and text that only resembles it."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.personal_data import MaskPersonalData

SHORT = MaskPersonalData(email="<E>", phone="<P>", ip="<I>")


def masked(text: str, rule: MaskPersonalData = SHORT) -> str:
    outcome = rule.apply(Page("example.org", text), Counter())
    assert isinstance(outcome, Page)
    return outcome.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to jane.doe+news@mail.example.co.uk.", "Write to <E>."),
        ("<a@b.org>,x_y%z@sub-domain.example.com;", "<<E>>,<E>;"),
        ("mailto:Jane.O'Neil@EXAMPLE.ORG?subject=x", "mailto:<E>?subject=x"),
        ("'me@example.org'", "'<E>'"),
        ("...me@example.org...", "...<E>..."),
        ("Call +49 (0)30 1234-5678 today.", "Call <P> today."),
        ("Call +44 20 7946 0958, or not.", "Call <P>, or not."),
        ("0049 30 12345678", "<P>"),
        ("+442079460958", "<P>"),
        ("(212) 555-0123 or 212-555-0123, 1-800-555-0199, 212.555.0123.", "<P> or <P>, <P>, <P>."),
        ("Phone: 030 1234567. Fax 0171/1234567", "Phone: <P>. Fax <P>"),
        ("tel.: 555-0123 (evenings)", "tel.: <P> (evenings)"),
        ("from 93.184.216.34, at 08:15", "from <I>, at 08:15"),
        ("http://93.184.216.34:8080/x and 93.184.216.34/24.", "http://<I>:8080/x and <I>/24."),
        ("[2606:2800:220:1:248:1893:25c8:1946]", "[<I>]"),
        ("at 2606:2800::1946: done", "at <I>: done"),
        ("2600:: or 2600::.", "<I> or <I>."),
    ],
)
def test_personal_data_are_masked(text, expected):
    assert masked(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "icon@2x.png",
            "@user",
            "user@localhost",
            "a@b",
            "@ home.",
            "me @ example.org",
            "x" * 65 + "@example.org",
        ),
        *(
            "version 1.22.33.44",
            "v1.22.33.44",
            "Firmware: 10.20.30.40",
            "see 3.1.4.2 and 1.3.6.1.4.1.311",
            "§ 12.13.14.15",
        ),
        *("192.168.1.10", "10.20.30.40", "127.0.0.1 localhost", "300.400.500.600", "1.22.33", "1.22.33.444a"),
        *("08:15:30", "std::vector", "a::b", "fe80::1", "::1", "12:30", "dead:beef", "00:1a:2b:3c:4d:5e"),
        *(
            "2019-04-21",
            "21.04.2019",
            "from 2019 to 2021",
            "called 2019-04-21",
            "Call 2019-04-21",
            "call 21.04.2019",
        ),
        *(
            "$1,234,567.89",
            "1 234 567 890",
            "+10 000 000 visitors",
            "+1 000 000 000",
            "3.14159265358979",
            "5 + 1234567890",
        ),
        *(
            "ISBN 978-3-16-148410-0",
            "212-555-01234",
            "1212-555-0123",
            "112-555-0123",
            "212-055-0123",
            "212 555-0123",
        ),
        *(
            "12345-67890-12345",
            "call 12345",
            "+12345678a",
            "mobile 123456789x",
            "4111 1111 1111 1111",
            "+5 -3 +2",
        ),
    ],
)
def test_text_that_only_resembles_personal_data_stays(text):
    assert masked(text) == text


def test_disabled_masks_leave_text_and_the_others_are_counted():
    text = "a@b.org c@d.org 93.184.216.34 +442079460958"
    counts: Counter[str] = Counter()
    assert masked(text, MaskPersonalData(email=None)) == "a@b.org c@d.org |||IP_ADDRESS||| |||PHONE_NUMBER|||"
    MaskPersonalData(email=None).apply(Page("example.org", text), counts)
    assert counts == {"masked:ip": 1, "masked:phone": 1}
    MaskPersonalData().apply(Page("example.org", text), counts)
    assert counts["masked:email"] == 2
    page = Page("example.org", "nothing of it")
    assert MaskPersonalData().apply(page, counts) is page


PIECES = st.sampled_from(
    [
        *"0123456789@.:+-()/ a\n",
        "a@b.org",
        "+49 30 1234567",
        "93.184.216.34",
        "2606::1",
        "phone",
        "212-555-0123",
        "é",
        "²",
    ]
)


@given(st.lists(PIECES, max_size=30))
def test_masking_twice_masks_nothing_more(pieces):
    once = masked(" ".join(pieces), MaskPersonalData())
    assert masked(once, MaskPersonalData()) == once


def test_masking_takes_linear_time():
    for unit in (
        "a",
        "@",
        "a@",
        "a@a.",
        "1",
        "1.",
        "1.1.1.1.",
        "+1",
        "+",
        "(",
        "212-",
        "call ",
        "call 1 ",
        "a:",
        ":",
        "a::",
        "1 ",
        ".",
    ):
        text = unit * (400_000 // len(unit))
        start = time.process_time()
        masked(text)
        assert time.process_time() - start < 4, unit
