"""The page says what the manifest says, shows all pages as text, and needs nothing from outside."""

import copy
from html.parser import HTMLParser

import pytest

from t5x_like.cli.main import main
from t5x_like.io.files import write_json, write_jsonl
from t5x_like.reports.corpus_report import corpus_report, write_corpus_report
from t5x_like.reports.rendering import share
from tests.corpora.building.tiny import build, write_files

SPLIT = {"shards": 1, "pages": 3, "chars": 1500, "bytes": 700}
MANIFEST = {
    "format": "t5x_like corpus",
    "version": 1,
    "made from": {
        "recipe": "c4_<en>",
        "step 1": "…",
        "format": "jsonl.zst",
        "input": {"bytes": 5000, "files": {}},
    },
    "libraries": {"langdetect": "1.0.9"},
    "input": {"files": 2, "bytes": 5000, "pages": 1000, "chars": 2_500_000},
    "reading": {
        "counts": {"split-wet-file:passed": 1000, "split-wet-file:damaged:truncated": 1},
        "examples": {
            "split-wet-file:damaged:truncated": ["crawl/<1>.wet.gz, record at byte 77: ends too early"]
        },
        "damaged": 1,
    },
    "splits": {"train": SPLIT, "validation": {**SPLIT, "pages": 1}},
    "steps": [
        {
            "name": "clean-page",
            "rule": "C4Cleaning(min_sentences=3), version 1",
            "version": 1,
            "looks at": "a page",
            "in": 1000,
            "kept": 400,
            "dropped": {"filtered:too_few_sentences": 550, "filtered:own_reason": 50},
            "seen": {"line-passed": 900, "line-filtered:no_endmark": 100},
        },
        {
            "name": "dedupe-lines",
            "rule": "DuplicateLines(min_sentences=3), version 1",
            "version": 1,
            "looks at": "all pages",
            "in": 400,
            "kept": 14,
            "dropped": {"filtered:empty": 386},
            "repeated": {"Follow <us>\u202e.": 77, "": 5},
            "seen": {
                "line-passed": 300,
                "line-filtered:global_duplicate": 590,
                "line-filtered:local_duplicate": 10,
            },
        },
        {
            "name": "english-filter",
            "rule": "Languages(keep=('en',)), version 1",
            "version": 1,
            "looks at": "a page",
            "in": 14,
            "kept": 5,
            "dropped": {"filtered:ignored_language": 9},
            "seen": {"filtered:ignored_language-fr": 9},
        },
        {
            "name": "badwords-filter",
            "rule": "BadWords(), version 1",
            "version": 1,
            "looks at": "a page",
            "in": 5,
            "kept": 4,
            "dropped": {"filtered:badwords": 1},
            "seen": {},
        },
    ],
    "languages": {"en": 4},
    "lengths": {"unit": "bits", "read": {"0": 10, "9": 700, "12": 290}, "kept": {"8": 1, "9": 3}},
    "stages": [{"name": "clean", "tasks": 2, "seconds": {"wall": 3.0, "processor": 2.5}}],
    "shards": [{"file": "train-00000-of-00001.jsonl.zst", "pages": 3, "bytes": 700, "crc32c": "1a2b3c4d"}],
}
SAMPLES = [
    {
        "step": "clean-page",
        "number": 1,
        "fate": "filtered:own_reason",
        "url": "javascript:alert(1)",
        "text": "Too <b>short",
    },
    {
        "step": "badwords-filter",
        "number": 4,
        "fate": "filtered:badwords",
        "url": "http://foulness.example/swearing",
        "text": "Such foulness and swearing.",
    },
    {
        "step": "kept",
        "number": 5,
        "fate": "kept",
        "url": "http://example.org/",
        "text": "</pre><script>alert(1)</script> a\x00b\x1b[0m \u202eback \ud800 &amp; 漢字 " + "long " * 300,
    },
]


@pytest.fixture(scope="module")
def html():
    return corpus_report(MANIFEST, SAMPLES)


class _Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.words, self.tags, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "line", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.words.append(data)


def _read(html):
    seen = _Seen()
    seen.feed(html)
    assert not seen.open
    return seen, " ".join(" ".join(seen.words).split())


def test_it_shows_how_many_pages_stay_and_why_others_were_dropped(html):
    _, text = _read(html)
    assert "pages kept 4 0.40 % of 1,000; 1 for validation" in text
    assert "duplicates removed 600 66.7 % of the lines or sentences" in text
    assert "clean-page C4Cleaning(min_sentences=3) 400 600 60.0 %" in text
    assert "too few sentences clean-page: filtered:too_few_sentences 550 55.0 %" in text
    assert "own reason clean-page: filtered:own_reason 50 5.0 %" in text
    assert "are on another page line-filtered:global_duplicate 590 65.6 %" in text
    assert "times how it begins 77 Follow <us>\ufffd. 5 an empty line" in text
    assert "text kept 3.0 k 0.12 % of 2.5 M characters" in text
    assert "fr 0 9" in text
    assert "crawl/<1>.wet.gz, record at byte 77: ends too early" in text
    assert "pages a second and core 400" in text


