"""``t5x-like corpus explain``: every rule's verdict on pages, and every line's."""

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from t5x_like.cli.main import USER_ERROR, main

PROSE = (
    "The old harbour was built by fishermen in the nineteenth century.\n"
    "Visitors can still see the wooden cranes along the quay.[1]\n"
    "Every summer the town holds a small festival with music and food.\n"
)
MENU = "Home\nAbout us\nThis website uses cookies to improve your visit.\n"


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["corpus", "explain", *arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.rstrip("\n").split("\n")]


def write_rows(path: Path, *rows: dict[str, Any]) -> str:
    content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return str(path)


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.jsonl.gz"])
def test_json_has_an_object_for_every_row_also_without_address_or_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
):
    rows = ({"url": "https://a.org/", "text": MENU + PROSE}, {"text": MENU}, {"url": "b.org", "text": " \n"})
    kept, menu, blank = explained(capsys, "--input", write_rows(tmp_path / name, *rows))
    assert kept == {
        "url": "https://a.org/",
        "cleaned_text": PROSE.replace("[1]", "").strip(),
        "kept": True,
        "reason": None,
        "lines": [
            {"line": "Home", "decision": "line-filtered:no_endmark"},
            {"line": "About us", "decision": "line-filtered:no_endmark"},
            {"line": MENU.splitlines()[2], "decision": "line-filtered:policy"},
            *({"line": line, "decision": "line-passed"} for line in PROSE.splitlines()),
        ],
    }
    for page, url in ((menu, None), (blank, "b.org")):
        assert page["url"] == url
        assert page["cleaned_text"] is None
        assert not page["kept"]
        assert page["reason"] == "filtered:too_few_sentences"


def test_a_page_that_is_too_long_is_cleaned_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "long.txt").write_text(PROSE * 1500)
    (page,) = explained(capsys, str(tmp_path / "long.txt"))
    assert not page["kept"]
    assert page["reason"] == "filtered:too_long"
    assert page["cleaned_text"].count("\n") == 3 * 1500 - 1


def test_standard_input_is_a_page_and_as_input_it_is_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    for arguments, content in ((["-"], PROSE), (["--input", "-"], json.dumps({"text": PROSE}))):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        (page,) = explained(capsys, *arguments)
        assert page["kept"]


@pytest.mark.parametrize("name", ["mine.txt", "bad.txt", "en.txt", "mine.json", "by_language.json"])
def test_other_bad_words_are_looked_for_whatever_their_file_is_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
):
    (tmp_path / "page.txt").write_text(PROSE)
    words: Any = {"en": ["wooden cranes"]} if name.startswith("by") else ["wooden cranes"]
    (tmp_path / name).write_text("\n".join(words) if name.endswith(".txt") else json.dumps(words))
    (page,) = explained(capsys, str(tmp_path / "page.txt"), "--bad_words", str(tmp_path / name))
    assert page["reason"] == "filtered:badwords"
    assert page["cleaned_text"] is not None


def test_people_get_a_table_without_colours_where_there_is_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "menu.txt").write_text(MENU + "A stranger's line \x1b[31m may colour no terminal.[2]\n")
    assert main(["corpus", "explain", str(tmp_path / "menu.txt")]) == 0
    assert capsys.readouterr().out.split("\n") == [
        f"{tmp_path}/menu.txt  dropped, filtered:too_few_sentences",
        "  too-long-filter  passed",
        "  clean-page       filtered:too_few_sentences  "
        "2 line-filtered:no_endmark, 1 line-filtered:policy, 1 line-passed",
        "  english-filter   not reached",
        "  badwords-filter  not reached",
        "    line-filtered:no_endmark     Home",
        "    line-filtered:no_endmark     About us",
        "    line-filtered:policy         This website uses cookies to improve your visit.",
        "    line-passed                1 A stranger's line \\x1b[31m may colour no terminal.[2]",
        "                     becomes     A stranger's line \\x1b[31m may colour no terminal.",
        "",
        "1 page, 0 kept",
        "  filtered:too_few_sentences  1",
        "4 lines, 1 kept",
        "  line-filtered:no_endmark  2",
        "  line-filtered:policy      1",
        "Left out, since they look at all pages: duplicate-url-filter, dedupe-lines",
        "",
    ]


def test_without_a_rule_for_lines_every_line_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "page.txt").write_text(MENU + PROSE)
    recipe = ["--recipe", "gin/corpora/c4_en_noclean.gin"]
    (page,) = explained(capsys, str(tmp_path / "page.txt"), *recipe)
    assert {line["decision"] for line in page["lines"]} == {"line-passed"}
    assert page["cleaned_text"] == MENU + PROSE


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ('{"url": "a"}\n', "line 1: 'text' should be text, not None; there are url"),
        ('{"text": "a"}\n[1]\n', "line 2: an object {…} is expected, found list"),
        ('{"text": "a"\n', "line 1: invalid JSON"),
    ],
)
def test_rows_that_cannot_be_read_are_named_and_the_others_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: str, complaint: str
):
    (tmp_path / "pages.jsonl").write_text(rows + '{"url": "good", "text": "Short."}\n')
    assert main(["corpus", "explain", "--input", str(tmp_path / "pages.jsonl"), "--json"]) == 0
    printed = capsys.readouterr()
    assert f"{tmp_path}/pages.jsonl, {complaint}" in printed.err
    *_, unreadable, good = map(json.loads, printed.out.splitlines())
    assert (unreadable["reason"], unreadable["kept"], unreadable["lines"]) == ("unreadable", False, [])
    assert (good["url"], good["reason"]) == ("good", "filtered:too_few_sentences")


def test_no_page_is_a_mistake_that_says_what_to_give(capsys: pytest.CaptureFixture[str]):
    assert main(["corpus", "explain"]) == USER_ERROR
    assert "no page given\n  give text files, --input pages.jsonl, or -" in capsys.readouterr().err


def test_golden_pages_are_kept_by_all_rules_as_the_reference_keeps_them(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rows = [json.loads(line) for line in (golden / "c4" / "pages.jsonl").read_text().rstrip().split("\n")]
    for row in rows:
        if row["text"] is None:
            unit, size = row["text_repeat"]["unit"], row["text_repeat"]["total_chars"]
            row["text"] = (unit * (size // len(unit) + 1))[:size]
    words = json.loads((golden / "c4" / "lang_and_badwords.json").read_text())["toy_badwords"]
    (tmp_path / "toy.txt").write_text("\n".join(words))
    pages = explained(
        capsys,
        *("--input", write_rows(tmp_path / "pages.jsonl", *rows)),
        *("--bad_words", str(tmp_path / "toy.txt")),
    )
    assert [page["kept"] for page in pages] == [row["kept_single_page_pipeline"] for row in rows]
    for page, row in zip(pages, rows, strict=True):
        if not isinstance(row["clean_text"], dict):
            assert page["cleaned_text"] == row["clean_text"], row["tag"]
            decisions = [line["decision"] for line in page["lines"]]
            assert decisions == [line["decision"] for line in row["lines"]], row["tag"]
