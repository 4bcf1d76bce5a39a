"""Pages are kept by their domain or URL."""

import gzip
import json
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t5x_like.corpora.pages.crawled_page import Page
from t5x_like.corpora.rules.rule import Dropped
from t5x_like.corpora.rules.string_sets import HashSet
from t5x_like.corpora.rules.url_lists import Domains, Urls, host_from_url


def verdict(rule: Domains | Urls, url: str) -> str:
    outcome = rule.apply(Page(url, "text"), Counter())
    return outcome.reason if isinstance(outcome, Dropped) else "passed"


def test_pages_below_a_listed_domain_stay(tmp_path):
    (tmp_path / "news.txt").write_text("Example.org\n\nhttps://www.news.example.co.uk/\n")
    rule = Domains(lists=str(tmp_path / "news.txt"))
    for url in (
        "example.org",
        "http://www.example.org:8080/a",
        "HTTPS://WWW.EXAMPLE.ORG/",
        "a.b.example.org?q",
        "news.example.co.uk./x",
    ):
        assert verdict(rule, url) == "passed", url
    for url in (
        "anexample.org",
        "example.org.evil.com",
        "example.com/example.org",
        "example.co.uk",
        "org",
        "",
        "me@evil.com",
    ):
        assert verdict(rule, url) == "filtered:bad_domain", url


def test_realnews_own_file_names_the_subdomains_of_some_domains(tmp_path):
    (tmp_path / "domains.json").write_text(json.dumps({"a.com": "", "b.com": ["news", ""], "c.com": ["x.y"]}))
    rule = Domains(lists=[str(tmp_path / "domains.json")])
    assert [verdict(rule, url) for url in ("m.a.com/1", "news.b.com", "www.b.com/2", "x.y.c.com")] == [
        "passed"
    ] * 4
    assert [verdict(rule, url) for url in ("m.b.com", "c.com", "y.c.com")] == ["filtered:bad_subdomain"] * 3
    assert verdict(rule, "d.com") == "filtered:bad_domain"


def test_pages_of_listed_urls_stay_in_any_spelling(tmp_path):
    (tmp_path / "1.txt").write_text("http://www.example.org/a/\nhttps://example.org/b?utm_source=x\n")
    (tmp_path / "2.txt.gz").write_bytes(gzip.compress("example.org/ü\n".encode()))
    rule = Urls(lists=(str(tmp_path / "*.txt"), str(tmp_path / "*.gz")))
    for url in ("example.org/a", "https://example.org/a?ref=1", "http://example.org/b/", "example.org/ü"):
        assert verdict(rule, url) == "passed", url
    for url in ("example.org", "example.org/A", "example.org/a/b", ""):
        assert verdict(rule, url) == "filtered:not_listed", url


@given(st.sets(st.text(max_size=5)), st.lists(st.text(max_size=5)))
def test_a_hash_set_holds_what_a_set_does(members, others):
    hashes = HashSet(members)
    assert len(hashes) == len(members)
    assert all((text in hashes) == (text in members) for text in [*members, *others])
    assert HashSet(sorted(members)).fingerprint() == hashes.fingerprint()


def test_other_lists_have_other_fingerprints(tmp_path):
    for name, content in {"a": "x.org\ny.org\n", "b": "y.org\nx.org\n", "c": "x.org\n"}.items():
        (tmp_path / f"{name}.txt").write_text(content)
    for kind in (Domains, Urls):
        a, b, c = (kind(lists=str(tmp_path / f"{name}.txt")).fingerprint() for name in "abc")
        assert a == b != c


@pytest.mark.parametrize("kind", [Domains, Urls])
def test_an_absent_list_is_reported_with_its_source(kind, tmp_path):
    with pytest.raises(
        ValueError, match=r"does not exist.*isn't shipped.*https://github.com/\w+/(grover|openwebtext)"
    ):
        verdict(kind(lists=str(tmp_path / "absent.txt")), "example.org")
    with pytest.raises(ValueError, match=r"no file matches .*isn't shipped"):
        verdict(kind(lists=str(tmp_path / "*.gz")), "example.org")


def test_damaged_lists_are_refused(tmp_path):
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"example.org\n" * 1000)[:-20])
    (tmp_path / "latin.txt").write_bytes(b"ex\xe4mple.org\n")
    (tmp_path / "empty.txt").write_bytes(b"\n")
    (tmp_path / "list.json").write_bytes(b"[]")
    (tmp_path / "cut.json").write_bytes(b"{")
    for name, message in {
        "cut.txt.gz": "can't be read to its end",
        "latin.txt": "can't be read to its end: 'utf-8' codec",
        "empty.txt": "no (domains|URLs) in there; give one on each line",
    }.items():
        for kind in (Domains, Urls):
            with pytest.raises(ValueError, match=message):
                verdict(kind(lists=str(tmp_path / name)), "example.org")
    with pytest.raises(ValueError, match=r"list.json has a list; needed is an object"):
        verdict(Domains(lists=str(tmp_path / "list.json")), "example.org")
    with pytest.raises(ValueError, match=r"cut.json is not JSON"):
        verdict(Domains(lists=str(tmp_path / "cut.json")), "example.org")


def test_absurd_urls_are_processed_fast(tmp_path):
    (tmp_path / "a.txt").write_text("example.org\n")
    rules = Domains(lists=str(tmp_path / "a.txt")), Urls(lists=str(tmp_path / "a.txt"))
    for unit in (".", "a.", "@", "a@", "://", "http://", "?ref", "a" * 99 + "@", "/"):
        url = unit * (3_000_000 // len(unit))
        start = time.process_time()
        host_from_url(url)
        for rule in rules:
            verdict(rule, url)
        assert time.process_time() - start < 10, unit