def test_evaluation_texts_and_personal_data_are_reported_and_repetition_is_no_copy():
    other = copy.deepcopy(MANIFEST)
    other["steps"][0]["dropped"] = {"filtered:duplicate_5_grams": 600}
    other["steps"][3]["seen"] = {"n-grams:squad": 12, "pages:squad": 3, "masked:email": 7, "-en:filtered": 1}
    _, text = _read(corpus_report(other, []))
    assert "of the lines or sentences processed damage in" in text
    assert "runs of words shared with evaluation texts “squad” 12" in text
    assert "pages that share such runs with “squad” 3" in text
    assert "masked: email 7" in text
    assert "pages in en: filtered 1" in text


def test_bars_of_steps_add_up_to_the_pages_that_came(html):
    seen, _ = _read(html)
    widths = [attrs["style"] for tag, attrs in seen.tags if tag == "i" and "style" in attrs]
    assert widths[:5] == ["width:100.00%", "width:40.00%", "width:60.00%", "width:1.40%", "width:38.60%"]


def test_what_pages_hold_is_shown_and_never_run(html):
    seen, text = _read(html)
    assert {tag for tag, _ in seen.tags}.isdisjoint({"script", "a", "img", "link", "iframe", "b"})
    assert not any(
        name.startswith("on") or name in ("href", "src") for _, attrs in seen.tags for name in attrs
    )
    assert "</pre><script>alert(1)</script> a\ufffdb\ufffd[0m \ufffdback \ufffd &amp; 漢字 long" in text
    assert text.count("long") < 150
    assert "http://" not in "".join(str(attrs) for tag, attrs in seen.tags if tag != "meta")
    html.encode("utf-8")


def test_foul_words_are_not_spelled_out(html):
    assert "foulness" not in html
    assert "swearing" not in html
    assert "S··· f······· a·· s·······." in html


def test_a_reader_of_a_dark_screen_gets_dark_paper(html):
    assert "@media (prefers-color-scheme: dark)" in html
    assert "color-scheme: light dark" in html


def test_an_empty_corpus_has_a_page_too():
    nothing = copy.deepcopy(MANIFEST)
    nothing["input"].update(pages=0, chars=0)
    nothing["splits"] = {split: dict.fromkeys(SPLIT, 0) for split in ("train", "validation")}
    nothing["lengths"].update(read={}, kept={})
    nothing["languages"] = {}
    for step in nothing["steps"]:
        step.update({"in": 0, "kept": 0, "dropped": {}, "seen": {}})
    nothing["stages"][0]["seconds"] = {}
    _, text = _read(corpus_report(nothing, []))
    assert "No page was dropped." in text
    assert "Lengths of pages" not in text


def test_the_verb_writes_the_page_next_to_the_corpus(tmp_path, capsys):
    write_json(tmp_path / "manifest.json", MANIFEST)
    write_jsonl(tmp_path / "samples.jsonl", [row for row in SAMPLES if row["fate"] != "kept"])
    assert main(["corpus", "report", str(tmp_path)]) == 0
    assert f"written to {tmp_path}/report.html" in capsys.readouterr().out
    _read((tmp_path / "report.html").read_text())


def test_a_folder_without_a_corpus_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no corpus was finished there; run t5x-like corpus build"):
        write_corpus_report(tmp_path, tmp_path / "report.html")


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(1, 3, "33.3 %"), (0, 3, "0 %"), (1, 0, "–"), (1, 10**6, "< 0.01 %"), (1, 200, "0.50 %")],
)
def test_shares_have_the_digits_they_need(part, whole, expected):
    assert share(part, whole) == expected


def test_histograms_have_a_column_for_each_side_of_each_length():
    lengths = {"unit": "bits", "read": {"3": 1, "5": 3}, "kept": {"4": 2}}
    svg = corpus_report(MANIFEST | {"lengths": lengths}, [])
    assert svg.count("<rect") == 6
    assert "16 to 31 characters: 3 of 4 pages as read" in svg
    assert "8 to 15 characters: 2 of 2 pages in the corpus" in svg


def test_a_damaged_corpus_with_a_report_can_be_built_again(tmp_path):
    inputs = write_files(tmp_path / "in", [[{"url": "a", "text": "Some text."}]])
    build(inputs, tmp_path / "out")
    assert main(["corpus", "report", str(tmp_path / "out")]) == 0
    shard = next((tmp_path / "out").glob("*-of-*.zst"))
    whole = shard.read_bytes()
    shard.write_bytes(b"")
    build(inputs, tmp_path / "out")
    assert shard.read_bytes() == whole
